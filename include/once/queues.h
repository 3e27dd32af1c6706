// The queues of a zone. Zone::queues() returns this object.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "once/task.h"

namespace once::inline v1 {

namespace detail {
struct Access;
struct ZoneState;
}  // namespace detail

struct RemoveOptions {
  bool force = false;  // also removes a queue that has unsettled, dead or in-doubt tasks
};

// Any thread may call. A Queues object is cheap to copy and keeps its zone open.
class Queues {
 public:
  // Adds the queue and returns how many tasks in the log match it. If the queue exists with the
  // same definition, add() changes nothing and returns 0. Returns queue_mismatch if the queue
  // exists with another definition.
  Result<std::uint64_t> add(const Queue& queue);
  // Returns every queue, in the order of their names.
  Result<std::vector<Queue>> list() const;
  // Changes the attempt settings of a queue and returns the new definition. change() calls `edit`
  // with the current definition. If others change the queue at the same time, change() calls
  // `edit` again. Name, topic, key, key_format, from, stream and ledger are fixed.
  // Workers apply the new definition from their next claim.
  Result<Queue> change(std::string_view name, const std::function<void(Queue&)>& edit);
  // Workers claim nothing from a paused queue. Tasks that are running finish. Publishers can still
  // publish to its topic. Both calls return the new definition and may be repeated.
  Result<Queue> pause(std::string_view name);
  Result<Queue> resume(std::string_view name);
  // Removes a queue and its ledger records. If the queue has unsettled, dead or in-doubt tasks,
  // remove() changes nothing and returns invalid_input, unless `force` is set. The tasks stay in
  // the log. A queue that is added later runs them again.
  Result<void> remove(std::string_view name, RemoveOptions options = {});

 private:
  friend struct detail::Access;
  explicit Queues(std::shared_ptr<detail::ZoneState> state);
  std::shared_ptr<detail::ZoneState> state_;  // shared with the zone
};

}  // namespace once::inline v1
