// The values behind `once audit`, which compares log, ledger and deliveries per period and queue.
// The audit counts every task in exactly one state and gives every rerun a reason.
// It lists every discrepancy that it cannot explain.
// Retention saves totals before it deletes tasks, so the audit still counts the deleted tasks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "once/view.h"

namespace once::inline v1 {

// Counts latencies in buckets. Each bound is the inclusive upper bound of its bucket.
struct Histogram {
  static constexpr std::array<Duration, 15> kBounds{
      Duration{1},       Duration{5},         Duration{10},       Duration{50},
      Duration{100},     Duration{500},       Duration{1'000},    Duration{5'000},
      Duration{10'000},  Duration{30'000},    Duration{60'000},   Duration{300'000},
      Duration{600'000}, Duration{1'800'000}, Duration{3'600'000}};
  std::array<std::uint64_t, kBounds.size() + 1> counts{};  // the last bucket is above all bounds
  Duration sum{};

  void add(Duration took);
  void add(const Histogram& other);
  std::uint64_t count() const;
  friend bool operator==(const Histogram&, const Histogram&) = default;
};

// Why a worker ran a task again.
enum class Rerun {
  failed,       // the handler reported a failure
  lost,         // the worker died, or its lease expired
  timed_out,    // the attempt exceeded the queue's timeout
  unknown,      // the handler could not tell whether the effect happened
  interrupted,  // the worker was stopped
  asked,        // a person retried the task
  older,        // the record no longer contains the previous attempt
  unexplained,  // the record contains no reason
};
std::string_view to_string(Rerun why);

struct Totals {
  static constexpr std::size_t kStates = 9;
  static constexpr std::size_t kReruns = 8;
  std::uint64_t published{};                    // tasks of the queue
  std::array<std::uint64_t, kStates> states{};  // by State; the sum is `published`
  std::uint64_t duplicates_at_append{};         // publishes whose id was already in the log
  std::uint64_t duplicates_by_ledger{};  // tasks whose key another task had, with any content
  std::uint64_t attempts{};              // attempts that started
  std::array<std::uint64_t, kReruns> reruns{};  // by Rerun
  std::uint64_t completed_twice{};
  Histogram to_start{};   // from publish (or not-before) to the first start
  Histogram to_record{};  // from publish (or not-before) to the recorded completion

  std::uint64_t in(State state) const { return states[static_cast<std::size_t>(state)]; }
  std::uint64_t rerun(Rerun why) const { return reruns[static_cast<std::size_t>(why)]; }
  std::uint64_t all_reruns() const;
  std::uint64_t duplicates() const { return duplicates_at_append + duplicates_by_ledger; }
  void add(const Totals& other);
  friend bool operator==(const Totals&, const Totals&) = default;
};

struct AuditLine {
  Time period{};        // start of the period, UTC; a task counts in the period of its publish
  std::string queue{};  // empty for tasks that no queue matches
  Totals totals{};
  bool own = false;  // true for an internal queue; its duplicates saved no user any work
};

// A contradiction that the audit cannot explain.
struct Discrepancy {
  enum class Kind {
    missing,       // the log lost a task that retention did not delete
    overlooked,    // the delivery is acknowledged, but the ledger has no outcome
    stray,         // the ledger has a record, but the log has no task
    inconsistent,  // the record contradicts itself
    damaged        // a counter, index, column or digest contradicts its data
  };
  Kind kind{};
  std::string queue{};
  std::uint64_t sequence{};  // zero if the discrepancy has no sequence
  std::string task{};        // its id or key; empty if unknown
  std::string what{};        // a description for people
  std::string harm{};        // what the damage can cause; only for Kind::damaged
};
std::string_view to_string(Discrepancy::Kind kind);

struct Audit {
  std::vector<AuditLine> lines{};  // by period, then queue; an empty period has no line
  std::vector<Discrepancy> discrepancies{};
  std::uint64_t unlisted{};  // how many more discrepancies were found
};

struct AuditOptions {
  enum class Period { hour, day, month, all };
  Period by = Period::day;
  std::string queue{};                              // empty means every queue and unrouted tasks
  std::optional<Time> since{};                      // starts with the period that contains it
  std::size_t discrepancies = 1000;                 // lists at most this many
  bool deep = false;                                // verify every digest and every index
  std::function<void(double fraction)> progress{};  // called from time to time
};

}  // namespace once::inline v1
