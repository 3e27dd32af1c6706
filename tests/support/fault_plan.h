// What goes wrong in a FaultyStore, and when: by script (the nth call of a method) or by seed.
//
//   FaultPlan plan;
//   plan.on(Seam::swap, 3, Fault::answer_lost);                   // the third swap() only
//   plan.randomly(Seam::append, 0.1, Fault::fails, /*seed*/ 42);  // a tenth of all append() calls
//   plan = *FaultPlan::parse("kill_after:append:2,fails:fetch:1");  // for a child's command line
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace once::testing {

// The methods of store::Store in which a fault can be placed.
enum class Seam {
  append,
  read,
  find,
  swap,
  get,
  fetch,
  commit,
  settle,
  overlooked,
  wake,
  add_queue,
  set_queue,
  queues,
  remove_queue,
  join,
  counts,
  unrouted,
  rows,
  retention,
  set_retention,
  retire,
  inventory,
  strays,
  past,
  verify,
  get_values,
  write_values,
  remove_value,
  list_values,
};
inline constexpr std::array<std::string_view, 29> kSeamNames{
    "append",    "read",          "find",         "swap",         "get",        "fetch",
    "commit",    "settle",        "overlooked",   "wake",         "add_queue",  "set_queue",
    "queues",    "remove_queue",  "join",         "counts",       "unrouted",   "rows",
    "retention", "set_retention", "retire",       "inventory",    "strays",     "past",
    "verify",    "get_values",    "write_values", "remove_value", "list_values"};

enum class Fault {
  fails,        // nothing happens; store_unavailable, retryable
  answer_lost,  // it happens; outcome_unknown, in doubt
  half_done,  // the first half of a batch (append, swap, settle, wake, write_values) happens and the rest does
              // not; outcome_unknown for all. Elsewhere the same as answer_lost.
  kill_before,  // SIGKILL to this process instead of the call
  kill_after,   // SIGKILL to this process after the call, before its answer
};
inline constexpr std::array<std::string_view, 5> kFaultNames{"fails", "answer_lost", "half_done",
                                                             "kill_before", "kill_after"};

// A value; a FaultyStore takes a copy. The script goes before the dice.
class FaultPlan {
 public:
  // `nth` counts calls of that method from 1.
  FaultPlan& on(Seam seam, std::uint64_t nth, Fault fault) {
    script_[{seam, nth}] = fault;
    return *this;
  }

  FaultPlan& randomly(Seam seam, double probability, Fault fault, std::uint64_t seed) {
    dice_[seam].push_back({probability, fault, std::mt19937_64(seed)});
    return *this;
  }

  // FAULT:METHOD:NTH, comma-separated; none when a word is unknown.
  static std::optional<FaultPlan> parse(std::string_view text) {
    FaultPlan plan;
    while (!text.empty()) {
      const std::string_view item = text.substr(0, text.find(','));
      text.remove_prefix(std::min(text.size(), item.size() + 1));
      const std::size_t first = item.find(':');
      const std::size_t last = item.rfind(':');
      if (first == std::string_view::npos || first == last) return std::nullopt;
      const auto fault = index_of(kFaultNames, item.substr(0, first));
      const auto seam = index_of(kSeamNames, item.substr(first + 1, last - first - 1));
      const std::string nth(item.substr(last + 1));
      if (!fault || !seam || nth.empty() || nth.size() > 18 ||
          nth.find_first_not_of("0123456789") != std::string::npos)
        return std::nullopt;
      plan.on(static_cast<Seam>(*seam), std::stoull(nth), static_cast<Fault>(*fault));
    }
    return plan;
  }

  // What the nth call of the method meets. For FaultyStore.
  std::optional<Fault> next(Seam seam, std::uint64_t nth) {
    if (const auto planned = script_.find({seam, nth}); planned != script_.end())
      return planned->second;
    for (Die& die : dice_[seam])
      if (std::uniform_real_distribution<double>{}(die.random) < die.probability) return die.fault;
    return std::nullopt;
  }

 private:
  struct Die {
    double probability;
    Fault fault;
    std::mt19937_64 random;
  };

  template <std::size_t N>
  static std::optional<std::size_t> index_of(const std::array<std::string_view, N>& names,
                                             std::string_view name) {
    for (std::size_t i = 0; i < N; ++i)
      if (names[i] == name) return i;
    return std::nullopt;
  }

  std::map<std::pair<Seam, std::uint64_t>, Fault> script_;
  std::map<Seam, std::vector<Die>> dice_;
};

}  // namespace once::testing
