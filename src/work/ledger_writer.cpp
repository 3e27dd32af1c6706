#include "work/ledger_writer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "work/reply.h"
#include "work/worker_counters.h"

namespace once::engine {
namespace {

template <class T>
void note_answer(WorkerCounters* counters, const std::vector<Result<T>>& answers) {
  if (counters && std::any_of(answers.begin(), answers.end(),
                              [](const auto& each) { return static_cast<bool>(each); }))
    counters->answered();
}

constexpr int kWriteRounds =
    16;  // lost races and lost answers before the caller gets a retryable error

}  // namespace

LedgerBatch::LedgerBatch(std::vector<Intent> intents)
    : intents_(std::move(intents)), results_(intents_.size()), open_(intents_.size()) {
  std::iota(open_.begin(), open_.end(), std::size_t{0});
}

void LedgerBatch::decide(const core::Policy& policy, core::Now now) {
  swaps_.clear();
  decisions_.clear();
  writing_.clear();
  for (const std::size_t i : std::exchange(open_, {})) {
    Intent& intent = intents_[i];
    core::Decision decision =
        core::decide(intent.known ? &*intent.known : nullptr, intent.command, policy, now);
    if (!decision.next) {
      results_[i] = WriteResult{.decision = std::move(decision), .stored = std::move(intent.known)};
      continue;
    }
    swaps_.push_back({.at = intent.at,
                      .expected = intent.known ? intent.known->revision : core::Revision{},
                      .record = std::move(*decision.next),
                      .handle = intent.handle});
    decision.next.reset();
    decisions_.push_back(std::move(decision));
    writing_.push_back(i);
  }
}

void LedgerBatch::answered(std::vector<Result<store::SwapResult>> answers) {
  for (std::size_t k = 0; k < writing_.size(); ++k) {
    const std::size_t i = writing_[k];
    if (!answers[k]) {
      if (answers[k].error().in_doubt) unanswered_.push_back(i);
      results_[i] = answers[k].error();
    } else if (answers[k]->written) {
      results_[i] = WriteResult{.decision = std::move(decisions_[k]),
                                .stored = std::move(answers[k]->current)};
    } else {
      intents_[i].known = std::move(answers[k]->current);
      open_.push_back(i);
    }
  }
  swaps_.clear();
  writing_.clear();
}

// If the record cannot be read, the error stays in doubt.
void LedgerBatch::read_back(store::Store& store) {
  if (unanswered_.empty()) return;
  std::vector<store::Address> addresses;
  for (const std::size_t i : unanswered_) addresses.push_back(intents_[i].at);
  auto found = store.get(addresses);
  for (std::size_t k = 0; k < unanswered_.size(); ++k) {
    if (!found[k]) continue;
    const std::size_t i = unanswered_[k];
    intents_[i].known = std::move(*found[k]);
    results_[i].reset();
    open_.push_back(i);
  }
  unanswered_.clear();
}

LedgerBatch LedgerWriter::begin(std::vector<Intent> intents) {
  LedgerBatch batch(std::move(intents));
  batch.decide(*policy(), now());
  return batch;
}

void LedgerWriter::answered(LedgerBatch& batch, std::vector<Result<store::SwapResult>> answers) {
  note_answer(counters_, answers);
  batch.answered(std::move(answers));
}

std::vector<Result<WriteResult>> LedgerWriter::finish(LedgerBatch batch) {
  const auto policy = this->policy();
  for (int round = 1; round <= kWriteRounds; ++round) {
    if (!batch.swaps().empty()) answered(batch, store_.swap(batch.swaps()));
    batch.read_back(store_);
    if (batch.open_.empty() || round == kWriteRounds) break;
    batch.decide(*policy, now());
  }

  std::vector<Result<WriteResult>> results;
  results.reserve(batch.results_.size());
  for (auto& result : batch.results_)
    results.push_back(result
                          ? std::move(*result)
                          : Result<WriteResult>(Error{
                                .code = Code::store_unavailable,
                                .message = "the record changed too often to be written; the same "
                                           "call again is safe",
                                .retryable = true}));
  pay_for(batch.intents_, results);
  return results;
}

std::vector<Result<WriteResult>> LedgerWriter::write(std::vector<Intent> intents) {
  return finish(begin(std::move(intents)));
}

// Skips a record that is about another task with the same key. Another worker has its delivery.
void LedgerWriter::pay_for(std::span<const Intent> intents,
                           std::span<Result<WriteResult>> written) {
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

// If the log has this id with other content, another writer has reported the same end. Then that
// event counts, and the reply was given.
void LedgerWriter::pay(std::span<Debt> debts) {
  std::vector<store::Append> events;
  for (const Debt& debt : debts) events.push_back(reply_event(debt.stored.record, debt.at));
  const auto appended = store_.append(events);
  note_answer(counters_, appended);
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
  note_answer(counters_, found);
  return found;
}

Result<WriteResult> LedgerWriter::write(Intent intent) {
  std::vector<Intent> one;
  one.push_back(std::move(intent));
  return std::move(write(std::move(one)).front());
}

}  // namespace once::engine
