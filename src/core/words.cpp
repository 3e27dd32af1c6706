#include "core/words.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

namespace once::core {
namespace {

// The number of letters to add, remove, change or swap with the next one.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string counted(std::uint64_t number, std::string_view noun) {
  return std::to_string(number) + ' ' + std::string(noun) + (number == 1 ? "" : "s");
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits{" B", " KB", " MB", " GB", " TB"};
  std::size_t unit = 0;
  std::uint64_t tenths = bytes * 10;
  for (; tenths >= 10'240 && unit + 1 < kUnits.size(); ++unit) tenths /= 1024;
  std::string text = std::to_string(tenths / 10);
  if (tenths < 100 && tenths % 10 != 0) text += '.' + std::to_string(tenths % 10);
  return text + std::string(kUnits[unit]);
}

std::string time_text(Duration time) {
  using namespace std::chrono;
  const auto in = [](Duration::rep count, std::string_view unit) {
    return std::to_string(count) + std::string(unit);
  };
  time = std::max(time, Duration{0});
  if (time < seconds{1}) return in(time.count(), " ms");
  if (time < minutes{2}) return in(floor<seconds>(time).count(), " s");
  if (time < hours{2}) return in(floor<minutes>(time).count(), " min");
  if (time < hours{48}) return in(floor<hours>(time).count(), " h");
  return in(floor<hours>(time).count() / 24, " days");
}

std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> candidates) {
  std::optional<std::string_view> best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t cost = distance(word, candidate);
    if (cost >= least || cost >= candidate.size()) continue;
    least = cost;
    best = candidate;
  }
  return best;
}

}  // namespace once::core
