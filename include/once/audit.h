// The reconciliation behind `once audit`: log, ledger and deliveries, per period and queue. Every task
// is counted in exactly one state, every re-run has a reason, and what cannot be explained is listed.
// What retention took is still counted, from totals that were kept when it went.
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

// Durations by upper bound, for latencies.
struct Histogram {
  static constexpr std::array<Duration, 15> kBounds{
      Duration{1},       Duration{5},         Duration{10},       Duration{50},
      Duration{100},     Duration{500},       Duration{1'000},    Duration{5'000},
      Duration{10'000},  Duration{30'000},    Duration{60'000},   Duration{300'000},
      Duration{600'000}, Duration{1'800'000}, Duration{3'600'000}};
  std::array<std::uint64_t, kBounds.size() + 1> counts{};  // the last: longer than all bounds
  Duration sum{};

  void add(Duration took);
  void add(const Histogram& other);
  std::uint64_t count() const;
  friend bool operator==(const Histogram&, const Histogram&) = default;
};

// Why a task was run again.
enum class Rerun {
  failed,       // the handler said that it did not finish
  lost,         // its worker died, or let its lease go by
  timed_out,    // the queue's timeout ended it
  unknown,      // nobody could say whether it happened
  interrupted,  // its worker was stopped
  asked,        // a person wanted it
  older,        // the record no longer holds the attempt before it
  unexplained,  // nothing in the record says why
};
std::string_view to_string(Rerun why);

struct Totals {
  static constexpr std::size_t kStates = 9;
  static constexpr std::size_t kReruns = 8;
  std::uint64_t published{};                    // tasks of the queue
  std::array<std::uint64_t, kStates> states{};  // by State; they sum to `published`
  std::uint64_t duplicates_at_append{};         // publishes answered with a task that was there
  std::uint64_t duplicates_by_ledger{};  // tasks whose key was there, with this content or another
  std::uint64_t attempts{};              // that began to run
  std::array<std::uint64_t, kReruns> reruns{};  // by Rerun
  std::uint64_t completed_twice{};
  Histogram to_start{};   // from publish (or not-before) to the first start
  Histogram to_record{};  // the same, to the recorded completion

  std::uint64_t in(State state) const { return states[static_cast<std::size_t>(state)]; }
  std::uint64_t rerun(Rerun why) const { return reruns[static_cast<std::size_t>(why)]; }
  std::uint64_t all_reruns() const;
  std::uint64_t duplicates() const { return duplicates_at_append + duplicates_by_ledger; }
  void add(const Totals& other);
  friend bool operator==(const Totals&, const Totals&) = default;
};

struct AuditLine {
  Time period{};        // its beginning, UTC; tasks belong to the period they were published in
  std::string queue{};  // empty: tasks that no queue matches
  Totals totals{};
  bool own = false;  // a queue of Once's own: what it spared is no work of anybody's
};

// What nothing explains.
struct Discrepancy {
  enum class Kind {
    missing,       // a sequence was given out, and its task is gone though nobody forgot it
    overlooked,    // done with in the feed, and not in the ledger
    stray,         // in the ledger, and not in the log
    inconsistent,  // a record that contradicts itself
    damaged        // a counter, an index, a column or a digest that contradicts what it is about
  };
  Kind kind{};
  std::string queue{};
  std::uint64_t sequence{};  // zero: none
  std::string task{};        // its id or key, where it is known
  std::string what{};        // for a person
  std::string harm{};        // damaged: what can come of it
};
std::string_view to_string(Discrepancy::Kind kind);

struct Audit {
  std::vector<AuditLine> lines{};  // by period, then queue; none for a period without tasks
  std::vector<Discrepancy> discrepancies{};
  std::uint64_t unlisted{};  // discrepancies beyond those
};

struct AuditOptions {
  enum class Period { hour, day, month, all };
  Period by = Period::day;
  std::string queue{};                              // empty: every queue, and what is unrouted
  std::optional<Time> since{};                      // periods from the one of this moment on
  std::size_t discrepancies = 1000;                 // listed at most
  bool deep = false;                                // verify every digest and every index
  std::function<void(double fraction)> progress{};  // now and then
};

}  // namespace once::inline v1
