#include "flow/definition/reader.h"

#include <algorithm>
#include <cmath>

#include "core/names.h"
#include "json/dot_path.h"
#include "json/json_path.h"
#include "json/kept_json.h"
#include "json/object_text.h"

namespace once::encoding {
namespace {

using core::FlowDefinition;
using core::FlowStep;

constexpr std::string_view kWorkflowFields[] = {
    "$schema", "name",    "version",  "idempotency_key", "key_format", "on_missing_key",
    "key_ttl", "timeout", "max_runs", "default_retry",   "output",     "steps"};
constexpr std::string_view kStepFields[] = {"id",      "task",       "sleep", "signal", "approval",
                                            "queue",   "depends_on", "input", "retry",  "timeout",
                                            "skip_if", "on_failure", "rate"};
constexpr std::string_view kRetryFields[] = {"attempts", "backoff", "wait", "cap", "jitter"};
constexpr std::string_view kRateFields[] = {"limit", "per"};
constexpr std::string_view kMemberFields[] = {"value", "path", "default"};
constexpr std::string_view kConditionFields[] = {"path", "equals", "not_equals", "exists"};
constexpr std::string_view kRoots[] = {"input", "steps", "errors", "run"};

// These names of steps are reserved, because the ids of a run's own events use them.
constexpr std::string_view kTaken[] = {"started", "ended", "retried", "signal", "timer", "admit"};

struct KindRule {
  FlowStep::Kind kind;
  std::string_view field;  // the field that selects the kind
  std::vector<std::string_view> not_with;
};
const std::vector<KindRule> kStepKinds{
    {FlowStep::Kind::task, "task", {}},
    {FlowStep::Kind::sleep, "sleep", {"queue", "input", "retry", "rate", "timeout"}},
    {FlowStep::Kind::signal, "signal", {"queue", "input", "retry", "rate"}},
    {FlowStep::Kind::approval, "approval", {"queue", "input", "retry", "rate"}}};

constexpr Duration kYear = std::chrono::hours{24 * 365};

// The members of one object. A faulty member becomes a finding and is left out.
class ObjectFields {
 public:
  ObjectFields(const Json& object, FlowPart part, std::string where, std::string path,
               Findings& findings)
      : object_(object), where_(std::move(where)), path_(std::move(path)), findings_(findings) {
    const auto known = fields_of(part);
    for (const auto& [name, value] : object.members()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const std::string meant = did_you_mean(name, known, '"');
      finding("unknown field " + in_quotes(name) +
              (meant.empty() ? "; known are " + joined(known, ", ") : meant));
    }
  }

  const std::string& where() const { return where_; }
  void finding(const std::string& what) { findings_.add(where_, what); }

  const Json* find(std::string_view name) const { return object_.member(name); }
  std::string path_of(std::string_view name) const {
    std::string path = path_;
    append_path_member(name, path);
    return path;
  }

  // Null if the member is missing or has another kind.
  const Json* of_kind(std::string_view name, Json::Kind kind, std::string_view what) {
    const Json* const value = find(name);
    if (value == nullptr || value->kind() == kind) return value;
    wrong(name, "must be " + std::string(what));
    return nullptr;
  }
  std::optional<std::string> text(std::string_view name) {
    const Json* const value = of_kind(name, Json::Kind::string, "a text in quotes");
    if (value == nullptr) return std::nullopt;
    if (value->string().empty()) {
      wrong(name, "is empty");
      return std::nullopt;
    }
    return value->string();
  }
  std::optional<std::int64_t> whole(std::string_view name, std::int64_t least, std::int64_t most) {
    const Json* const value = find(name);
    if (value == nullptr) return std::nullopt;
    const double number = value->number();
    if (value->kind() == Json::Kind::number && number == std::floor(number) &&
        number >= static_cast<double>(least) && number <= static_cast<double>(most))
      return static_cast<std::int64_t>(number);
    wrong(name,
          "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return std::nullopt;
  }
  std::optional<double> share(std::string_view name) {
    const Json* const value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->kind() == Json::Kind::number && value->number() >= 0 && value->number() <= 1)
      return value->number();
    wrong(name, "must be a number from 0 to 1");
    return std::nullopt;
  }
  std::optional<Duration> duration(std::string_view name, Duration least, Duration most) {
    const Json* const value = of_kind(name, Json::Kind::string, "a length of time such as \"30s\"");
    if (value == nullptr) return std::nullopt;
    const auto read = duration_from(value->string());
    if (read && *read >= least && *read <= most) return *read;
    wrong(name, in_quotes(value->string()) + " is no length of time from " + duration_text(least) +
                    " to " + duration_text(most) + ", written as 500ms, 30s, 2m, 1h30m or 7d");
    return std::nullopt;
  }

  void wrong(std::string_view name, const std::string& what) {
    finding(path_of(name) + " " + what);
  }

 private:
  const Json& object_;
  std::string where_;
  std::string path_;
  Findings& findings_;
};

class DefinitionReader {
 public:
  explicit DefinitionReader(Findings& findings) : findings_(findings) {}

  ReadDefinition read(const Json& root) {
    ObjectFields fields(root, FlowPart::workflow, "", "$", findings_);
    fields.of_kind("$schema", Json::Kind::string, "a text in quotes");
    FlowDefinition& definition = read_.definition;
    read_name(fields);
    if (const auto version = fields.whole("version", 1, std::int64_t{1} << 31))
      definition.version = static_cast<std::uint32_t>(*version);
    read_key(fields);
    if (const auto timeout = fields.duration("timeout", Duration{0}, kYear))
      definition.timeout = *timeout;
    if (const auto most = fields.whole("max_runs", 1, 1000))
      definition.max_runs = static_cast<std::uint32_t>(*most);
    const auto retry = read_retry(fields, "default_retry");
    definition.output = read_mapping(fields, "output", read_.output_paths);
    read_steps(fields, retry);
    return std::move(read_);
  }

 private:
  void read_name(ObjectFields& fields) {
    if (fields.find("name") == nullptr)
      fields.finding("it needs a \"name\"");
    else if (const auto name = fields.text("name")) {
      check(fields, "name", core::check_name(*name, "workflow"));
      read_.definition.name = *name;
    }
  }

  static void check(ObjectFields& fields, std::string_view name, const Result<void>& checked) {
    if (!checked) fields.wrong(name, "is refused: " + checked.error().message);
  }

  void read_key(ObjectFields& fields) {
    FlowDefinition& definition = read_.definition;
    if (const auto word = fields.text("key_format")) {
      read_.key_format = key_format_from(*word);
      definition.key_format = read_.key_format.value_or(KeyFormat::plain);
      constexpr std::string_view kWords[] = {"plain", "escaped"};
      if (!read_.key_format)
        fields.wrong("key_format",
                     "must be \"plain\" or \"escaped\"" + did_you_mean(*word, kWords, '"'));
      else if (fields.find("idempotency_key") == nullptr)
        fields.wrong("key_format", "needs an \"idempotency_key\"");
    }
    if (const auto text = fields.text("idempotency_key")) {
      const bool path = text->find_first_of("{}") == std::string::npos;
      definition.key = path ? "{" + *text + "}" : *text;
      if (const auto keys = key_template_of(definition); !keys)
        fields.wrong("idempotency_key", "is refused: " + keys.error().message);
    }
    if (const auto word = fields.text("on_missing_key")) {
      constexpr std::string_view kWords[] = {"refuse", "run_unprotected"};
      definition.unprotected = *word == kWords[1];
      if (!definition.unprotected && *word != kWords[0])
        fields.wrong("on_missing_key", "must be \"refuse\" or \"run_unprotected\"" +
                                           did_you_mean(*word, kWords, '"'));
    }
    if (const auto ttl = fields.duration("key_ttl", Duration{0}, kYear)) definition.key_ttl = *ttl;
  }

  std::optional<RetryPolicy> read_retry(ObjectFields& outer, std::string_view name) {
    const Json* const object = outer.of_kind(name, Json::Kind::object, "an object");
    if (object == nullptr) return std::nullopt;
    ObjectFields fields(*object, FlowPart::retry, outer.where(), outer.path_of(name), findings_);
    RetryPolicy retry;
    if (const auto attempts = fields.whole("attempts", 1, 1'000'000))
      retry.attempts = static_cast<int>(*attempts);
    if (const auto word = fields.text("backoff")) {
      constexpr std::string_view kWords[] = {"fixed", "linear", "exponential"};
      if (const auto backoff = backoff_from(*word))
        retry.backoff = *backoff;
      else
        fields.wrong("backoff",
                     "must be fixed, linear or exponential" + did_you_mean(*word, kWords, '"'));
    }
    if (const auto wait = fields.duration("wait", Duration{0}, kYear)) retry.wait = *wait;
    // The default cap does not apply to a longer wait.
    retry.cap = std::max(retry.cap, retry.wait);
    if (const auto cap = fields.duration("cap", Duration{0}, kYear)) retry.cap = *cap;
    if (retry.cap < retry.wait)
      fields.wrong("cap", "is shorter than the wait, which is " + duration_text(retry.wait) +
                              (fields.find("wait") == nullptr ? " when none is given" : ""));
    if (const auto jitter = fields.share("jitter")) retry.jitter = *jitter;
    return retry;
  }

  std::optional<RateLimit> read_rate(ObjectFields& outer) {
    const Json* const object = outer.of_kind("rate", Json::Kind::object, "an object");
    if (object == nullptr) return std::nullopt;
    ObjectFields fields(*object, FlowPart::rate, outer.where(), outer.path_of("rate"), findings_);
    RateLimit rate;
    for (const std::string_view needed : kRateFields)
      if (fields.find(needed) == nullptr) fields.wrong(needed, "is missing");
    if (const auto limit = fields.whole("limit", 1, 1000)) rate.limit = static_cast<int>(*limit);
    if (const auto per = fields.duration("per", std::chrono::seconds{1}, std::chrono::hours{24}))
      rate.per = *per;
    return rate;
  }

  void use(ObjectFields& fields, std::string_view field, const std::string& text,
           std::vector<UsedPath>& used, bool no_default = true) {
    const std::string what = std::string(field) + " has the path " + short_quote(text);
    if (const auto fault = dot_path_fault(text); !fault.empty())
      return fields.finding(what + ": " + std::string(fault));
    if (auto path = flow_path(text)) {
      const bool deep = !path->rest.empty();
      path->rest = {};
      used.push_back({std::string(field), text, std::move(*path), deep, no_default});
      return;
    }
    const std::string_view root = std::string_view(text).substr(0, text.find('.'));
    const bool known = std::find(std::begin(kRoots), std::end(kRoots), root) != std::end(kRoots);
    fields.finding(what +
                   "; a path is input, input.PATH, steps.ID, steps.ID.PATH, errors.ID or run" +
                   (known ? "" : did_you_mean(root, kRoots, '\'')));
  }

  // Returns the canonical text. Adds the paths in it to `used`.
  std::string read_mapping(ObjectFields& fields, std::string_view name,
                           std::vector<UsedPath>& used) {
    const Json* const mapping = fields.find(name);
    if (mapping == nullptr) return {};
    if (mapping->kind() == Json::Kind::string) {
      use(fields, name, mapping->string(), used);
    } else if (mapping->kind() == Json::Kind::object) {
      ObjectText constants;
      for (const auto& [member, value] : mapping->members()) {
        std::string path = fields.path_of(name);
        append_path_member(member, path);
        read_member(fields, name, value, path, used);
        if (const Json* const constant = value.member("value"))
          constants.json(member, kept(*constant));
      }
      if (const auto size = std::move(constants).take().size(); size > core::kMaxBody)
        fields.wrong(name, "has constants of " + std::to_string(size) + " bytes; at most " +
                               std::to_string(core::kMaxBody) + " (1 MiB) are allowed");
    } else {
      fields.wrong(name, "must be a path in quotes, or an object of them");
    }
    return kept(*mapping);
  }

  void read_member(ObjectFields& outer, std::string_view name, const Json& member,
                   const std::string& path, std::vector<UsedPath>& used) {
    if (member.kind() == Json::Kind::string) return use(outer, name, member.string(), used);
    ObjectFields fields(member, FlowPart::member, outer.where(), path, findings_);
    const Json* const from = fields.find("path");
    const bool value = fields.find("value") != nullptr;
    const bool otherwise = fields.find("default") != nullptr;
    if (from != nullptr && from->kind() == Json::Kind::string && !value)
      return use(outer, name, from->string(), used, !otherwise);
    if (!value || from != nullptr || otherwise)
      fields.finding(path +
                     " must be a path in quotes, {\"value\": ...} or {\"path\": \"...\", "
                     "\"default\": ...}");
  }

  std::string read_condition(ObjectFields& outer, std::vector<UsedPath>& used) {
    constexpr std::string_view kName = "skip_if";
    const Json* const condition = outer.find(kName);
    if (condition == nullptr) return {};
    if (condition->kind() == Json::Kind::string) {
      use(outer, kName, condition->string(), used);
    } else if (condition->kind() == Json::Kind::object) {
      ObjectFields fields(*condition, FlowPart::condition, outer.where(), outer.path_of(kName),
                          findings_);
      const auto path = fields.text("path");
      if (path) use(fields, kName, *path, used);
      fields.of_kind("exists", Json::Kind::boolean, "true or false");
      const auto tests = std::count_if(std::begin(kConditionFields) + 1, std::end(kConditionFields),
                                       [&](std::string_view test) { return fields.find(test); });
      if (fields.find("path") == nullptr || tests != 1)
        outer.wrong(kName, "needs a \"path\" and one of \"equals\", \"not_equals\", \"exists\"");
    } else {
      outer.wrong(kName, "must be a path in quotes, or an object");
    }
    return kept(*condition);
  }

  void read_steps(ObjectFields& fields, const std::optional<RetryPolicy>& default_retry) {
    const Json* const list = fields.find("steps");
    if (list == nullptr || list->kind() != Json::Kind::array || list->items().empty() ||
        list->items().size() > core::kMostFlowSteps)
      return fields.finding("\"steps\" must be a list of 1 to " +
                            std::to_string(core::kMostFlowSteps) + " steps");
    for (std::size_t i = 0; i < list->items().size(); ++i) {
      read_step(list->items()[i], i);
      if (FlowStep& step = read_.steps.back().step;
          step.kind == FlowStep::Kind::task && !step.retry)
        step.retry = default_retry;
    }
  }

  void read_step(const Json& json, std::size_t index) {
    NamedStep& named = read_.steps.emplace_back();
    std::string path = "$.steps";
    append_path_index(index, path);
    const Json* const id = json.member("id");
    named.where = id != nullptr && id->kind() == Json::Kind::string
                      ? "step " + short_quote(id->string()) + ": "
                      : "step " + std::to_string(index + 1) + ": ";
    if (json.kind() != Json::Kind::object)
      return findings_.add(named.where, "it must be an object");
    ObjectFields fields(json, FlowPart::step, named.where, path, findings_);
    read_id(fields, named.step);
    read_kind(fields, named.step);
    read_edges(fields, named);
    if (const auto queue = fields.text("queue")) {
      check(fields, "queue", core::check_name(*queue, "queue"));
      named.step.queue = *queue;
    }
    named.step.input = read_mapping(fields, "input", named.paths);
    named.step.skip_if = read_condition(fields, named.paths);
    named.step.retry = read_retry(fields, "retry");
    named.step.rate = read_rate(fields);
    if (const auto timeout = fields.duration("timeout", Duration{0}, kYear))
      named.step.timeout = *timeout;
  }

  static void read_id(ObjectFields& fields, FlowStep& step) {
    const auto id = fields.text("id");
    if (!id) {
      if (fields.find("id") == nullptr) fields.finding("it needs an \"id\"");
      return;
    }
    check(fields, "id", core::check_name(*id, "step"));
    if (std::find(std::begin(kTaken), std::end(kTaken), *id) != std::end(kTaken))
      fields.wrong(
          "id", "is a word that the run's own events use; not allowed are " + joined(kTaken, ", "));
    step.id = *id;
  }

  static void read_kind(ObjectFields& fields, FlowStep& step) {
    std::vector<std::string_view> given;
    for (const KindRule& rule : kStepKinds)
      if (fields.find(rule.field) != nullptr) given.push_back(rule.field);
    if (given.size() != 1)
      return fields.finding("a step is exactly one of task, sleep, signal, approval; this is " +
                            (given.empty() ? "none" : joined(given, " and ")));
    const auto rule = std::find_if(kStepKinds.begin(), kStepKinds.end(),
                                   [&](const KindRule& known) { return known.field == given[0]; });
    step.kind = rule->kind;
    for (const std::string_view name : rule->not_with)
      if (fields.find(name) != nullptr)
        fields.finding(in_quotes(name) + " does not go with " + std::string(rule->field));
    if (step.kind == FlowStep::Kind::sleep) {
      if (const auto sleep = fields.duration("sleep", Duration{0}, kYear)) step.sleep = *sleep;
      return;
    }
    const auto text = fields.text(rule->field);
    if (!text) return;
    switch (step.kind) {
      case FlowStep::Kind::task:
        check(fields, "task", core::check_topic(*text));
        step.topic = *text;
        break;
      case FlowStep::Kind::signal:
        check(fields, "signal", core::check_name(*text, "signal"));
        step.signal = *text;
        break;
      default: step.message = *text; break;
    }
  }

  static void read_edges(ObjectFields& fields, NamedStep& named) {
    if (const auto on_failure = fields.text("on_failure")) named.on_failure = *on_failure;
    const Json* const list = fields.of_kind("depends_on", Json::Kind::array, "a list of step ids");
    if (list == nullptr) return;
    for (const Json& item : list->items()) {
      if (item.kind() != Json::Kind::string) {
        fields.wrong("depends_on", "must be a list of step ids");
      } else if (std::find(named.depends_on.begin(), named.depends_on.end(), item.string()) !=
                 named.depends_on.end()) {
        fields.finding("depends on " + short_quote(item.string()) + " twice");
      } else {
        named.depends_on.push_back(item.string());
      }
    }
  }

  Findings& findings_;
  ReadDefinition read_;
};

}  // namespace

std::string_view to_string(FlowPart part) {
  switch (part) {
    case FlowPart::workflow: return "workflow";
    case FlowPart::step: return "step";
    case FlowPart::retry: return "retry";
    case FlowPart::rate: return "rate";
    case FlowPart::member: return "member";
    case FlowPart::condition: return "condition";
  }
  return "?";
}

std::span<const std::string_view> fields_of(FlowPart part) {
  switch (part) {
    case FlowPart::workflow: return kWorkflowFields;
    case FlowPart::step: return kStepFields;
    case FlowPart::retry: return kRetryFields;
    case FlowPart::rate: return kRateFields;
    case FlowPart::member: return kMemberFields;
    case FlowPart::condition: return kConditionFields;
  }
  return {};
}

ReadDefinition read_definition(const Json& object, Findings& findings) {
  return DefinitionReader(findings).read(object);
}

}  // namespace once::encoding
