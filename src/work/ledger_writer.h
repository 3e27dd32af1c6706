// Makes decisions true: decides on what is known, writes it by compare-and-swap, and decides again
// on what is really there when another was faster or the answer was lost. The rule that reads an
// unknown write back ("my nonce and the state I wrote: done; my nonce, another state: repeat;
// another nonce: fenced") is decide()'s own.
//
// A record that owes a reply is a debt, and whoever meets one here pays it: the event goes into the
// log, and then the record says so. Killed between, the next one does the same again, and the log
// has the event once.
#pragma once

#include <functional>
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
  std::optional<core::Stored> known{};  // what the ledger is believed to hold; none: nothing
  core::Command command{};
  std::string handle{};  // of the delivery that the write answers; see store::Swap
};

struct Written {
  core::Decision decision{};
  std::optional<core::Stored> stored{};  // what the ledger holds now, as far as is known
};

// A record that owes a reply.
struct Debt {
  store::Address at{};
  core::Stored stored{};
  std::string handle{};   // of a delivery of its task; empty: none
  bool answered = false;  // the delivery is, by the write that says that the reply was given
};

// Instead of the store's own swap().
using Swapper = std::function<std::vector<Result<store::Swapped>>(std::span<const store::Swap>)>;

class LedgerWriter {
 public:
  // The meter is told when the store answers; null: nobody is.
  LedgerWriter(store::Store& store, core::Policy policy, WorkerCounters* meter = nullptr)
      : store_(store),
        meter_(meter),
        policy_(std::make_shared<const core::Policy>(std::move(policy))) {}

  // One answer per intent, in order. An error with in_doubt leaves open whether it was written.
  // `first`, if there is one, makes the first try. Whether a reply that is owed then could be given is
  // no part of the answer. Any thread.
  std::vector<Result<Written>> write(std::vector<Intent> intents, const Swapper& first = {});
  Result<Written> write(Intent intent);

  // Leaves in each what the ledger holds then. What cannot be paid now owes on, and is paid when its
  // task comes again.
  void pay(std::span<Debt> debts);

  // What the ledger holds at these addresses.
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
  void pay_for(std::span<const Intent> intents, std::span<Result<Written>> written);

  store::Store& store_;
  WorkerCounters* const meter_;
  mutable std::mutex mutex_;
  std::shared_ptr<const core::Policy> policy_;  // under mutex_
};

}  // namespace once::engine
