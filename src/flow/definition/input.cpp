#include "flow/definition/input.h"

#include <map>

#include "codec/digest.h"
#include "core/utf8.h"
#include "json/dot_path.h"
#include "json/json_string.h"
#include "json/kept_json.h"
#include "json/object_text.h"

namespace once::encoding {
namespace {

// The values that paths read. Each value is parsed once.
class Scope {
 public:
  using Unreached = core::Judge::Unreached;
  explicit Scope(const core::RunState& state) : state_(state) {}

  // Null if there is no value.
  const Json* find(std::string_view path, const Unreached& unreached) {
    const auto where = flow_path(path);
    if (!where) return nullptr;
    const Json* const root = root_of(*where, unreached);
    return root == nullptr ? nullptr : at(*root, where->rest);
  }

 private:
  const Json* root_of(const FlowPath& where, const Unreached& unreached) {
    const auto [found, is_new] = roots_.try_emplace({where.root, where.step});
    if (is_new)
      if (const auto text = text_of(where, unreached))
        if (auto json = parse_json(*text)) found->second = std::move(*json);
    return found->second ? &*found->second : nullptr;
  }

  std::optional<std::string> text_of(const FlowPath& where, const Unreached& unreached) const {
    switch (where.root) {
      case FlowPath::Root::input: return state_.input;
      case FlowPath::Root::run: return json_string(state_.run);
      case FlowPath::Root::steps: return output_of(where.step, unreached);
      case FlowPath::Root::errors: return error_of(where.step);
    }
    return std::nullopt;
  }

  // The reader runs after the step. So a step without an outcome was skipped or not reached.
  std::optional<std::string> output_of(const std::string& step, const Unreached& unreached) const {
    const auto counted = core::counted_fact(state_, step);
    if (counted.fact == nullptr && unreached(step)) return std::nullopt;
    if (counted.fact == nullptr) return "null";
    if (counted.fact->outcome != core::StepOutcome::completed) return std::nullopt;
    return counted.fact->value;
  }

  std::optional<std::string> error_of(const std::string& step) const {
    const auto counted = core::counted_fact(state_, step);
    if (counted.fact == nullptr || counted.fact->outcome == core::StepOutcome::completed)
      return std::nullopt;
    return json_string(counted.fact->error);
  }

  const core::RunState& state_;
  std::map<std::pair<FlowPath::Root, std::string>, std::optional<Json>> roots_;
};

Error no_value(std::string_view path) {
  return {.code = Code::invalid_input, .message = "no value at " + core::excerpt(path, 200)};
}

Result<std::string> value_at(Scope& scope, const std::string& path,
                             const Scope::Unreached& unreached) {
  const Json* const value = scope.find(path, unreached);
  if (value == nullptr) return no_value(path);
  return kept(*value);
}

Result<std::string> member_value(Scope& scope, const Json& member,
                                 const Scope::Unreached& unreached) {
  if (member.kind() == Json::Kind::string) return value_at(scope, member.string(), unreached);
  if (const Json* const value = member.member("value")) return kept(*value);
  const Json* const path = member.member("path");
  const Json* const otherwise = member.member("default");
  if (path == nullptr) return no_value(kept(member));
  auto value = value_at(scope, path->string(), unreached);
  if (!value && otherwise != nullptr) return kept(*otherwise);
  return value;
}

Result<std::string> render(std::string_view mapping, const core::RunState& state,
                           const Scope::Unreached& unreached) {
  const auto parsed = parse_json(mapping);
  if (!parsed) return parsed.error();
  Scope scope(state);
  if (parsed->kind() == Json::Kind::string) return value_at(scope, parsed->string(), unreached);
  ObjectText text;
  for (const auto& [name, member] : parsed->members()) {
    auto value = member_value(scope, member, unreached);
    if (!value) return value;
    text.json(name, *value);
  }
  std::string object = std::move(text).take();
  // The object nests its values one level deeper, which may exceed the depth limit of JSON.
  std::string checked;
  if (const auto done = canonicalise(object, checked); !done) return done.error();
  return object;
}

bool says_yes(const Json* value) {
  if (value == nullptr) return false;
  switch (value->kind()) {
    case Json::Kind::null: return false;
    case Json::Kind::boolean: return value->boolean();
    case Json::Kind::number: return value->number() != 0;
    case Json::Kind::string: return !value->string().empty();
    case Json::Kind::array:
    case Json::Kind::object: return true;
  }
  return false;
}

bool holds(std::string_view condition, Scope& scope, const Scope::Unreached& unreached) {
  const auto parsed = parse_json(condition);
  if (!parsed) return false;
  if (parsed->kind() == Json::Kind::string)
    return says_yes(scope.find(parsed->string(), unreached));
  const Json* const path = parsed->member("path");
  const Json* const value = path == nullptr ? nullptr : scope.find(path->string(), unreached);
  if (const Json* const equals = parsed->member("equals"))
    return value != nullptr && *value == *equals;
  if (const Json* const other = parsed->member("not_equals"))
    return value == nullptr || *value != *other;
  if (const Json* const exists = parsed->member("exists"))
    return (value != nullptr) == exists->boolean();
  return false;
}

}  // namespace

std::optional<FlowPath> flow_path(std::string_view text) {
  const auto take_part = [&] {
    const std::size_t dot = std::min(text.find('.'), text.size());
    const std::string_view part = text.substr(0, dot);
    text.remove_prefix(std::min(dot + 1, text.size()));
    return part;
  };
  if (text.empty() || (text.ends_with('.') && !text.ends_with("\\."))) return std::nullopt;
  const std::string_view root = take_part();
  FlowPath path;
  if (root == "run" && text.empty()) {
    path.root = FlowPath::Root::run;
    return path;
  }
  if (root == "input") {
    path.rest = text;
    return path;
  }
  if ((root != "steps" && root != "errors") || text.empty()) return std::nullopt;
  path.root = root == "steps" ? FlowPath::Root::steps : FlowPath::Root::errors;
  path.step = take_part();
  path.rest = text;
  if (path.step.empty() || (path.root == FlowPath::Root::errors && !text.empty()))
    return std::nullopt;
  return path;
}

Result<std::string> task_input(const core::FlowStep& step, const core::RunState& state,
                               const core::Judge::Unreached& unreached) {
  if (step.input.empty()) return state.input;
  return render(step.input, state, unreached);
}

Result<std::string> run_output(const core::FlowDefinition& definition, const core::RunState& state,
                               const core::Judge::Unreached& unreached) {
  if (definition.output.empty()) return std::string("null");
  return render(definition.output, state, unreached);
}

core::Judge::Unreached unreached_in(const core::FlowDefinition& definition,
                                    const core::RunState& state) {
  return [&, standing = std::optional<core::RunStanding>()](std::string_view step) mutable {
    if (!standing) standing = core::stand(definition, state, judge());
    const auto index = core::index_of(definition, step);
    return index && standing->steps[*index].status == StepStatus::unreached;
  };
}

void add_steps_of(std::string_view mapping, std::set<std::string>& steps) {
  const auto add = [&](const Json* path) {
    if (path == nullptr || path->kind() != Json::Kind::string) return;
    const auto where = flow_path(path->string());
    if (where && where->root == FlowPath::Root::steps) steps.insert(where->step);
  };
  const auto parsed = parse_json(mapping);
  if (!parsed) return;
  add(&*parsed);
  add(parsed->member("path"));  // of a condition, or a member of that name
  for (const auto& [name, member] : parsed->members()) {
    add(&member);
    add(member.member("path"));
  }
}

core::Judge judge() {
  return {.of = [](const core::RunState& state) {
    return [scope = Scope(state)](const core::FlowStep& step,
                                  const core::Judge::Unreached& unreached) mutable {
      return holds(step.skip_if, scope, unreached);
    };
  }};
}

Result<KeyTemplate> key_template_of(const core::FlowDefinition& definition) {
  auto keys = KeyTemplate::parse(definition.key,
                                 {.key = "the key of workflow '" + definition.name + "'",
                                  .source = "the input",
                                  .owner = "this run",
                                  .all = "every run",
                                  .paths_only = true,
                                  .null_is_missing = true},
                                 {.format = definition.key_format});
  if (!keys) return keys;
  for (const std::string_view path : keys->paths()) {
    const std::string_view fault = path.starts_with("input.")
                                       ? "a key's paths begin in the input: leave out 'input.', or "
                                         "write a member of that name as \\input"
                                       : dot_path_fault(path);
    if (!fault.empty())
      return Error{.code = Code::invalid_input,
                   .message = "the path '" + core::excerpt(path, 100) + "': " + std::string(fault)};
  }
  return keys;
}

Result<std::string> run_key(const core::FlowDefinition& definition, const Body& input) {
  const auto refused = [](const Error& error) {
    return Error{.code = Code::invalid_input, .message = error.message + "; nothing was started"};
  };
  if (!input.is_json())
    return refused({.code = {}, .message = "the input of a workflow must be JSON"});
  if (definition.key.empty()) {
    std::string text;
    if (const auto done = canonicalise(input.text(), text); !done) return refused(done.error());
    return hex(sha256(text));
  }
  const auto keys = key_template_of(definition);
  if (!keys) return refused(keys.error());
  auto key = keys->key("", "", input, {});
  if (!key) return refused(key.error());
  return key;
}

}  // namespace once::encoding
