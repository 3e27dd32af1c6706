// One claim, from its record to its settlement.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/assignment.h"
#include "engine/scheduler.h"
#include "store/store.h"

namespace once::engine {

// Why a handler was asked to stop.
enum class Stopped { no, lost, timed_out, interrupted };

struct Flight {
  // What was claimed; fixed.
  Task task{};
  core::Sequence sequence{};
  core::Digest digest{};
  Time published_at{};
  store::Address address{};
  std::string handle{};
  core::Nonce nonce{};
  core::Token token{};
  std::uint32_t attempt{};
  bool in_doubt = false;

  // The record as last written. Changed by the keeper while it watches, by the settler after that.
  core::Stored stored{};

  // Under the keeper's mutex.
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  std::size_t place = kNowhere;  // among the watched ones
  Moment renewed_at{};
  std::optional<Moment> started_at{};
  Stopped stopped = Stopped::no;
  bool busy = false;  // a renewal or a stop callback is under way

  // The handler's.
  std::stop_source stop{};
  std::optional<Report> report{};  // none: never started
};

using Flights = std::vector<std::unique_ptr<Flight>>;

}  // namespace once::engine
