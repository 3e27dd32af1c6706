// What people see of a zone: status, list, inspect, log, wait.
#include "once/view.h"

#include <algorithm>

#include "api/zone_impl.h"
#include "core/names.h"
#include "encoding/digest.h"

namespace once::inline v1 {
namespace {

constexpr std::size_t kPage = 200;

LogEntry log_entry(store::Entry entry) {
  return {.sequence = entry.sequence.value,
          .id = std::move(entry.id),
          .topic = std::move(entry.topic),
          .body = std::move(entry.body),
          .headers = std::move(entry.headers),
          .published_at = entry.published_at,
          .digest = encoding::text(entry.digest)};
}

State state_of(const store::Row& row) {
  return row.stored ? row.stored->record.state : State::waiting;
}

std::string seconds(Duration duration) {
  const auto ms = std::max<Duration::rep>(duration.count(), 0);
  if (ms < 1000) return std::to_string(ms) + "ms";
  return std::to_string((ms + 500) / 1000) + "s";
}

std::string next_of(const store::Row& row, core::StoreTime now) {
  const State state = state_of(row);
  switch (state) {
    case State::scheduled: return "waits for its time";
    case State::waiting: return "waits for a worker";
    case State::running: {
      if (row.stored->holder_gone) return "its worker is gone; the next worker runs it again";
      return "running; its lease ends in " +
             seconds(row.stored->stamp + row.stored->record.lease - now) + " unless renewed";
    }
    case State::retrying: {
      const Duration left = row.stored->stamp + row.stored->record.delay - now;
      return left > Duration{0} ? "tried again in " + seconds(left)
                                : "due: the next worker tries it again";
    }
    case State::in_doubt: return "held until a person decides";
    case State::completed: return "nothing: it is done";
    case State::dead: return "nothing: it is a dead letter";
    case State::cancelled: return "nothing: it is cancelled";
    case State::duplicate: return "nothing: another task with the same key stands for it";
  }
  return {};
}

QueueView queue_view(const store::Row& row, core::StoreTime now) {
  QueueView view{
      .queue = row.queue, .key = row.key, .state = state_of(row), .next = next_of(row, now)};
  if (!row.stored) return view;
  const core::Record& record = row.stored->record;
  view.reason = record.reason;
  view.error = record.error;
  view.result = record.result;
  view.result_cut = record.result_cut;
  view.attempts_dropped = record.claims - record.attempts.size();
  for (const core::Attempt& attempt : record.attempts) {
    view.attempts.push_back(
        {.attempt = static_cast<int>(attempt.number),
         .worker = attempt.worker,
         .token = attempt.token ? attempt.token.value : row.stored->revision.value,
         .started_at = attempt.started_at,
         .ended_at = attempt.ended_at,
         .outcome = std::string(core::to_string(attempt.ending)),
         .in_doubt = core::without_verdict(attempt.ending),
         .error = attempt.error});
  }
  return view;
}

Error unknown_id(std::string_view id) {
  return {.code = Code::not_found, .message = "no task has the id '" + std::string(id) + "'"};
}

}  // namespace

Result<std::optional<store::Row>> Zone::Impl::row(const store::Entry& entry,
                                                  const Queue& queue) const {
  const bool takes =
      core::matches(queue.topic, entry.topic) && entry.sequence.value >= queue.from.value_or(0);
  if (!takes) return std::optional<store::Row>{};
  const store::Row before{.entry = {.sequence = {entry.sequence.value - 1}}, .queue = queue.name};
  auto page = store->rows({.queue = queue.name}, &before, 1);
  if (!page) return page.error();
  if (page->rows.empty() || page->rows.front().entry.sequence != entry.sequence)
    return std::optional<store::Row>{};
  return std::optional(std::move(page->rows.front()));
}

Result<Status> Zone::status() const {
  Status status;
  auto queues = impl_->store->queues();
  if (!queues) return queues.error();
  for (Queue& queue : *queues) {
    auto counts = impl_->store->counts(queue.name);
    if (!counts) return counts.error();
    status.queues.push_back({.queue = std::move(queue),
                             .tasks = std::move(counts->tasks),
                             .workers = counts->workers,
                             .oldest_waiting = counts->oldest_waiting,
                             .oldest_in_doubt = counts->oldest_in_doubt});
  }
  auto unrouted = impl_->store->unrouted();
  if (!unrouted) return unrouted.error();
  status.unrouted = *unrouted;
  return status;
}

Result<std::vector<ListItem>> Zone::list(const ListFilter& filter) const {
  if (!filter.queue.empty())
    if (auto queue = impl_->queue(filter.queue); !queue) return queue.error();
  if (!filter.topic.empty())
    if (auto ok = core::check_filter(filter.topic); !ok) return ok.error();
  const store::RowFilter wanted{
      .queue = filter.queue, .state = filter.state, .topic = filter.topic, .since = filter.since};
  std::vector<ListItem> items;
  std::optional<store::Row> last;
  while (items.size() < filter.limit) {
    auto page = impl_->store->rows(wanted, last ? &*last : nullptr,
                                   std::min(kPage, filter.limit - items.size()));
    if (!page) return page.error();
    for (const store::Row& row : page->rows) {
      const core::Record* record = row.stored ? &row.stored->record : nullptr;
      items.push_back(
          {.id = row.entry.id,
           .queue = row.queue,
           .key = row.key,
           .sequence = row.entry.sequence.value,
           .topic = row.entry.topic,
           .state = state_of(row),
           .attempts = record ? static_cast<int>(record->claims) : 0,
           .error = record ? (record->reason.empty() || !record->error.empty() ? record->error
                                                                               : record->reason)
                           : "",
           .since = record ? record->since : row.entry.published_at});
    }
    if (!page->more || page->rows.empty()) break;
    last = std::move(page->rows.back());
  }
  return items;
}

Result<TaskView> Zone::inspect(std::string_view id) const {
  auto found = impl_->store->find(id);
  if (!found) return found.error();
  if (!*found) return unknown_id(id);
  auto queues = impl_->store->queues();
  if (!queues) return queues.error();
  TaskView view;
  view.duplicates = (*found)->duplicates;
  for (const Queue& queue : *queues) {
    auto row = impl_->row(**found, queue);
    if (!row) return row.error();
    if (*row) view.queues.push_back(queue_view(**row, impl_->store->now()));
  }
  view.entry = log_entry(std::move(**found));
  return view;
}

Result<std::vector<LogEntry>> Zone::log(std::uint64_t after, std::size_t limit,
                                        std::string_view topic) const {
  if (!topic.empty())
    if (auto ok = core::check_filter(topic); !ok) return ok.error();
  std::vector<LogEntry> out;
  while (out.size() < limit) {
    auto page = impl_->store->read(core::Sequence{after}, limit - out.size(), topic);
    if (!page) return page.error();
    if (page->empty()) break;
    after = page->back().sequence.value;
    for (store::Entry& entry : *page) out.push_back(log_entry(std::move(entry)));
  }
  return out;
}

Result<Outcome> Zone::wait(std::string_view id, std::string_view queue, Duration limit) {
  auto definition = impl_->queue(queue);
  if (!definition) return definition.error();
  auto found = impl_->store->find(id);
  if (!found) return found.error();
  if (!*found) return unknown_id(id);

  engine::Scheduler& scheduler = *impl_->scheduler;
  const auto mutex = scheduler.mutex();
  const auto condition = mutex->condition();
  constexpr Duration kLongest = std::chrono::hours{24 * 365};
  const engine::Moment deadline = scheduler.now() + std::clamp(limit, Duration{0}, kLongest);
  Duration look{2};
  while (true) {
    auto row = impl_->row(**found, *definition);
    if (!row) return row.error();
    if (!*row)
      return Error{.code = Code::not_found,
                   .message = (*found)->body
                                  ? "queue '" + std::string(queue) + "' does not take the task '" +
                                        std::string(id) + "'"
                                  : "the task '" + std::string(id) +
                                        "' was settled long ago, and its record in queue '" +
                                        std::string(queue) + "' is forgotten, if it had one"};
    const State state = state_of(**row);
    if (state == State::completed) {
      const core::Record& record = (*row)->stored->record;
      return Outcome::completed(record.result.value_or(Body{}));
    }
    if (state == State::in_doubt) return Outcome::unknown((*row)->stored->record.error);
    if (core::settled(state)) {
      const core::Record& record = (*row)->stored->record;
      return Outcome::dead(std::string(to_string(state)) +
                           (record.reason.empty() ? "" : ": " + record.reason) +
                           (record.error.empty() ? "" : ": " + record.error));
    }
    const engine::Moment now = scheduler.now();
    if (now >= deadline)
      return Error{.code = Code::timed_out,
                   .message = "task '" + std::string(id) + "' is still " +
                              std::string(to_string(state)) + " in queue '" + std::string(queue) +
                              "'; waiting again is safe",
                   .retryable = true};
    mutex->lock();
    condition->wait(std::min<engine::Moment>(deadline, now + look));
    mutex->unlock();
    look = std::min(look * 2, Duration{100});
  }
}

}  // namespace once::inline v1
