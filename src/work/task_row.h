// Finds the row of one task in one queue, and cancels or drops it. The runner and the API use it.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/scheduler.h"
#include "flow/rules/facts.h"
#include "work/ledger_writer.h"

namespace once::engine {

// Whether the queue takes tasks of the log with that topic.
bool takes(const Queue& queue, std::string_view topic);

// The queue's row at that sequence. nullopt if the queue does not have the entry.
Result<std::optional<store::Row>> row_at(store::Store& store, core::Sequence sequence,
                                         const Queue& queue);
// The row of an entry of the log, with its headers. nullopt if the queue does not take the entry.
Result<std::optional<store::Row>> row_of(store::Store& store, const store::Entry& entry,
                                         const Queue& queue);

// The queue that replies for a step's task. Code::not_found: the queue does not exist yet.
// Code::wrong_state: the queue does not take the topic, or the step names no queue and two take it.
Result<std::string> queue_of(const core::FlowStep& step, std::span<const Queue> queues);
// The row of a step's task in that queue. nullopt if no queue has the task yet.
struct StepRow {
  const Queue* queue{};  // one of the given queues
  store::Row row{};
};
Result<std::optional<StepRow>> step_row(store::Store& store, const store::Entry& entry,
                                        std::span<const Queue> queues);

// The task of a step whose try `n` failed.
struct FailedTask {
  std::optional<StepRow> found{};  // nullopt if its queue is missing, or the task has expired
  std::string why_never{};         // why it can never run again; empty if it may
};
Result<FailedTask> failed_task(store::Store& store, const std::string& id, std::uint32_t n,
                               std::span<const Queue> queues);

// Whether the row has that order, waiting or applied.
bool has_order(const store::Row& row, const core::Nonce& order, core::StoreTime now);

// The address of the row's record.
store::Address address_of(const store::Row& row);

// Cancels the task, or asks its handler to stop if it runs. A retryable Code::wrong_state means
// that a worker changed the record between the read and the write; the caller reads it again. In a
// queue with a key template, a task without a record gets an own record. Its key may belong to an
// earlier task that has not run yet.
// `nonce` tells a repeated cancel, and `claims` is of the record that the person saw. Without them
// the cancel is an act of its own, whatever the record's claims.
Result<WriteResult> cancel(store::Store& store, Scheduler& scheduler, const Queue& queue,
                           const store::Row& row, const std::string& by, const std::string& why,
                           std::optional<core::Nonce> nonce = {},
                           std::optional<std::uint32_t> claims = {});

// Cancels a dead letter. After that it cannot be retried.
Result<WriteResult> drop(store::Store& store, Scheduler& scheduler, const Queue& queue,
                         const store::Row& row, const std::string& by, const std::string& why);

}  // namespace once::engine
