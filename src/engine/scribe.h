// Makes decisions true: decides on what is known, writes it by compare-and-swap, and decides again
// on what is really there when another was faster or the answer was lost. The rule that reads an
// unknown write back ("my nonce and the state I wrote: done; my nonce, another state: repeat;
// another nonce: fenced") is decide()'s own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/store.h"

namespace once::engine {

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

class Scribe {
 public:
  Scribe(store::Store& store, core::Policy policy) : store_(store), policy_(std::move(policy)) {}

  // One answer per intent, in order. An error with in_doubt leaves open whether it was written.
  // Any thread.
  std::vector<Result<Written>> write(std::vector<Intent> intents);
  Result<Written> write(Intent intent);

  const core::Policy& policy() const { return policy_; }
  core::Now now() { return {.store = store_.now(), .wall = store_.wall()}; }

 private:
  store::Store& store_;
  const core::Policy policy_;
};

}  // namespace once::engine
