// A set of sequences as ranges, because most sequences in such a set are neighbours.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace once::core {

class Sequences {
 public:
  // First and last sequence of each range, both included. Ranges do not touch.
  using Ranges = std::map<std::uint64_t, std::uint64_t>;

  const Ranges& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (const auto& [first, last] : ranges_) sum += last - first + 1;
    return sum;
  }

  bool contains(std::uint64_t sequence) const {
    const auto after = ranges_.upper_bound(sequence);
    return after != ranges_.begin() && std::prev(after)->second >= sequence;
  }

  void add(std::uint64_t sequence) { add(sequence, sequence); }
  void add(std::uint64_t first, std::uint64_t last) {
    auto next = ranges_.upper_bound(first);
    if (next != ranges_.begin() && std::prev(next)->second + 1 >= first) {
      --next;
      first = next->first;
    }
    while (next != ranges_.end() && next->first <= last + 1) {
      last = std::max(last, next->second);
      next = ranges_.erase(next);
    }
    ranges_.emplace_hint(next, first, last);
  }
  void add(const Sequences& others) {
    for (const auto& [first, last] : others.ranges_) add(first, last);
  }

  // The sequences of (after, to] that are not in the set.
  Sequences missing(std::uint64_t after, std::uint64_t to) const {
    Sequences gaps;
    std::uint64_t next = after + 1;
    auto range = ranges_.upper_bound(next);
    if (range != ranges_.begin() && std::prev(range)->second >= next)
      next = std::prev(range)->second + 1;
    for (; range != ranges_.end() && range->first <= to; ++range) {
      if (range->first > next) gaps.add(next, range->first - 1);
      next = range->second + 1;
    }
    if (next <= to) gaps.add(next, to);
    return gaps;
  }

  friend bool operator==(const Sequences&, const Sequences&) = default;

 private:
  Ranges ranges_;
};

}  // namespace once::core
