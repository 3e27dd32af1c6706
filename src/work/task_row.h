// One task in one queue, as the store lists it.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/scheduler.h"
#include "flow/rules/facts.h"
#include "work/ledger_writer.h"

namespace once::engine {

// Whether tasks of the log with that topic are the queue's.
bool takes(const Queue& queue, std::string_view topic);

// What the queue holds at that sequence; none: it does not have it.
Result<std::optional<store::Row>> row_at(store::Store& store, core::Sequence sequence,
                                         const Queue& queue);
// How an entry of the log stands in the queue, with its headers; none: the queue does not take it.
Result<std::optional<store::Row>> row_of(store::Store& store, const store::Entry& entry,
                                         const Queue& queue);

// Which queue's word on a step's task counts. Code::not_found: it is not there as yet; wrong_state: it
// does not take the topic, or none is named and two do.
Result<std::string> queue_of(const core::FlowStep& step, std::span<const Queue> queues);
// How a step's task stands in that queue; none: no queue has it as yet.
struct StepRow {
  const Queue* queue{};  // one of those that were given
  store::Row row{};
};
Result<std::optional<StepRow>> step_row(store::Store& store, const store::Entry& entry,
                                        std::span<const Queue> queues);

// The task of a step whose try `n` failed.
struct FailedTask {
  std::optional<StepRow> found{};  // none: its queue is not there, or it is forgotten
  std::string why_never{};         // it can never run again; empty: it may
};
Result<FailedTask> failed_task(store::Store& store, const std::string& id, std::uint32_t n,
                               std::span<const Queue> queues);

// Whether that order is there: it waits, or has been carried out.
bool has_order(const store::Row& row, const core::Nonce& order, core::StoreTime now);

// Where its record lies.
store::Address address_of(const store::Row& row);

// Cancels it, or asks whoever runs it to end. A retryable Code::wrong_state: a worker came to it
// between the look and the write; look again. A task that was never looked at gets a record of its own
// where keys are made by a template: its key may belong to an earlier task that is still to run.
Result<Written> cancel(store::Store& store, Scheduler& scheduler, const Queue& queue,
                       const store::Row& row, const std::string& by, const std::string& why);

// A dead letter becomes cancelled: it can not be retried any more.
Result<Written> drop(store::Store& store, Scheduler& scheduler, const Queue& queue,
                     const store::Row& row, const std::string& by, const std::string& why);

}  // namespace once::engine
