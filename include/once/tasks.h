// The tasks of a zone: reading them, waiting for them, and deciding about them as a person.
// Zone::tasks() returns this object.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "once/view.h"
#include "once/worker.h"

namespace once::inline v1 {

// Any thread may call. A Tasks object is cheap to copy and keeps its zone open.
//
// A call that takes an id and a queue means the task with that id in that queue. In a queue with
// `ledger`, the id is the key. In a queue with `stream`, the id is STREAM:SEQUENCE or the key.
// Each call returns not_found if there is no such queue or task.
class Tasks {
 public:
  // Lists tasks by queue, then in the order of the log. `after` continues a listing after this item
  // of an earlier page.
  Result<std::vector<ListItem>> list(const ListFilter& filter,
                                     const ListItem* after = nullptr) const;
  // Returns everything that the zone knows about one task, in all of its queues.
  Result<TaskView> inspect(std::string_view id) const;
  // Returns at most `limit` log entries after a sequence, in order. If `topic` is empty, every
  // topic matches.
  Result<std::vector<LogEntry>> log(std::uint64_t after, std::size_t limit,
                                    std::string_view topic = {}) const;
  // Blocks until the task is settled in the queue, or is in doubt. A completed task gives
  // Outcome::completed with its result. A dead, cancelled or duplicate task gives Outcome::dead.
  // A task in doubt gives Outcome::unknown. Returns timed_out if `limit` expires first.
  Result<Outcome> wait(std::string_view id, std::string_view queue, Duration limit) const;

  // The following calls change a task for a person. Each call adds `by` to the task's story. If the
  // task's state does not allow the call, the call changes nothing and returns wrong_state. See
  // ActOptions for calls that may be repeated.
  //
  // Runs a dead or in-doubt task again, with a full set of attempts.
  Result<void> retry(std::string_view id, std::string_view queue, const By& by,
                     const ActOptions& options = {});
  // Resolves an in-doubt task as "it happened" with the given result.
  Result<void> complete(std::string_view id, std::string_view queue, Body result, const By& by,
                        const ActOptions& options = {});
  // Resolves an in-doubt step as "it happened" with the given result. The task then continues after
  // that step.
  Result<void> complete_step(std::string_view id, std::string_view queue, std::string_view step,
                             Body result, const By& by, const ActOptions& options = {});
  // Gives up a dead or in-doubt task. The task becomes cancelled.
  Result<void> drop(std::string_view id, std::string_view queue, const By& by,
                    const ActOptions& options = {});
  // Cancels an unsettled or in-doubt task. If the task is running, cancel() asks its handler to
  // stop and returns State::running. The task becomes cancelled unless the handler completes it.
  Result<State> cancel(std::string_view id, std::string_view queue, const By& by,
                       const ActOptions& options = {});

 private:
  friend struct detail::Access;
  explicit Tasks(std::shared_ptr<detail::ZoneState> state);
  std::shared_ptr<detail::ZoneState> state_;  // shared with the zone
};

}  // namespace once::inline v1
