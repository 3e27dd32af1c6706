// What a Zone and the workers made from it share.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/scheduler.h"
#include "once/zone.h"
#include "publish/publisher.h"
#include "store/store.h"

namespace once::inline v1 {

// Host and process id.
std::string default_worker_name();
// This user on this host.
std::string this_person();

struct Zone::Impl {
  explicit Impl(std::unique_ptr<store::Store> opened,
                std::unique_ptr<engine::Scheduler> with = engine::thread_scheduler())
      : store(std::move(opened)), scheduler(std::move(with)), publisher(*store, *scheduler) {}

  // Refuses what would disturb a queue of Once's own; `instead` says what was not done, and what to do.
  static Result<void> not_own(std::string_view queue, std::string_view instead);

  // The queue's definition, or not_found with what to do.
  Result<Queue> queue(std::string_view name) const;
  // Refuses ages under which the key of a run would be forgotten before its time.
  Result<void> outlives_keys(const Retention& ages) const;
  // How the task stands in a queue on a stream of others', where it is named STREAM:SEQUENCE or by its
  // key, as it is or as the header or member that it is made of; none: the queue does not have it. `unclaimed`: look for one without a record,
  // too, which reads the stream.
  Result<std::optional<store::Row>> foreign_row(std::string_view name, const Queue& queue,
                                                bool unclaimed) const;
  // Adds one queue's tasks, behind `last`.
  Result<void> list(const ListFilter& filter, const std::string& queue,
                    std::optional<store::Row> last, std::vector<ListItem>& items) const;
  Result<std::vector<QueueView>> ledger_views(std::string_view key,
                                              std::span<const Queue> queues) const;

  std::unique_ptr<store::Store> store;
  std::unique_ptr<engine::Scheduler> scheduler;
  engine::Publisher publisher;
};

}  // namespace once::inline v1
