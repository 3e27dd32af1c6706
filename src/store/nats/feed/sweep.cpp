#include "store/nats/feed/sweep.h"

#include <algorithm>

namespace once::store::nats {

class Sweep::Page {
 public:
  Page(const ConsumerState& given, Sequence from, std::size_t limit)
      : state(given), after(from), limit_(limit) {
    found.settled = from;
  }

  // An entry whose delivery may be unanswered is only perhaps overlooked.
  bool answered(Sequence sequence) const {
    return state.unanswered == 0 || sequence.value <= state.floor;
  }
  // False if the page is full.
  bool add(Sequence sequence, bool certain, bool unrecorded) {
    if (found.sequences.size() == limit_) {
      found.next = limit_ > 0 ? found.sequences.back() : after;
      return false;
    }
    found.sequences.push_back(sequence);
    if (!certain) found.perhaps.push_back(sequence);
    // An ACK needs a record. But a consumer that another program changed may count ACKs that no
    // worker sent.
    if (unrecorded && state.as_made) found.unrecorded.push_back(sequence);
    return true;
  }

  const ConsumerState state;
  const Sequence after;
  Feed::OverlookedPage found{};

 private:
  const std::size_t limit_;
};

// An entry that is scheduled is not passed: it is pending at the server like everything else, and might
// be overlooked too.
Result<void> Sweep::sweep_log(const KnownQueue& queue, Page& page) {
  const auto wakes = wakes_.of(queue);
  if (!wakes) return wakes.error();
  const auto shared = counts_.of(queue);
  const std::lock_guard lock(shared->mutex);
  QueueCounts& counts = shared->counts;
  // A record that was removed leaves no message behind, so a sweep from the start reads everything anew.
  // Entries that no worker has received yet are not looked at.
  if (!page.after) counts = {};
  const std::uint64_t delivered = page.state.delivered;
  if (auto done = counts_.catch_up(queue, counts, delivered); !done) return done.error();

  const StoreTime time = zone_.now();
  struct Candidate {
    Sequence sequence{};
    const QueueCounts::Open* open{};
    bool waits = false;  // for its time, a retry or a lease
  };
  std::vector<Candidate> candidates;
  std::uint64_t waiting = 0;
  page.found.settled = std::max(page.after, Sequence{counts.log_seen});
  bool all_settled = true;
  for (auto each = counts.open().upper_bound(page.after); each != counts.open().end(); ++each) {
    const auto& [sequence, open] = *each;
    if (!open.owes && (!open.whole || core::settled(open.state))) continue;
    if (all_settled) page.found.settled = {sequence.value - 1};
    all_settled = false;
    if (sequence.value > delivered || wakes->contains(sequence)) continue;
    const bool waits = time < open.due;
    if (waits) ++waiting;
    candidates.push_back({sequence, &open, waits});
  }
  for (const auto& [sequence, open, waits] : candidates) {
    const bool answered = page.answered(sequence);
    const bool certain = answered || (page.state.unanswered == waiting && !waits);
    // A worker that was handed an overdue entry has had a lease's time.
    const bool overdue = time >= open->due + queue.definition.lease;
    if (!certain && !overdue) continue;
    if (!page.add(sequence, certain, !open->recorded && answered)) break;
  }
  return {};
}

// A task that the stream dropped while it was unsettled is overlooked, too: the server cannot
// deliver it.
Result<void> Sweep::sweep_foreign(const KnownQueue& queue, Page& page) {
  const auto tasks = foreign_.tasks(queue);
  if (!tasks) return tasks.error();
  const auto wakes = wakes_.of(queue);
  if (!wakes) return wakes.error();
  const StoreTime time = zone_.now();
  for (const auto& [sequence, task] : *tasks) {
    const Stored* stored = task.standing();
    if (sequence <= page.after || (stored && core::settled(stored->record.state))) continue;
    if ((!task.gone && sequence.value > page.state.delivered) || wakes->contains(sequence))
      continue;
    const StoreTime due =
        stored ? stored->stamp + core::look_again(stored->record).value_or(Duration{0})
               : task.entry.not_before();
    const bool certain = task.gone ? time >= due : page.answered(sequence);
    if (!certain && time < due + queue.definition.lease) continue;
    if (!page.add(sequence, certain, !stored && certain && !task.gone)) break;
  }
  return {};
}

Result<Feed::OverlookedPage> Sweep::overlooked(std::string_view name, Sequence after,
                                               std::size_t limit) {
  const auto queue = registry_.must_know(name);
  if (!queue) return queue.error();
  if (queue->definition.ledger) return Feed::OverlookedPage{.settled = after};
  const auto state = consumers_.state(*queue);
  if (!state) return state.error();
  Page page(*state, after, limit);
  const auto swept = queue->foreign() ? sweep_foreign(*queue, page) : sweep_log(*queue, page);
  if (!swept) return swept.error();
  // The records may be missing because somebody emptied the ledger.
  if (!page.found.sequences.empty())
    if (auto whole = watch_.ledger_is_whole(); !whole) return whole.error();
  return std::move(page.found);
}

}  // namespace once::store::nats
