// A file to queues and workflows. Every mistake is collected, with its place.
#include "cli/queue/declaration.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/app/input.h"
#include "cli/app/toml_file.h"
#include "cli/app/usage.h"
#include "cli/app/values.h"

namespace once::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string kind_of(const Json& value) {
  if (value.is_string()) return fmt::format("\"{}\"", printable(value.get<std::string>()));
  if (value.is_array()) return "a list";
  if (value.is_object()) return "a table";
  return value.dump();
}

// A member that is there twice: the parser would take the last one without a word.
class Repetitions {
 public:
  bool operator()(int, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start) open_.emplace_back();
    if (event == Event::object_end) open_.pop_back();
    if (event == Event::key && !open_.back().insert(value.get<std::string>()).second)
      found.insert(value.get<std::string>());
    return true;
  }
  std::set<std::string> found{};

 private:
  std::vector<std::set<std::string>> open_{};
};

class Reader {
 public:
  Reader(std::string file, Declaration& to) : file_(std::move(file)), to_(to) {}

  void read(const std::string& text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first != std::string::npos && text[first] == '{')
      read_json(text);
    else
      read_toml(text);
  }

 private:
  void tell(std::string path, std::string what) {
    to_.mistakes.push_back({.at = spot(std::move(path)), .what = std::move(what)});
  }
  Spot spot(std::string path) const {
    Spot at{.path = std::move(path)};
    if (const auto line = lines_.find(at.path); line != lines_.end()) at.line = line->second;
    return at;
  }

  void read_json(const std::string& text) {
    Repetitions repetitions;
    try {
      const Json value = Json::parse(text, std::ref(repetitions));
      for (const std::string& name : repetitions.found)
        tell("", fmt::format("an object has the member \"{}\" twice", printable(name)));
      read_all_of(value);
    } catch (const Json::exception& error) {
      const std::string_view message = error.what();
      const std::size_t at = message.find("at line");
      tell("", fmt::format("this is no JSON: {}",
                           printable(message.substr(at == message.npos ? 0 : at))));
    }
  }

  void read_toml(const std::string& text) {
    auto file = parse_toml(text);
    if (!file) return tell("", fmt::format("this is no TOML: {}", file.error().message));
    lines_ = std::move(file->lines);
    read_all_of(file->value);
  }

  void read_all_of(const Json& value) {
    if (!value.is_object())
      return tell("", "a declaration is an object with \"queue\" and \"workflow\"");
    for (const auto& [name, list] : value.items()) {
      if (name != "queue" && name != "workflow") {
        unknown(name, name, {"queue", "workflow"});
      } else if (!list.is_array()) {
        tell(name, fmt::format("{0} is a list: [[{0}]] in TOML, \"{0}\":[...] in JSON", name));
      } else {
        for (std::size_t i = 0; i < list.size(); ++i) {
          const std::string path = fmt::format("{}[{}]", name, i);
          if (!list[i].is_object())
            tell(path, fmt::format("takes a table, not {}", kind_of(list[i])));
          else if (name == "queue")
            read_queue(list[i], path);
          else
            read_flow(list[i], path);
        }
      }
    }
  }

  void unknown(const std::string& path, const std::string& name,
               const std::vector<std::string>& known) {
    const auto meant = did_you_mean(name, known);
    tell(path, fmt::format("there is no such field; {}",
                           meant ? fmt::format("did you mean {}?", *meant)
                                 : fmt::format("there are: {}", fmt::join(known, ", "))));
  }

  // --- Queues

  void read_queue(const Json& fields, const std::string& path) {
    const std::size_t before = to_.mistakes.size();
    std::string name;
    QueueOptions options;
    for (const auto& [field, value] : fields.items()) {
      const std::string at = path + "." + field;
      if (field != "name")
        read_field(field, value, at, options);
      else if (value.is_string())
        name = value.get<std::string>();
      else
        tell(at, fmt::format("takes a text, not {}", kind_of(value)));
    }
    if (!fields.contains("name")) tell(path, "a queue needs a name");
    if (to_.mistakes.size() > before) return;
    if (!options.delivers() && !options.ledger)
      return tell(path, fmt::format("queue {} needs a topic, a stream or ledger = true", name));
    auto queue = queue_from(name, options);
    if (!queue) return tell(path, as_field(queue.error().message));
    if (!queues_.insert(name).second)
      return tell(path, fmt::format("queue {} is declared twice", name));
    to_.queues.push_back({spot(path), std::move(*queue), options.from});
  }

  // "--in-doubt takes ..." of the command line is "in_doubt takes ..." here.
  static std::string as_field(std::string message) {
    if (!message.starts_with("--")) return message;
    message.erase(0, 2);
    std::replace(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(message.find(' ')),
                 '-', '_');
    return message;
  }

  void read_field(const std::string& name, const Json& value, const std::string& at,
                  QueueOptions& options) {
    const auto fields = queue_fields();
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const QueueField& each) { return name == each.name; });
    if (field == fields.end()) {
      std::vector<std::string> known{"name"};
      for (const QueueField& each : fields) known.emplace_back(each.name);
      return unknown(at, name, known);
    }
    if (const auto* text = std::get_if<QueueField::Text>(&field->to))
      read_text(*field, value, at, options.*(*text));
    else if (const auto* length = std::get_if<QueueField::Length>(&field->to))
      read_length(*field, value, at, options.*(*length));
    else if (const auto* number = std::get_if<QueueField::Count>(&field->to))
      read_number(*field, value, at, options.*(*number));
    else if (!value.is_boolean())
      tell(at, fmt::format("takes true or false, not {}", kind_of(value)));
    else
      options.*std::get<QueueField::Switch>(field->to) = value.get<bool>();
  }

  void read_text(const QueueField& field, const Json& value, const std::string& at,
                 std::optional<std::string>& to) {
    const std::string_view name = field.name;
    if (name == "from" && value.is_number_unsigned())
      to = value.dump();
    else if (name == "backoff" && value.is_array() && !value.empty() &&
             std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_string(); }))
      to = fmt::format("{}", fmt::join(value.get<std::vector<std::string>>(), ","));
    else if (value.is_string())
      to = value.get<std::string>();
    else
      return tell(at, fmt::format("takes a text, not {}", kind_of(value)));
    if (name == "from" && *to != "start" && *to != "now" && parse_number(*to).value_or(0) == 0 &&
        !parse_time(*to))
      tell(at, fmt::format("takes start, now, a sequence from 1 on or a time such as "
                           "2024-05-01T09:30:00Z, not {}",
                           kind_of(value)));
  }

  void read_length(const QueueField& field, const Json& value, const std::string& at,
                   std::optional<Duration>& to) {
    if (value.is_string())
      to = parse_duration(value.get<std::string>());
    else if (value == 0)
      to = Duration{0};
    if (!to)
      tell(at, fmt::format("takes a duration such as \"500ms\", \"30s\" or \"1h30m\", not {}",
                           kind_of(value)));
    else if (static_cast<std::uint64_t>(to->count()) < field.least)
      tell(at, fmt::format("takes at least {}",
                           format_duration(Duration{static_cast<Duration::rep>(field.least)})));
  }

  void read_number(const QueueField& field, const Json& value, const std::string& at,
                   std::optional<std::uint64_t>& to) {
    const bool whole = value.is_number_integer() && value >= 0;
    if (whole) to = value.get<std::uint64_t>();
    if (!whole || *to < field.least || *to > kMostCount)
      tell(at, fmt::format("takes a whole number from {} to {}, not {}", field.least, kMostCount,
                           kind_of(value)));
  }

  // --- Workflows

  void read_flow(const Json& fields, const std::string& path) {
    std::string json = fields.dump();
    Spot at = spot(path);
    if (fields.contains("file")) {
      const Json& file = fields["file"];
      if (fields.size() > 1)
        return tell(path, "a workflow has a file, or its definition here; not both");
      if (!file.is_string() || file == "-" || file.get_ref<const std::string&>().empty())
        return tell(path + ".file", fmt::format("takes the name of a file, not {}", kind_of(file)));
      at = spot(path + ".file");
      auto text = read_all(beside(file.get<std::string>()));
      if (!text) return tell(path + ".file", text.error().message);
      json = std::move(*text);
    }
    auto about = Flows::check(json);
    if (!about) return tell(at.path, about.error().message);
    if (!flows_.insert(fmt::format("{}@{}", about->workflow, about->version)).second)
      return tell(at.path, fmt::format("workflow {} version {} is declared twice", about->workflow,
                                       about->version));
    to_.flows.push_back({std::move(at), std::move(json), std::move(*about)});
  }

  // A file is found from where the declaration lies.
  std::string beside(const std::string& name) const {
    if (file_ == "-") return name;
    return (std::filesystem::path(file_).parent_path() / name).string();
  }

  const std::string file_;
  Declaration& to_;
  std::map<std::string, std::uint32_t> lines_{};
  std::set<std::string> queues_{};
  std::set<std::string> flows_{};
};

}  // namespace

Result<Declaration> read_declaration(const std::string& file) {
  const auto text = read_all(file);
  if (!text) return text.error();
  Declaration declaration;
  Reader(file, declaration).read(*text);
  return declaration;
}

}  // namespace once::cli
