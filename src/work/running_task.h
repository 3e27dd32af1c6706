// A claimed task in this worker, from the claim until its end is recorded.
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
  lost,       // another worker has claimed the task
  settled,    // a step or probe of this attempt has settled the task: it is in doubt or dead
  cancelled,  // a person asked to cancel the task
  timed_out,
  interrupted,
};

struct RunningTask {
  // These fields do not change after the claim.
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
  bool probing = false;                   // ask the probe before the handler
  bool first = false;                     // no earlier attempt ran
  Duration claimed_for{};                 // the length of the lease; renewals use it too
  std::optional<core::TaskPolicy> own{};  // the policy in the task's headers
  std::string run{};                      // the run whose step the task is; empty: no step
  std::string step{};

  // The record as last written. The LeaseKeeper changes it between watch() and unwatch(), the
  // Committer after that.
  core::Stored stored{};

  // Under the mutex of the LeaseKeeper.
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  std::size_t place = kNowhere;  // index in the list of watched tasks
  Moment renewed_at{};
  bool renewed_out = false;  // the queue's timeout allows no longer lease
  std::optional<Moment> started_at{};
  Stopped stopped = Stopped::no;
  bool busy = false;  // a write or a stop callback is in progress
  Moment look_at{};   // when to read the record: a person may have asked to cancel the task
  // Why a step could not be recorded. Then the attempt ends without a verdict, whatever its handler
  // reports.
  std::optional<std::string> given_up{};

  // The handler's thread uses these.
  std::stop_source stop{};
  std::optional<Report> report{};  // nullopt if the handler never started
  bool probed = false;             // the report is from the probe
};

using RunningTasks = std::vector<std::unique_ptr<RunningTask>>;

}  // namespace once::engine
