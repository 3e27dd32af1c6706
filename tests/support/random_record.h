// Random ledger records and orders from a seed: every field set, unset and at its limits.
#pragma once

#include <limits>
#include <random>

#include "core/record.h"

namespace once::encoding {

class RandomRecord {
 public:
  explicit RandomRecord(std::uint64_t seed) : random_(seed) {}

  core::Record record() {
    core::Record out;
    out.sequence = {number()};
    fill(out.digest.bytes);
    out.state = static_cast<State>(below(9));
    out.claims = static_cast<std::uint32_t>(number());
    out.counted = static_cast<std::uint32_t>(number());
    out.in_doubt = below(2) == 0;
    fill(out.nonce.bytes);
    out.member = {number()};
    out.lease = duration();
    out.delay = duration();
    for (std::uint64_t i = 0, n = below(4); i < n; ++i) out.attempts.push_back(attempt());
    for (std::uint64_t i = 0, n = below(4); i < n; ++i) out.steps.push_back(step());
    for (std::uint64_t i = 0, n = below(4); i < n; ++i) out.story.push_back(action());
    out.actions = static_cast<std::uint32_t>(number());
    out.probe = below(2) == 0;
    out.cancel_asked = below(2) == 0;
    if (below(4) > 0) out.result = body();
    out.result_cut = below(2) == 0;
    out.error = bytes();
    out.reason = bytes();
    out.since = Time{duration()};
    if (below(2) == 0) out.reply = core::ReplyTo{.topic = bytes(), .id = bytes()};
    out.reply_due = below(2) == 0;
    if (below(2) == 0) out.own = own();
    if (below(2) == 0)
      out.offer = core::Offer{.worker = bytes(),
                              .at = Time{duration()},
                              .before = static_cast<State>(below(9)),
                              .can_probe = below(2) == 0};
    out.lapsed = static_cast<std::uint32_t>(number());
    if (below(2) == 0) out.started = core::StoreTime{duration()};
    return out;
  }

  core::Order order() {
    core::Order out;
    out.kind = static_cast<core::Order::Kind>(below(2));
    fill(out.nonce.bytes);
    out.claims = static_cast<std::uint32_t>(number());
    out.at = Time{duration()};
    out.by = bytes();
    out.why = bytes();
    out.step = bytes();
    out.result = body();
    return out;
  }

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

 private:
  core::Attempt attempt() {
    core::Attempt out;
    out.number = static_cast<std::uint32_t>(number());
    out.worker = bytes();
    out.token = {number()};
    out.started_at = Time{duration()};
    if (below(2) == 0) out.ended_at = Time{duration()};
    out.ending = static_cast<core::Ending>(below(9));
    out.error = bytes();
    out.probing = below(2) == 0;
    out.log = bytes();
    if (below(2) == 0) fill(out.nonce.bytes);
    return out;
  }

  core::Step step() {
    core::Step out;
    out.name = bytes();
    out.state = static_cast<core::Step::State>(below(3));
    out.policy = static_cast<InDoubt>(below(4));
    out.attempt = static_cast<std::uint32_t>(number());
    out.runs = static_cast<std::uint32_t>(number());
    out.started_at = Time{duration()};
    if (below(2) == 0) out.ended_at = Time{duration()};
    out.result = body();
    out.result_cut = below(2) == 0;
    out.failed = static_cast<std::uint32_t>(number());
    out.error = bytes();
    out.call = bytes();
    return out;
  }

  core::OperatorAction action() {
    core::OperatorAction out;
    out.act = static_cast<core::OperatorAction::Act>(below(9));
    out.at = Time{duration()};
    out.by = bytes();
    out.why = bytes();
    out.step = bytes();
    fill(out.nonce.bytes);
    return out;
  }

  core::TaskPolicy own() {
    core::TaskPolicy out;
    out.attempts = static_cast<std::uint32_t>(number());
    for (std::uint64_t i = 0, n = below(4); i < n; ++i) out.backoff.push_back(duration());
    if (below(2) == 0) out.jitter_permille = static_cast<std::uint32_t>(number());
    out.timeout = duration();
    if (below(2) == 0) out.in_doubt = static_cast<InDoubt>(below(4));
    return out;
  }

  Body body() {
    switch (below(3)) {
      case 0: return Body::bytes(bytes());
      case 1: return Body::json("{\"n\" : " + std::to_string(below(1000)) + "}").value();
      default: return Body();
    }
  }

  std::uint64_t number() {
    switch (below(4)) {
      case 0: return 0;
      case 1: return std::numeric_limits<std::uint64_t>::max();
      default: return random_() >> below(64);
    }
  }
  Duration duration() {
    switch (below(8)) {
      case 0: return Duration::min();
      case 1: return Duration::max();
      default: return Duration{static_cast<std::int64_t>(number())};
    }
  }
  std::string bytes() {
    std::string out(below(3) == 0 ? below(300) : below(8), '\0');
    for (char& c : out) c = static_cast<char>(random_());
    return out;
  }
  template <std::size_t N>
  void fill(std::array<std::uint8_t, N>& bytes) {
    if (below(4) == 0) return;
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random_());
  }

  std::mt19937_64 random_;
};

}  // namespace once::encoding
