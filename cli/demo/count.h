// The end of the demo: what happened, counted from outside (the effects file, the receipts) and from
// the zone. Nothing here is taken from what the demo meant to do.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/demo/plain.h"
#include "cli/demo/setting.h"
#include "once/zone.h"

namespace once::cli::demo {

// Of the plain queue that ran beside, until Once was done.
struct PlainCounted {
  std::uint64_t published{};     // messages
  std::uint64_t acknowledged{};  // of those
  std::uint64_t effects{};       // lines of its file
  std::uint64_t effects_again{};
  std::uint64_t duplicates_run{};  // acknowledged messages beyond one per task
  std::uint64_t left{};            // messages that were still to be run
  std::uint64_t killed{};          // agents, by the signals that were sent
};

struct Counted {
  std::uint64_t published{};  // entries of the log, by the zone's audit as the next three
  std::uint64_t completed{};
  std::uint64_t at_append{};  // duplicates that got the original's receipt
  std::uint64_t by_ledger{};  // duplicates under another id that were not run
  std::uint64_t conflicts{};  // refused
  std::uint64_t agents_killed{};
  std::uint64_t publishers_killed{};
  std::map<std::string, std::uint64_t> reruns{};  // by why
  std::uint64_t unexplained{};                    // re-runs and effects that nothing explains
  std::uint64_t effects{};                        // lines of the file
  std::uint64_t effects_again{};    // of those: the same step of the same task once more
  std::uint64_t effects_missing{};  // steps of completed tasks without a line
  std::uint64_t completed_twice{};
  std::uint64_t lost{};        // a receipt was given, and there is no such task
  std::uint64_t unfinished{};  // not settled, dead or in doubt
  std::uint64_t open{};        // of those: not settled
  bool in_time = true;         // false: what was open was given up, which breaks no promise
  PlainCounted plain{};

  std::uint64_t all_reruns() const;
  bool as_promised() const;
};

// Of tasks that somebody will run, or run on.
inline constexpr std::array kOpen{State::waiting, State::running, State::retrying};

struct Kills {
  const std::set<std::string>& workers;
  std::uint64_t publishers{};
};

Result<Counted> count(const Setting& setting, const Zone& zone, const Kills& kills,
                      std::uint64_t conflicts);
PlainCounted count_plain(const Setting& setting, const PlainQueue& queue);

}  // namespace once::cli::demo
