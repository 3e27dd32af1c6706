// Writes the decisions of decide() to the ledger. It decides on the record that the caller knows
// and writes the result by compare-and-swap. If another writer was faster, or if the answer was
// lost, it reads the record and decides again. The rule for an unknown write is part of decide():
// my nonce and the state that I wrote: done; my nonce, another state: repeat; another nonce:
// fenced.
//
// A record that owes a reply is called a debt here. Every writer that meets one pays it: pay()
// appends the event to the log, and then writes that the reply was given. If the process dies
// between the two, the next writer does both again, and the log has the event once.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "store/store.h"

namespace once::engine {

class WorkerCounters;

struct Intent {
  store::Address at{};
  std::optional<core::Stored> known{};  // the record as the caller knows it; nullopt: no record
  core::Command command{};
  std::string handle{};  // of the delivery that the write answers; see store::Swap
};

struct WriteResult {
  core::Decision decision{};
  std::optional<core::Stored> stored{};  // the record after the write, as far as it is known
};

// A record that owes a reply.
struct Debt {
  store::Address at{};
  core::Stored stored{};
  std::string handle{};   // of a delivery of its task; empty if there is none
  bool answered = false;  // the write that says "the reply was given" answered the delivery
};

// Intents that are being written to the ledger. A round decides all open intents, writes them, and
// gets the store's answers. Intents that were refused, or whose answer was lost, are open in the
// next round.
class LedgerBatch {
 public:
  // The records of the current round. Empty if no intent is left to write.
  std::span<const store::Swap> swaps() const { return swaps_; }

 private:
  friend class LedgerWriter;
  explicit LedgerBatch(std::vector<Intent> intents);
  void decide(const core::Policy& policy, core::Now now);
  void answered(std::vector<Result<store::SwapResult>> answers);
  void read_back(store::Store& store);

  std::vector<Intent> intents_;
  std::vector<std::optional<Result<WriteResult>>> results_;
  std::vector<std::size_t> open_;  // intents that the next round decides
  // Of the current round: the intents that it writes, their decisions, and those without an answer.
  std::vector<std::size_t> writing_;
  std::vector<core::Decision> decisions_;
  std::vector<store::Swap> swaps_;
  std::vector<std::size_t> unanswered_;
};

class LedgerWriter {
 public:
  // If `counters` is not null, it notes when the store answers.
  LedgerWriter(store::Store& store, core::Policy policy, WorkerCounters* counters = nullptr)
      : store_(store),
        counters_(counters),
        policy_(std::make_shared<const core::Policy>(std::move(policy))) {}

  // Returns one answer per intent, in order. An error with in_doubt means that the record may have
  // been written. The answer does not say whether an owed reply was given. Any thread may call.
  std::vector<Result<WriteResult>> write(std::vector<Intent> intents);
  Result<WriteResult> write(Intent intent);

  // write() in parts, for a caller that makes the first store call itself. The caller passes the
  // store's answers to batch.swaps() to answered(). Without that call, finish() writes them.
  LedgerBatch begin(std::vector<Intent> intents);
  void answered(LedgerBatch& batch, std::vector<Result<store::SwapResult>> answers);
  std::vector<Result<WriteResult>> finish(LedgerBatch batch);

  // Gives the owed replies, and leaves the current record in each debt. A record whose reply cannot
  // be given now still owes it. The worker that gets the task's next delivery tries again.
  void pay(std::span<Debt> debts);

  // The records at these addresses.
  std::vector<Result<std::optional<core::Stored>>> read(std::span<const store::Address> items);

  // Shared, because a queue's policy may be changed while it is in use.
  std::shared_ptr<const core::Policy> policy() const {
    const std::lock_guard lock(mutex_);
    return policy_;
  }
  void set_policy(core::Policy policy) {
    auto changed = std::make_shared<const core::Policy>(std::move(policy));
    const std::lock_guard lock(mutex_);
    policy_ = std::move(changed);
  }
  core::Now now() { return {.store = store_.now(), .wall = store_.wall()}; }

 private:
  void pay_for(std::span<const Intent> intents, std::span<Result<WriteResult>> written);

  store::Store& store_;
  WorkerCounters* const counters_;
  mutable std::mutex mutex_;
  std::shared_ptr<const core::Policy> policy_;  // under mutex_
};

}  // namespace once::engine
