// What a process counts of itself, for whoever watches it: the values behind `work --metrics-port`.
// Counts begin at zero with the process and only grow; what a zone remembers is in `audit.h`.
#pragma once

#include <cstdint>
#include <string>

#include "once/audit.h"

namespace once::inline v1 {

struct WorkerMetrics {
  std::string queue{};
  std::string worker{};    // its name
  std::uint64_t claims{};  // tasks taken, every attempt one
  std::uint64_t
      reclaims{};  // of these: after an attempt that was lost with its worker or its lease
  std::uint64_t completed{};   // recorded as completed
  std::uint64_t retries{};     // attempts that did not complete and are to be followed by another
  std::uint64_t in_doubt{};    // recorded as in doubt: held for a person
  std::uint64_t dead{};        // recorded as dead letters
  std::uint64_t cancelled{};   // recorded as cancelled
  std::uint64_t given_back{};  // never begun, or interrupted: not counted as an attempt
  std::uint64_t fenced{};      // attempts that another took over or settled: not recorded
  // Deliveries that the ledger stopped, by what it knew of the task.
  std::uint64_t stopped_settled{};   // it is done with
  std::uint64_t stopped_held{};      // another worker is at it
  std::uint64_t stopped_same_key{};  // its key belongs to another task
  std::uint64_t running{};           // handlers at this moment; the one that also falls
  Histogram to_start{};              // from publish (or not-before) to the first start
  Histogram to_record{};             // from publish (or not-before) to the recorded completion
  Duration store_silence{};          // since the store answered last
};

struct PublisherMetrics {
  std::uint64_t accepted{};
  std::uint64_t duplicates{};  // answered with the entry that was there
  std::uint64_t conflicts{};   // refused: the id is there with other content
};

}  // namespace once::inline v1
