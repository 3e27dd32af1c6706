#include "work/ledger_writer.h"

#include <algorithm>

#include "work/reply.h"
#include "work/worker_counters.h"

namespace once::engine {
namespace {

template <class T>
void note_answer(WorkerCounters* meter, const std::vector<Result<T>>& answers) {
  if (meter && std::any_of(answers.begin(), answers.end(),
                           [](const auto& each) { return static_cast<bool>(each); }))
    meter->answered();
}

constexpr int kRounds = 16;  // lost races and lost answers before a caller is told to come again

}  // namespace

std::vector<Result<Written>> LedgerWriter::write(std::vector<Intent> intents,
                                                 const Swapper& first) {
  std::vector<std::optional<Result<Written>>> answers(intents.size());
  std::vector<std::size_t> open(intents.size());
  for (std::size_t i = 0; i < open.size(); ++i) open[i] = i;

  const auto policy = this->policy();
  for (int round = 0; round < kRounds && !open.empty(); ++round) {
    const core::Now time = now();
    std::vector<store::Swap> swaps;
    std::vector<core::Decision> decisions;
    std::vector<std::size_t> writing;
    for (const std::size_t i : open) {
      Intent& intent = intents[i];
      core::Decision decision =
          core::decide(intent.known ? &*intent.known : nullptr, intent.command, *policy, time);
      if (!decision.next) {
        answers[i] = Written{.decision = std::move(decision), .stored = std::move(intent.known)};
        continue;
      }
      swaps.push_back({.at = intent.at,
                       .expected = intent.known ? intent.known->revision : core::Revision{},
                       .record = std::move(*decision.next),
                       .handle = intent.handle});
      decision.next.reset();
      decisions.push_back(std::move(decision));
      writing.push_back(i);
    }
    if (swaps.empty()) break;

    std::vector<Result<store::Swapped>> swapped =
        round == 0 && first ? first(swaps) : store_.swap(swaps);
    note_answer(meter_, swapped);
    std::vector<std::size_t> again;
    std::vector<std::size_t> unknown;
    for (std::size_t k = 0; k < writing.size(); ++k) {
      const std::size_t i = writing[k];
      if (!swapped[k]) {
        if (swapped[k].error().in_doubt) unknown.push_back(i);
        answers[i] = swapped[k].error();
      } else if (swapped[k]->written) {
        answers[i] =
            Written{.decision = std::move(decisions[k]), .stored = std::move(swapped[k]->current)};
      } else {
        intents[i].known = std::move(swapped[k]->current);
        again.push_back(i);
      }
    }
    if (!unknown.empty()) {
      std::vector<store::Address> addresses;
      for (const std::size_t i : unknown) addresses.push_back(intents[i].at);
      auto found = store_.get(addresses);
      for (std::size_t k = 0; k < unknown.size(); ++k) {
        if (!found[k]) continue;  // the error in doubt stands
        intents[unknown[k]].known = std::move(*found[k]);
        answers[unknown[k]].reset();
        again.push_back(unknown[k]);
      }
    }
    open = std::move(again);
  }

  std::vector<Result<Written>> result;
  result.reserve(answers.size());
  for (auto& answer : answers)
    result.push_back(answer ? std::move(*answer)
                            : Result<Written>(Error{
                                  .code = Code::store_unavailable,
                                  .message = "the record changed too often to be written; the same "
                                             "call again is safe",
                                  .retryable = true}));
  pay_for(intents, result);
  return result;
}

// The record of a key may be another task's, whose own delivery is somebody else's.
void LedgerWriter::pay_for(std::span<const Intent> intents, std::span<Result<Written>> written) {
  std::vector<Debt> debts;
  std::vector<std::size_t> of;
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (!written[i] || !written[i]->stored || !written[i]->stored->record.reply_due) continue;
    const store::Address& at = intents[i].at;
    if (at.sequence && at.sequence != written[i]->stored->record.sequence) continue;
    debts.push_back({.at = at, .stored = *written[i]->stored, .handle = intents[i].handle});
    of.push_back(i);
  }
  if (debts.empty()) return;
  pay(debts);
  for (std::size_t k = 0; k < debts.size(); ++k)
    written[of[k]]->stored = std::move(debts[k].stored);
}

// An event that the log has under this id with other content is somebody's word on the same ending,
// and counts.
void LedgerWriter::pay(std::span<Debt> debts) {
  std::vector<store::Append> events;
  for (const Debt& debt : debts) events.push_back(reply_event(debt.stored.record, debt.at));
  const auto appended = store_.append(events);
  note_answer(meter_, appended);
  std::vector<Intent> intents;
  std::vector<Debt*> of;
  for (std::size_t i = 0; i < debts.size(); ++i) {
    if (!appended[i]) continue;
    Debt& debt = debts[i];
    intents.push_back({.at = debt.at,
                       .known = debt.stored,
                       .command = core::Replied{.claims = debt.stored.record.claims,
                                                .state = debt.stored.record.state},
                       .handle = debt.handle});
    of.push_back(&debt);
  }
  if (intents.empty()) return;
  auto written = write(std::move(intents));
  for (std::size_t k = 0; k < of.size(); ++k) {
    if (!written[k]) continue;
    of[k]->answered = written[k]->decision.verdict == core::Verdict::replied;
    if (written[k]->stored) of[k]->stored = std::move(*written[k]->stored);
  }
}

std::vector<Result<std::optional<core::Stored>>> LedgerWriter::read(
    std::span<const store::Address> items) {
  auto found = store_.get(items);
  note_answer(meter_, found);
  return found;
}

Result<Written> LedgerWriter::write(Intent intent) {
  std::vector<Intent> one;
  one.push_back(std::move(intent));
  return std::move(write(std::move(one)).front());
}

}  // namespace once::engine
