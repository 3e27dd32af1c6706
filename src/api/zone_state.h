// The state that a Zone, its workers and its views share: the store, the scheduler, the publisher.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/scheduler.h"
#include "once/zone.h"
#include "publish/async_publisher.h"
#include "store/store.h"

namespace once::inline v1 {

// Host and process id.
std::string default_worker_name();
// This user on this host.
std::string this_person();

struct detail::ZoneState {
  explicit ZoneState(std::unique_ptr<store::Store> opened,
                     std::unique_ptr<engine::Scheduler> with = engine::thread_scheduler(),
                     AsyncLimits limits = {})
      : store(std::move(opened)),
        scheduler(std::move(with)),
        publisher(*store, *scheduler),
        async(publisher, *scheduler, limits) {}

  // Returns an error if the queue belongs to Once itself. `instead` completes its message: what was
  // not done, and what to do.
  static Result<void> not_own(std::string_view queue, std::string_view instead);

  // The queue's definition. Returns not_found, with Reason::no_queue, if there is none.
  Result<Queue> queue(std::string_view name) const;
  // Returns an error if records would be removed before the key_ttl of a workflow ends.
  Result<void> outlives_keys(const Retention& ages) const;
  // The row of a task in a queue on a stream of others. `name` is STREAM:SEQUENCE, the task's key,
  // or the value of the header or member that the key is made of. Returns nullopt if the queue does
  // not have the task. With `unclaimed`, it also finds tasks without a record, which reads the
  // stream.
  Result<std::optional<store::Row>> foreign_row(std::string_view name, const Queue& queue,
                                                bool unclaimed) const;
  // Adds the tasks of one queue after `last` to `items`.
  Result<void> list(const ListFilter& filter, const std::string& queue,
                    std::optional<store::Row> last, std::vector<ListItem>& items) const;
  Result<std::vector<QueueView>> ledger_views(std::string_view key,
                                              std::span<const Queue> queues) const;

  std::unique_ptr<store::Store> store;
  std::unique_ptr<engine::Scheduler> scheduler;
  engine::Publisher publisher;
  engine::AsyncPublisher async;
};

}  // namespace once::inline v1
