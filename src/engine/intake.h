// The first stage of a worker: fetches deliveries of a queue and claims them, and gives a record of
// its own to every delivery that cannot be claimed before the feed forgets it.
#pragma once

#include "encoding/key_template.h"
#include "engine/flight.h"
#include "engine/scribe.h"

namespace once::engine {

struct IntakeSettings {
  Queue queue{};
  std::string worker{};
  core::Member member{};
};

// One thread at a time.
class Intake final : private store::Claimer {
 public:
  Intake(store::Store& store, Scheduler& scheduler, Scribe& scribe, encoding::KeyTemplate key,
         IntakeSettings settings);

  // Up to `limit` claims; waits for the first one for as long as `wait`. Tasks that have an attempt
  // in doubt are claimed only while there are `handlers` to start them at once: a task that kills
  // its worker must not use up the attempts of tasks that were claimed ahead.
  Result<Flights> fetch(std::size_t limit, std::size_t handlers, Duration wait,
                        std::stop_token stop);

 private:
  std::optional<store::Address> address(const store::Entry& entry) override;
  std::optional<core::Record> claim(const store::Entry& entry, const core::Stored* stored,
                                    core::Now now) override;

  core::Claim command(const store::Entry& entry, const core::Nonce& nonce) const;
  Result<std::string> key_of(const store::Entry& entry) const;
  std::unique_ptr<Flight> flight(store::Delivery delivery, store::Address at, Moment claimed_at);
  Result<void> answer(std::vector<store::Delivery> unclaimed, Moment claimed_at, Flights& flights);
  Flights recover(Moment claimed_at);

  store::Store& store_;
  Scheduler& scheduler_;
  Scribe& scribe_;
  const encoding::KeyTemplate key_;
  const IntakeSettings settings_;

  // Of the fetch under way.
  struct Proposal {
    core::Sequence sequence;
    core::Nonce nonce;
  };
  std::vector<Proposal> proposals_;
  std::size_t handlers_ = 0;
};

}  // namespace once::engine
