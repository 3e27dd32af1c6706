#include "store/nats/queues/queue_counts.h"

namespace once::store::nats {

bool QueueCounts::Cell::counted_alone() const {
  return standing() != kNone && !owes() && core::over(static_cast<State>(standing()));
}

QueueCounts::Cell& QueueCounts::cell(Sequence sequence) {
  if (cells_.size() <= sequence.value) cells_.resize(sequence.value + 1 + sequence.value / 8);
  return cells_[sequence.value];
}

void QueueCounts::take_out(Sequence sequence, const Cell& cell) {
  if (!cell.counts()) return;
  owing_ -= cell.owes() ? 1 : 0;
  if (cell.counted_alone())
    --settled_[cell.standing()];
  else
    open_.erase(sequence);
}

void QueueCounts::put_in(Sequence sequence, const Cell& cell, StoreTime since, StoreTime due) {
  if (!cell.counts()) return;
  const bool recorded = cell.standing() != kNone;
  const State state = recorded ? static_cast<State>(cell.standing()) : State::waiting;
  owing_ += cell.owes() ? 1 : 0;
  if (cell.counted_alone())
    ++settled_[cell.standing()];
  else
    open_[sequence] = {state, recorded, cell.entry == 1, since, due, cell.owes()};
}

void QueueCounts::see_entry(Sequence sequence, bool whole, StoreTime not_before) {
  Cell& there = cell(sequence);
  const auto listed = open_.find(sequence);
  Open before{.since = not_before, .due = not_before};
  if (listed != open_.end() && listed->second.recorded) before = listed->second;
  if (const auto early = early_.extract(sequence)) before = early.mapped();
  take_out(sequence, there);
  whole_ -= there.entry == 1 ? 1 : 0;
  there.entry = whole ? 1 : 2;
  whole_ += there.entry == 1 ? 1 : 0;
  put_in(sequence, there, before.since, before.due);
}

void QueueCounts::see_record(Place place, Sequence sequence, const Record& record,
                             StoreTime stamp) {
  Cell& there = cell(sequence);
  std::uint8_t& state = place == Place::own ? there.own : there.key;
  const bool stands = place == Place::own || there.own == kNone;
  if (stands) take_out(sequence, there);
  records_ += state == kNone ? 1 : 0;
  state = static_cast<std::uint8_t>(record.state);
  if (place == Place::own)
    there.own_owes = record.reply_due;
  else
    there.key_owes = record.reply_due;
  if (!stands) return;
  const StoreTime due = stamp + core::look_again(record).value_or(Duration{0});
  put_in(sequence, there, stamp, due);
  if (there.counts() || there.counted_alone())
    early_.erase(sequence);
  else
    early_[sequence] = {.since = stamp, .due = due};
}

void QueueCounts::drop_records(Sequence sequence) {
  Cell& there = cell(sequence);
  take_out(sequence, there);
  records_ -= (there.key != kNone ? 1U : 0U) + (there.own != kNone ? 1U : 0U);
  there.key = there.own = kNone;
  there.key_owes = there.own_owes = false;
  put_in(sequence, there, {}, {});
}

bool QueueCounts::has_state(Sequence sequence, State state) const {
  if (sequence.value >= cells_.size()) return false;
  const Cell& there = cells_[sequence.value];
  if (!there.counts()) return false;
  if (there.standing() != kNone) return there.standing() == static_cast<std::uint8_t>(state);
  return state == State::waiting || state == State::scheduled;
}

std::optional<Sequence> QueueCounts::next(State state, Sequence after) const {
  for (std::uint64_t i = after.value + 1; i < cells_.size(); ++i)
    if (has_state({i}, state)) return Sequence{i};
  return std::nullopt;
}

}  // namespace once::store::nats
