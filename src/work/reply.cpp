#include "work/reply.h"

#include <algorithm>

#include "codec/digest.h"
#include "core/utf8.h"
#include "flow/definition/event.h"
#include "flow/rules/facts.h"

namespace once::engine {
namespace {

void fails(core::FlowEvent& event, std::string_view why) {
  event.outcome = core::StepOutcome::failed;
  event.error = core::readable(why);
}

void completes(core::FlowEvent& event, const Body& output, const core::Record& record,
               const store::Address& at) {
  // A truncated JSON document is not valid, or has another meaning.
  if (record.result_cut)
    return fails(event, "its output is too large, and was not kept as a whole");
  if (output.text().size() <= kMostSaid) {
    event.value = encoding::output_json(output);
    return;
  }
  const bool own = at.kind == store::Address::Kind::entry;
  event.value_place = {
      .queue = at.queue, .key = own ? std::string() : at.key, .sequence = record.sequence};
}

void say(core::FlowEvent& event, const core::Record& record, const store::Address& at) {
  switch (record.state) {
    case State::completed: return completes(event, record.result.value_or(Body()), record, at);
    case State::duplicate:
      if (record.result) return completes(event, *record.result, record, at);
      return fails(event, record.reason + ", which is not completed");
    case State::cancelled:
      event.outcome = core::StepOutcome::cancelled;
      event.error = core::readable(record.reason);
      return;
    default: {
      const std::string error = core::last_error(record);
      return fails(event, error.empty() ? record.reason : record.reason + ": " + error);
    }
  }
}

}  // namespace

store::Append reply_event(const core::Record& record, const store::Address& at) {
  const core::ReplyTo& to = *record.reply;
  const std::size_t dot = std::min(to.id.find('.'), to.id.size());
  core::FlowEvent event;
  event.kind = core::FlowEvent::Kind::step;
  event.run = to.id.substr(0, dot);
  event.step = to.id.substr(std::min(dot + 1, to.id.size()));
  event.n = core::told_try(record);
  say(event, record, at);
  store::Append reply{
      .id = core::event_id(event), .topic = to.topic, .body = encoding::event_body(event)};
  auto digest = encoding::content_digest(reply.topic, reply.body);
  // The event nests the output one level deeper, which may exceed the depth limit of JSON.
  if (!digest) {
    fails(event, "its output is nested too deeply to be passed on");
    reply.body = encoding::event_body(event);
    digest = encoding::content_digest(reply.topic, reply.body);
  }
  reply.digest = digest.value();
  reply.nonce = encoding::nonce_of(reply.digest);
  return reply;
}

}  // namespace once::engine
