// A file to queues and workflows. Every mistake is collected, with its place.
#include "cli/queue/declaration.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/app/input.h"
#include "cli/app/toml_file.h"
#include "cli/app/usage.h"
#include "shapes/queue_fields.h"
#include "shapes/values.h"

namespace once::cli {
namespace {

using Json = nlohmann::ordered_json;

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
    if (!queue) return tell(path, option_as_field(queue.error().message));
    if (!queues_.insert(name).second)
      return tell(path, fmt::format("queue {} is declared twice", name));
    to_.queues.push_back({spot(path), std::move(*queue), options.from});
  }

  void read_field(const std::string& name, const Json& value, const std::string& at,
                  QueueOptions& options) {
    const QueueField* field = find_queue_field(name);
    if (field == nullptr) {
      std::vector<std::string> known{"name"};
      for (const QueueField& each : queue_fields()) known.emplace_back(each.name);
      return unknown(at, name, known);
    }
    if (const auto mistake = read_queue_field(*field, value, options)) tell(at, *mistake);
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
