// Durations as text.
#include <array>
#include <charconv>

#include "once/task.h"

namespace once::inline v1 {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t milliseconds;
};
constexpr std::array<Unit, 5> kUnits{
    {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};
// A longer duration could overflow when it is added to a time.
constexpr std::int64_t kLongest = 36'500 * kUnits[0].milliseconds;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<Duration> parse(std::string_view text) {
  if (text == "0") return Duration{0};
  if (text.empty()) return {};
  std::int64_t total = 0;
  std::size_t next_unit = 0;  // units must be in descending order, each at most once
  while (!text.empty()) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || !is_digit(text.front())) return {};
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    std::size_t length = 0;
    while (length < text.size() && !is_digit(text[length])) ++length;
    std::size_t unit = next_unit;
    while (unit < kUnits.size() && kUnits[unit].name != text.substr(0, length)) ++unit;
    if (unit == kUnits.size()) return {};
    text.remove_prefix(length);
    std::int64_t part = 0;
    if (__builtin_mul_overflow(value, kUnits[unit].milliseconds, &part) ||
        __builtin_add_overflow(total, part, &total)) {
      return {};
    }
    next_unit = unit + 1;
  }
  if (total > kLongest) return {};
  return Duration{total};
}

}  // namespace

Result<Duration> duration_from(std::string_view text) {
  if (const auto duration = parse(text)) return *duration;
  return Error{.code = Code::invalid_input,
               .message =
                   "this is no length of time; write it as 500ms, 30s, 2m, 1h30m or 7d, at "
                   "most a century"};
}

std::string duration_text(Duration duration) {
  std::int64_t rest = duration.count();
  if (rest == 0) return "0s";
  std::string out = rest < 0 ? "-" : "";
  if (rest < 0) rest = -rest;
  for (const Unit& unit : kUnits) {
    if (rest / unit.milliseconds == 0) continue;
    out += std::to_string(rest / unit.milliseconds) + std::string(unit.name);
    rest %= unit.milliseconds;
  }
  return out;
}

}  // namespace once::inline v1
