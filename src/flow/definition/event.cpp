#include "flow/definition/event.h"

#include "codec/stored_body.h"
#include "core/names.h"
#include "core/utf8.h"
#include "json/base64.h"
#include "json/kept_json.h"
#include "json/object_reader.h"
#include "json/object_text.h"

namespace once::encoding {
namespace {

using core::FlowEvent;
using Kind = core::FlowEvent::Kind;

std::string place_text(const core::FlowPlace& place) {
  ObjectText text;
  text.string("key", place.key);
  text.string("queue", place.queue);
  text.number("sequence", static_cast<std::int64_t>(place.sequence.value));
  return std::move(text).take();
}

void put_said(const FlowEvent& event, bool completed, ObjectText& text) {
  if (completed && event.value_place)
    text.json("output_in", place_text(*event.value_place));
  else if (completed)
    text.json("output", event.value);
}

std::string started_text(const FlowEvent& event) {
  ObjectText text;
  text.json("input", event.value);
  if (event.key)
    text.string("key", *event.key);
  else
    text.json("key", "null");
  text.string("run", event.run);
  text.number("version", event.version);
  text.string("workflow", event.workflow);
  return std::move(text).take();
}

std::string step_text(const FlowEvent& event) {
  const bool completed = event.outcome == core::StepOutcome::completed;
  ObjectText text;
  if (!completed) text.string("error", event.error);
  text.number("n", event.n);
  text.string("outcome", to_string(event.outcome));
  put_said(event, completed, text);
  text.string("run", event.run);
  text.string("step", event.step);
  return std::move(text).take();
}

std::string ended_text(const FlowEvent& event) {
  const bool completed = event.run_outcome == core::RunOutcome::completed;
  ObjectText text;
  if (!completed) text.string("error", event.error);
  text.string("outcome", to_string(event.run_outcome));
  put_said(event, completed, text);
  text.number("round", event.n);
  text.string("run", event.run);
  if (!event.step.empty()) text.string("step", event.step);
  return std::move(text).take();
}

std::string signal_text(const FlowEvent& event) {
  ObjectText text;
  text.json("body", event.value);
  if (event.by_name) text.string("id", event.signal_id);
  text.string("run", event.run);
  text.string("signal", event.signal);
  return std::move(text).take();
}

std::string retried_text(const FlowEvent& event) {
  ObjectText voided;
  for (const auto& [step, n] : event.voided) voided.number(step, n);
  ObjectText text;
  text.number("round", event.n);
  text.string("run", event.run);
  text.json("void", std::move(voided).take());
  return std::move(text).take();
}

// rate_retry, admit, timer
std::string try_text(const FlowEvent& event) {
  ObjectText text;
  text.number("n", event.n);
  text.string("run", event.run);
  if (!event.step.empty())
    text.string("step", event.step);
  else if (event.kind == Kind::timer)
    text.json("step", "null");
  return std::move(text).take();
}

std::string text_of(const FlowEvent& event) {
  switch (event.kind) {
    case Kind::started: return started_text(event);
    case Kind::step: return step_text(event);
    case Kind::signal: return signal_text(event);
    case Kind::rate_retry:
    case Kind::admit:
    case Kind::timer: return try_text(event);
    case Kind::retried: return retried_text(event);
    case Kind::ended: return ended_text(event);
  }
  return {};
}

Error unknown(std::string_view id, std::string_view why) {
  return {.code = Code::invalid_input,
          .message = "log entry " + core::excerpt(id, 100) +
                     " is no event of a workflow's run that this " +
                     "version of Once knows: " + std::string(why)};
}

// Reads the members that the kind of event needs.
class EventReader {
 public:
  EventReader(const Json& body, FlowEvent& event) : body_(body), event_(event) {}
  const std::string& misfit() const { return body_.misfit(); }

  void read() {
    body_.string("run", event_.run);
    switch (event_.kind) {
      case Kind::started: return started();
      case Kind::step: return step();
      case Kind::signal: return signal();
      case Kind::rate_retry:
        body_.string("step", event_.step);
        return body_.number("n", 1, event_.n);
      case Kind::admit: return body_.number("n", 1, event_.n);
      case Kind::timer:
        if (!body_.is_null("step")) body_.string("step", event_.step);
        return body_.number("n", 1, event_.n);
      case Kind::retried: return retried();
      case Kind::ended: return ended();
    }
  }

 private:
  void started() {
    body_.number("version", 1, event_.version);
    if (!body_.is_null("key")) body_.string("key", event_.key.emplace());
    value("input");
  }

  void step() {
    body_.string("step", event_.step);
    body_.number("n", 0, event_.n);
    outcome(event_.outcome);
    said(event_.outcome == core::StepOutcome::completed);
  }

  void signal() {
    body_.string("signal", event_.signal);
    event_.by_name = body_.find("id") != nullptr;
    if (event_.by_name) body_.string("id", event_.signal_id);
    value("body");
  }

  void retried() {
    body_.number("round", 2, event_.n);
    const Json* const voided = body_.find("void");
    if (voided == nullptr || voided->kind() != Json::Kind::object) return body_.misfits("void");
    for (const auto& [step, n] : voided->members())
      if (!ObjectReader::read(&n, 1, event_.voided[step])) body_.misfits("void");
  }

  void ended() {
    body_.number("round", 1, event_.n);
    outcome(event_.run_outcome);
    said(event_.run_outcome == core::RunOutcome::completed);
    if (body_.find("step") != nullptr) body_.string("step", event_.step);
  }

  void said(bool completed) {
    if (!completed) return body_.string("error", event_.error);
    const Json* const place = body_.find("output_in");
    if (place == nullptr) return value("output");
    core::FlowPlace& into = event_.value_place.emplace();
    ObjectReader reader(*place);
    reader.string("queue", into.queue);
    reader.string("key", into.key);
    reader.number("sequence", 1, into.sequence.value);
    if (!reader.misfit().empty()) body_.misfits("output_in");
  }

  void outcome(FlowOutcome& into) {
    std::string name;
    body_.string("outcome", name);
    if (const auto known = flow_outcome_from(name))
      into = *known;
    else
      body_.misfits("outcome");
  }

  void value(std::string_view name) {
    const Json* const found = body_.find(name);
    if (found == nullptr) return body_.misfits(name);
    event_.value = kept(*found);
  }

  ObjectReader body_;
  FlowEvent& event_;
};

// "$once.flow.{workflow}.{kind}"
bool read_topic(std::string_view topic, FlowEvent& event) {
  constexpr std::string_view kRoot = "$once.flow.";
  if (!topic.starts_with(kRoot)) return false;
  topic.remove_prefix(kRoot.size());
  const std::size_t dot = topic.find('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const auto kind = core::flow_event_from(topic.substr(dot + 1));
  if (!kind) return false;
  event.workflow = topic.substr(0, dot);
  event.kind = *kind;
  return true;
}

}  // namespace

std::string output_json(const Body& output) {
  if (output.is_json()) return std::string(output.text());
  std::string text;
  if (core::valid_utf8(output.text())) {
    append_canonical_string(output.text(), text);
    return text;
  }
  return "{\"raw\":\"" + base64(output.text()) + "\"}";
}

Body event_body(const core::FlowEvent& event) { return StoredBody::json(text_of(event)); }

Result<core::FlowEvent> decode_event(std::string_view id, std::string_view topic, const Body& body,
                                     core::Sequence sequence, Time at) {
  FlowEvent event;
  if (!read_topic(topic, event)) return unknown(id, "its topic is " + core::excerpt(topic, 100));
  if (!body.is_json()) return unknown(id, "its body is bytes");
  const auto json = parse_json(body.text());
  if (!json) return unknown(id, json.error().message);
  EventReader reader(*json, event);
  reader.read();
  if (!reader.misfit().empty())
    return unknown(id, "\"" + reader.misfit() + "\" is missing or not as it should be");
  if (event.kind == Kind::signal && !event.by_name) {
    const std::string before = event.run + ".signal.";
    if (id.starts_with(before)) event.signal_id = id.substr(before.size());
  }
  event.sequence = sequence;
  event.at = at;
  // The id of an event follows from its body. An entry with another id is not an event of Once.
  if (core::event_id(event) != id)
    return unknown(id, "its body is that of " + core::event_id(event));
  return event;
}

}  // namespace once::encoding
