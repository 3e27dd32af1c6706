#include "store/nats/tally.h"

namespace once::store::nats {
namespace {

// Those are counted alone; the others are also listed, with their times.
bool counted_alone(State state) { return core::settled(state) && state != State::in_doubt; }

}  // namespace

Tally::Cell& Tally::cell(Sequence sequence) {
  if (cells_.size() <= sequence.value) cells_.resize(sequence.value + 1 + sequence.value / 8);
  return cells_[sequence.value];
}

void Tally::take_out(Sequence sequence, const Cell& cell) {
  if (!cell.counts()) return;
  owing_ -= cell.owes() ? 1 : 0;
  if (cell.standing() != kNone && !cell.owes() &&
      counted_alone(static_cast<State>(cell.standing())))
    --settled_[cell.standing()];
  else
    open_.erase(sequence);
}

void Tally::put_in(Sequence sequence, const Cell& cell, StoreTime since, StoreTime due) {
  if (!cell.counts()) return;
  const bool recorded = cell.standing() != kNone;
  const State state = recorded ? static_cast<State>(cell.standing()) : State::waiting;
  owing_ += cell.owes() ? 1 : 0;
  if (recorded && !cell.owes() && counted_alone(state))
    ++settled_[cell.standing()];
  else
    open_[sequence] = {state, recorded, cell.entry == 1, since, due, cell.owes()};
}

void Tally::see_entry(Sequence sequence, bool whole, StoreTime not_before) {
  Cell& there = cell(sequence);
  const auto listed = open_.find(sequence);
  const Open before = listed != open_.end() && listed->second.recorded
                          ? listed->second
                          : Open{.since = not_before, .due = not_before};
  take_out(sequence, there);
  whole_ -= there.entry == 1 ? 1 : 0;
  there.entry = whole ? 1 : 2;
  whole_ += there.entry == 1 ? 1 : 0;
  put_in(sequence, there, before.since, before.due);
}

void Tally::see_record(Place place, Sequence sequence, const Record& record, StoreTime stamp) {
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
  if (stands)
    put_in(sequence, there, stamp, stamp + core::look_again(record).value_or(Duration{0}));
}

void Tally::drop_records(Sequence sequence) {
  Cell& there = cell(sequence);
  take_out(sequence, there);
  records_ -= (there.key != kNone ? 1U : 0U) + (there.own != kNone ? 1U : 0U);
  there.key = there.own = kNone;
  there.key_owes = there.own_owes = false;
  put_in(sequence, there, {}, {});
}

bool Tally::has_state(Sequence sequence, State state) const {
  if (sequence.value >= cells_.size()) return false;
  const Cell& there = cells_[sequence.value];
  if (!there.counts()) return false;
  if (there.standing() != kNone) return there.standing() == static_cast<std::uint8_t>(state);
  return state == State::waiting || state == State::scheduled;
}

std::optional<Sequence> Tally::next(State state, Sequence after) const {
  for (std::uint64_t i = after.value + 1; i < cells_.size(); ++i)
    if (has_state({i}, state)) return Sequence{i};
  return std::nullopt;
}

}  // namespace once::store::nats
