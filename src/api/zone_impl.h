// What a Zone and the workers made from it share.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "engine/publisher.h"
#include "engine/scheduler.h"
#include "once/zone.h"
#include "store/store.h"

namespace once::inline v1 {

// Host and process id.
std::string default_worker_name();

struct Zone::Impl {
  explicit Impl(std::unique_ptr<store::Store> opened,
                std::unique_ptr<engine::Scheduler> with = engine::thread_scheduler())
      : store(std::move(opened)), scheduler(std::move(with)), publisher(*store, *scheduler) {}

  // Refuses what would disturb a queue of Once's own; `instead` says what was not done, and what to do.
  static Result<void> not_own(std::string_view queue, std::string_view instead);

  // The queue's definition, or not_found with what to do.
  Result<Queue> queue(std::string_view name) const;
  // How the task stands in the queue; none: the queue does not take it.
  Result<std::optional<store::Row>> row(const store::Entry& entry, const Queue& queue) const;

  // The same for a queue on a stream of others', where a task is named STREAM:SEQUENCE or by its key, as
  // it is or as the header or member that it is made of. `unclaimed`: look for one without a record,
  // too, which reads the stream.
  Result<std::optional<store::Row>> foreign_row(std::string_view name, const Queue& queue,
                                                bool unclaimed) const;
  // What the queue holds at that sequence.
  Result<std::optional<store::Row>> row_at(core::Sequence sequence, const Queue& queue) const;

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
