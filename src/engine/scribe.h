// Makes decisions true: decides on what is known, writes it by compare-and-swap, and decides again
// on what is really there when another was faster or the answer was lost. The rule that reads an
// unknown write back ("my nonce and the state I wrote: done; my nonce, another state: repeat;
// another nonce: fenced") is decide()'s own.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "store/store.h"

namespace once::engine {

class Meter;

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

// Instead of the store's own swap().
using Swapper = std::function<std::vector<Result<store::Swapped>>(std::span<const store::Swap>)>;

class Scribe {
 public:
  // The meter is told when the store answers; null: nobody is.
  Scribe(store::Store& store, core::Policy policy, Meter* meter = nullptr)
      : store_(store),
        meter_(meter),
        policy_(std::make_shared<const core::Policy>(std::move(policy))) {}

  // One answer per intent, in order. An error with in_doubt leaves open whether it was written.
  // `first`, if there is one, makes the first try. Any thread.
  std::vector<Result<Written>> write(std::vector<Intent> intents, const Swapper& first = {});
  Result<Written> write(Intent intent);

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
  store::Store& store_;
  Meter* const meter_;
  mutable std::mutex mutex_;
  std::shared_ptr<const core::Policy> policy_;  // under mutex_
};

}  // namespace once::engine
