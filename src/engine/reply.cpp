#include "engine/reply.h"

#include <algorithm>

#include "core/names.h"
#include "encoding/base64.h"
#include "encoding/digest.h"
#include "encoding/json.h"
#include "encoding/utf8.h"

namespace once::engine {
namespace {

std::string quoted(std::string_view utf8) {
  std::string text;
  encoding::append_canonical_string(utf8, text);
  return text;
}

std::string json_of(const Body& output) {
  if (output.is_json()) return std::string(output.text());
  if (core::valid_utf8(output.text())) return quoted(output.text());
  return "{\"raw\":\"" + encoding::base64(output.text()) + "\"}";
}

struct Said {
  std::string_view outcome{};
  std::string_view member{};
  std::string value{};
};

Said failed(std::string_view why) { return {"failed", "error", quoted(encoding::readable(why))}; }

Said completed(const Body& output, const core::Record& record, const store::Address& at) {
  if (output.text().size() <= kMostSaid) return {"completed", "output", json_of(output)};
  const bool own = at.kind == store::Address::Kind::entry;
  return {"completed", "output_in",
          "{\"key\":" + quoted(own ? "" : at.key) + ",\"queue\":" + quoted(at.queue) +
              ",\"sequence\":" + std::to_string(record.sequence.value) + "}"};
}

Said said_of(const core::Record& record, const store::Address& at) {
  switch (record.state) {
    case State::completed: return completed(record.result.value_or(Body()), record, at);
    case State::duplicate:
      if (record.result) return completed(*record.result, record, at);
      return failed(record.reason + ", which is not completed");
    case State::cancelled: return {"cancelled", "error", quoted(encoding::readable(record.reason))};
    default:
      return failed(record.error.empty() ? record.reason : record.reason + ": " + record.error);
  }
}

}  // namespace

store::Append reply_event(const core::Record& record, const store::Address& at) {
  const core::ReplyTo& to = *record.reply;
  const std::string n = std::to_string(record.claims);
  const std::size_t dot = std::min(to.id.find('.'), to.id.size());
  const std::string run = to.id.substr(0, dot);
  const std::string step = to.id.substr(std::min(dot + 1, to.id.size()));
  const auto body_of = [&](const Said& said) {
    return Body::json("{\"n\":" + n + ",\"outcome\":\"" + std::string(said.outcome) + "\",\"" +
                      std::string(said.member) + "\":" + said.value + ",\"run\":" + quoted(run) +
                      ",\"step\":" + quoted(step) + "}");
  };
  auto body = body_of(said_of(record, at));
  // JSON may be as deep as it may, and no deeper.
  if (!body) body = body_of(failed("its output is nested too deeply to be passed on"));
  store::Append event{
      .id = to.id + ".ended." + n, .topic = to.topic, .body = std::move(body).value()};
  event.digest = encoding::content_digest(event.topic, event.body).value();
  // Whoever says the same is the same: then a second time is no duplicate to be counted.
  std::copy_n(event.digest.bytes.begin(), event.nonce.bytes.size(), event.nonce.bytes.begin());
  return event;
}

}  // namespace once::engine
