#include "store/nats/queues/queue_status.h"

#include <algorithm>
#include <set>

#include "store/nats/ledger/ledger_scan.h"

namespace once::store::nats {
namespace {

constexpr State kAll[] = {State::scheduled, State::waiting,   State::running,
                          State::retrying,  State::in_doubt,  State::completed,
                          State::dead,      State::cancelled, State::duplicate};

}  // namespace

class QueueStatus::Sum {
 public:
  Sum() {
    for (const State state : kAll) counts.tasks[state] = 0;
  }
  void add(State state, Duration age) {
    ++counts.tasks[state];
    if (state == State::waiting)
      counts.oldest_waiting = std::max(counts.oldest_waiting.value_or(age), age);
    if (state == State::in_doubt)
      counts.oldest_in_doubt = std::max(counts.oldest_in_doubt.value_or(age), age);
  }

  Counts counts{};
};

Result<void> QueueStatus::add_ledger_only(const KnownQueue& queue, Sum& sum) {
  const auto scan = scan_ledger(zone_, queue);
  if (!scan) return scan.error();
  const StoreTime time = zone_.now();
  for (const auto& [key, stored] : scan->keys) sum.add(stored.record.state, time - stored.stamp);
  return {};
}

Result<std::vector<QueueStatus::ForeignRow>> QueueStatus::foreign_rows(
    const KnownQueue& queue) const {
  auto tasks = foreign_.tasks(queue);
  if (!tasks) return tasks.error();
  std::map<Sequence, StoreTime> since;
  const auto orders = wakes_.of(queue, &since);
  if (!orders) return orders.error();
  std::vector<std::uint64_t> left;
  for (const auto& [sequence, task] : *tasks)
    if (task.gone) left.push_back(sequence.value);
  const auto taken = past_.taken_of(queue, left);
  if (!taken) return taken.error();
  std::vector<ForeignRow> found;
  for (auto& [sequence, task] : *tasks) {
    if (taken->contains(sequence.value)) continue;
    Row row{.entry = std::move(task.entry),
            .queue = queue.definition.name,
            .key = std::move(task.key),
            .own = task.own_record.has_value()};
    if (const Stored* stored = task.standing()) row.stored = *stored;
    if (const auto wake = orders->find(sequence); wake != orders->end())
      row.order = wake->second.order;
    found.push_back({.row = std::move(row),
                     .ordered_at = since.contains(sequence) ? since[sequence] : StoreTime{}});
  }
  return found;
}

Result<void> QueueStatus::add_foreign(const KnownQueue& queue, Sum& sum) {
  const auto all = foreign_rows(queue);
  if (!all) return all.error();
  const StoreTime time = zone_.now();
  for (const auto& [row, ordered_at] : *all) {
    const State state = state_of(row, time);
    StoreTime since = row.entry.not_before();
    if (row.stored) since = state == row.stored->record.state ? row.stored->stamp : ordered_at;
    sum.add(state, time - since);
  }
  return {};
}

Result<void> QueueStatus::add_log(const KnownQueue& queue, Sum& sum) {
  std::map<Sequence, StoreTime> since;
  const auto wakes = wakes_.of(queue, &since);
  if (!wakes) return wakes.error();
  const auto shared = keeper_.of(queue);
  const std::lock_guard lock(shared->mutex);
  const QueueCounts& counts = shared->counts;
  if (auto done = keeper_.bring_up_to_date(queue, shared->counts); !done) return done.error();
  const StoreTime time = zone_.now();
  for (const State state : kAll) sum.counts.tasks[state] = counts.settled(state);
  std::set<Sequence> ordered;
  for (const auto& [sequence, wake] : *wakes) {
    if (!wake.order) continue;
    const bool dead = counts.has_state(sequence, State::dead);
    if (!dead && !counts.has_state(sequence, State::in_doubt)) continue;
    ordered.insert(sequence);
    if (dead && !counts.open().contains(sequence)) --sum.counts.tasks[State::dead];
    sum.add(State::waiting, time - since[sequence]);
  }
  for (const auto& [sequence, open] : counts.open()) {
    if (ordered.contains(sequence)) continue;
    const bool scheduled = !open.recorded && time < open.since;
    sum.add(scheduled ? State::scheduled : open.state, time - open.since);
  }
  return {};
}

Result<Counts> QueueStatus::counts(const KnownQueue& queue) {
  const auto workers = members_.workers(queue);
  if (!workers) return workers.error();
  Sum sum;
  sum.counts.workers = *workers;
  const auto added = queue.definition.ledger ? add_ledger_only(queue, sum)
                     : queue.foreign()       ? add_foreign(queue, sum)
                                             : add_log(queue, sum);
  if (!added) return added.error();
  return std::move(sum.counts);
}

Result<Counts> QueueStatus::counts(std::string_view name) {
  const auto queue = registry_.must_know(name);
  if (!queue) return queue.error();
  return counts(*queue);
}

Result<bool> QueueStatus::counted_settled(const KnownQueue& queue) {
  const auto counted = counts(queue);
  if (!counted) return counted.error();
  return std::none_of(counted->tasks.begin(), counted->tasks.end(), [](const auto& tasks) {
    return !core::settled(tasks.first) && tasks.second > 0;
  });
}

Result<bool> QueueStatus::feed_is_done(const KnownQueue& queue) const {
  const Subjects& subjects = zone_.subjects;
  const auto newest =
      zone_.client.last(subjects.log_stream(), subjects.logs(queue.definition.topic));
  if (!newest) return newest.error();
  const auto feed = consumers_.state(queue);
  if (!feed) return feed.error();
  const auto wake = zone_.client.last(subjects.wake_stream(), subjects.wakes(queue));
  if (!wake) return wake.error();
  // A consumer hears of an entry a moment after its publisher does.
  const std::uint64_t up_to = *newest ? (*newest)->sequence : 0;
  const bool heard = up_to <= feed->delivered || up_to < queue.definition.from.value_or(0);
  return heard && feed->as_made && feed->unanswered == 0 && feed->pending == 0 && !*wake;
}

Result<std::optional<SoleWriter::Ledger>> QueueStatus::ledger_state() const {
  const auto info = zone_.client.stream_info(zone_.subjects.ledger_stream());
  if (!info) return info.error();
  const encoding::Json* state = *info ? (*info)->member("state") : nullptr;
  if (!state) return std::optional<SoleWriter::Ledger>{};
  return std::optional(SoleWriter::Ledger{.last = number_of(*state, "last_seq").value_or(0),
                                          .messages = number_of(*state, "messages").value_or(0)});
}

// If this process wrote every record, it does not need to read them back.
Result<bool> QueueStatus::all_settled(std::string_view name) {
  const auto queue = registry_.must_know(name);
  if (!queue) return queue.error();
  if (queue->definition.ledger || queue->foreign()) return counted_settled(*queue);
  const auto done = feed_is_done(*queue);
  if (!done) return done.error();
  const auto ledger = ledger_state();
  if (!ledger) return ledger.error();
  if (!*ledger) return counted_settled(*queue);
  if (*done && sole_writer_.all_settled(queue->consumer(), **ledger)) return true;
  auto settled = counted_settled(*queue);
  if (!settled || !*settled) return settled;
  {
    const auto shared = keeper_.of(*queue);
    const std::lock_guard lock(shared->mutex);
    if (shared->counts.owes_replies()) return false;
  }
  sole_writer_.saw_all_settled(queue->consumer(), **ledger);
  return true;
}

Result<std::optional<Sequence>> QueueStatus::next_in_state(const KnownQueue& queue, State state,
                                                           Sequence after) {
  const auto shared = keeper_.of(queue);
  const std::lock_guard lock(shared->mutex);
  QueueCounts& counts = shared->counts;
  if (auto done = keeper_.bring_up_to_date(queue, counts); !done) return done.error();
  std::optional<Sequence> next = counts.next(state, after);
  if (state != State::waiting) return next;
  // A dead or doubtful one with an order waits, too.
  const auto wakes = wakes_.of(queue);
  if (!wakes) return wakes.error();
  for (auto wake = wakes->upper_bound(after); wake != wakes->end(); ++wake)
    if (wake->second.order) {
      if (!next || wake->first < *next) next = wake->first;
      break;
    }
  return next;
}

}  // namespace once::store::nats
