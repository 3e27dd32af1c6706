// The values behind `once work --metrics-port`, which a process counts about its own work.
// Counts start at zero with the process and only grow. For counts of the whole zone see audit.h.
#pragma once

#include <cstdint>
#include <string>

#include "once/audit.h"

namespace once::inline v1 {

struct WorkerMetrics {
  std::string queue{};
  std::string worker{};        // the worker's name
  std::uint64_t claims{};      // tasks claimed; every attempt counts
  std::uint64_t reclaims{};    // claims after a lost worker or an expired lease
  std::uint64_t completed{};   // tasks recorded as completed
  std::uint64_t retries{};     // attempts that did not complete and will be retried
  std::uint64_t in_doubt{};    // tasks recorded as in doubt and held for a person
  std::uint64_t dead{};        // tasks recorded as dead letters
  std::uint64_t cancelled{};   // tasks recorded as cancelled
  std::uint64_t given_back{};  // claims not started or interrupted; they do not count as attempts
  std::uint64_t fenced{};      // attempts not recorded; another worker claimed or settled the task
  // Deliveries that the ledger stopped, by reason.
  std::uint64_t stopped_settled{};   // the task was already settled
  std::uint64_t stopped_held{};      // another worker holds the task
  std::uint64_t stopped_same_key{};  // another task has the same key
  std::uint64_t running{};           // handlers that run now; unlike the counts, it can fall
  Histogram to_start{};              // from publish (or not-before) to the first start
  Histogram to_record{};             // from publish (or not-before) to the recorded completion
  Duration store_silence{};          // time since the store last replied
};

struct PublisherMetrics {
  std::uint64_t accepted{};
  std::uint64_t duplicates{};  // the log already had the task
  std::uint64_t conflicts{};   // refused; the log has the id with other content
  std::uint64_t in_flight{};   // asynchronous publishes without a result; it can fall
};

}  // namespace once::inline v1
