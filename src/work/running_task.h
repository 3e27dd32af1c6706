// One claim, from its record to its settlement.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/scheduler.h"
#include "store/store.h"
#include "work/task_attempt.h"

namespace once::engine {

// Why a handler was asked to stop.
enum class Stopped {
  no,
  lost,       // another worker has the task
  settled,    // a write of the attempt's own ended it: it is held, or dead by the probe's answer
  cancelled,  // asked for by a person
  timed_out,
  interrupted,
};

struct RunningTask {
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
  bool probing = false;                   // the probe is asked first
  bool first = false;                     // nothing of the task has run before
  Duration claimed_for{};                 // the lease that it was claimed with, and is renewed with
  std::optional<core::TaskPolicy> own{};  // what the task says of attempts itself
  std::string run{};                      // of a workflow, whose step it is; empty: of none
  std::string step{};

  // The record as last written. Changed by the keeper while it watches, by the settler after that.
  core::Stored stored{};

  // Under the keeper's mutex.
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  std::size_t place = kNowhere;  // among the watched ones
  Moment renewed_at{};
  bool renewed_out = false;  // the lease reaches as far as it ever may
  std::optional<Moment> started_at{};
  Stopped stopped = Stopped::no;
  bool busy = false;  // a write or a stop callback is under way
  Moment look_at{};   // when to see whether somebody asked for it to be cancelled
  // A step could not be recorded: why. The attempt ends without a verdict, whatever its handler says.
  std::optional<std::string> given_up{};

  // The handler's.
  std::stop_source stop{};
  std::optional<Report> report{};  // none: never started
  bool probed = false;             // the report is the probe's
};

using Flights = std::vector<std::unique_ptr<RunningTask>>;

}  // namespace once::engine
