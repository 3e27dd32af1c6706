#include "work/task_row.h"

#include <algorithm>

#include "codec/step_headers.h"
#include "core/names.h"

namespace once::engine {

bool takes(const Queue& queue, std::string_view topic) {
  return !queue.ledger && queue.stream.empty() && core::matches(queue.topic, topic);
}

Result<std::optional<store::Row>> row_at(store::Store& store, core::Sequence sequence,
                                         const Queue& queue) {
  store::Row before;
  before.entry.sequence = {sequence.value - 1};
  before.queue = queue.name;
  auto page = store.rows({.queue = queue.name, .up_to = sequence}, &before, 1);
  if (!page) return page.error();
  if (page->rows.empty() || page->rows.front().entry.sequence != sequence)
    return std::optional<store::Row>{};
  return std::optional(std::move(page->rows.front()));
}

Result<std::optional<store::Row>> row_of(store::Store& store, const store::Entry& entry,
                                         const Queue& queue) {
  if (!takes(queue, entry.topic) || entry.sequence.value < queue.from.value_or(0))
    return std::optional<store::Row>{};
  auto row = row_at(store, entry.sequence, queue);
  if (row && *row) (*row)->entry.headers = entry.headers;
  return row;
}

Result<std::string> queue_of(const core::FlowStep& step, std::span<const Queue> queues) {
  std::vector<std::string> takers;
  bool named = false;
  for (const Queue& queue : queues) {
    named = named || queue.name == step.queue;
    if (takes(queue, step.topic)) takers.push_back(queue.name);
  }
  const bool any = step.queue.empty();
  if (any && takers.size() == 1) return takers.front();
  if (!any && std::find(takers.begin(), takers.end(), step.queue) != takers.end())
    return step.queue;
  const std::string topic = "topic '" + step.topic + "'";
  if (any && takers.size() > 1)
    return Error{.code = Code::wrong_state,
                 .message = topic + " is taken by queues '" + takers[0] + "' and '" + takers[1] +
                            "': the step has to name one as its \"queue\""};
  if (any) return Error{.code = Code::not_found, .message = "no queue takes " + topic + " as yet"};
  if (named)
    return Error{.code = Code::wrong_state,
                 .message = "queue '" + step.queue + "' does not take " + topic};
  return Error{.code = Code::not_found,
               .message = "there is no queue '" + step.queue + "' as yet" +
                          (takers.empty() ? "" : " ('" + takers[0] + "' takes " + topic + ")")};
}

Result<std::optional<StepRow>> step_row(store::Store& store, const store::Entry& entry,
                                        std::span<const Queue> queues) {
  for (const Queue& queue : queues) {
    if (!encoding::read_step(entry.headers, queue.name)) continue;
    auto row = row_of(store, entry, queue);
    if (!row) return row.error();
    if (*row) return std::optional(StepRow{.queue = &queue, .row = std::move(**row)});
  }
  return std::optional<StepRow>{};
}

Result<FailedTask> failed_task(store::Store& store, const std::string& id, std::uint32_t n,
                               std::span<const Queue> queues) {
  auto entry = store.find(id);
  if (!entry) return entry.error();
  if (!*entry) return FailedTask{.why_never = "its task is forgotten"};
  auto found = step_row(store, **entry, queues);
  if (!found) return found.error();
  if (*found && (*found)->row.stored) {
    std::string why = core::why_never_again((*found)->row.stored->record, n);
    return FailedTask{.found = std::move(*found), .why_never = std::move(why)};
  }
  // Retention removes a body before the record, and never the body of a task that may run again.
  return FailedTask{.why_never = (*entry)->body ? "" : "its task is forgotten"};
}

bool has_order(const store::Row& row, const core::Nonce& order, core::StoreTime now) {
  if (row.order && row.order->nonce == order && store::state_of(row, now) == State::waiting)
    return true;
  if (!row.stored) return false;
  const auto& story = row.stored->record.story;
  return std::any_of(story.begin(), story.end(),
                     [&](const core::OperatorAction& action) { return action.nonce == order; });
}

store::Address address_of(const store::Row& row) {
  return {.kind = row.own ? store::Address::Kind::entry : store::Address::Kind::task,
          .queue = row.queue,
          .key = row.key,
          .sequence = row.entry.sequence};
}

namespace {

core::Nonce new_nonce(Scheduler& scheduler) {
  core::Nonce nonce;
  scheduler.random_bytes(nonce.bytes.data(), nonce.bytes.size());
  return nonce;
}

}  // namespace

Result<WriteResult> drop(store::Store& store, Scheduler& scheduler, const Queue& queue,
                         const store::Row& row, const std::string& by, const std::string& why) {
  LedgerWriter writer(store, core::policy_of(queue));
  return writer.write({.at = address_of(row),
                       .known = row.stored,
                       .command = core::Drop{.nonce = new_nonce(scheduler), .by = by, .why = why}});
}

Result<WriteResult> cancel(store::Store& store, Scheduler& scheduler, const Queue& queue,
                           const store::Row& row, const std::string& by, const std::string& why,
                           std::optional<core::Nonce> nonce, std::optional<std::uint32_t> claims) {
  store::Address at = address_of(row);
  if (!row.stored && !queue.key.empty()) at.kind = store::Address::Kind::entry;
  core::Cancel command{.sequence = row.entry.sequence,
                       .digest = row.entry.digest,
                       .nonce = nonce ? *nonce : new_nonce(scheduler),
                       .by = by,
                       .why = why,
                       .claims = claims};
  command.order = row.order;
  if (queue.stream.empty())
    if (const auto step = encoding::read_step(row.entry.headers, queue.name))
      command.reply = encoding::reply_to(*step);
  LedgerWriter writer(store, core::policy_of(queue));
  return writer.write({.at = std::move(at), .known = row.stored, .command = std::move(command)});
}

}  // namespace once::engine
