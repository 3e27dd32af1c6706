// Durations, times and amounts as people write them.
#include "shapes/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tooling/text.h"

namespace once::cli {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes exactly `digits` digits off the front.
std::optional<int> take_digits(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return {};
  int value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (!is_digit(text[i])) return {};
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

bool is_control(std::string_view character) {
  auto byte = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return byte < 0x20 || byte == 0x7f;
  return byte == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  const auto duration = duration_from(text);
  return duration ? std::optional(*duration) : std::nullopt;
}

std::string format_duration(Duration duration) { return duration_text(duration); }

std::string age_text(Duration age) {
  using namespace std::chrono;
  if (age < seconds{1}) return "<1s";
  if (age < hours{48}) return format_duration(floor<seconds>(age));
  return format_duration(floor<hours>(age));
}

Time now() { return std::chrono::floor<Duration>(std::chrono::system_clock::now()); }

std::optional<Time> parse_time(std::string_view text) {
  using namespace std::chrono;
  auto years = take_digits(text, 4);
  if (!years || !take(text, '-')) return {};
  auto months = take_digits(text, 2);
  if (!months || !take(text, '-')) return {};
  auto days = take_digits(text, 2);
  if (!days) return {};
  const year_month_day date{year{*years}, month{static_cast<unsigned>(*months)},
                            day{static_cast<unsigned>(*days)}};
  if (!date.ok()) return {};
  const Time midnight{sys_days{date}};
  if (text.empty()) return midnight;

  if (!take(text, 'T') && !take(text, 't') && !take(text, ' ')) return {};
  auto hour = take_digits(text, 2);
  if (!hour || *hour > 23 || !take(text, ':')) return {};
  auto minute = take_digits(text, 2);
  if (!minute || *minute > 59 || !take(text, ':')) return {};
  auto second = take_digits(text, 2);
  if (!second || *second > 60) return {};
  int thousandths = 0;
  if (take(text, '.')) {
    int weight = 100;
    if (text.empty() || !is_digit(text.front())) return {};
    while (!text.empty() && is_digit(text.front())) {
      thousandths += weight * (text.front() - '0');
      weight /= 10;
      text.remove_prefix(1);
    }
  }
  Duration offset{0};
  if (!take(text, 'Z') && !take(text, 'z')) {
    const bool east = take(text, '+');
    if (!east && !take(text, '-')) return {};
    auto offset_hours = take_digits(text, 2);
    if (!offset_hours || *offset_hours > 23 || !take(text, ':')) return {};
    auto offset_minutes = take_digits(text, 2);
    if (!offset_minutes || *offset_minutes > 59) return {};
    offset = hours{*offset_hours} + minutes{*offset_minutes};
    if (!east) offset = -offset;
  }
  if (!text.empty()) return {};
  return midnight + hours{*hour} + minutes{*minute} + seconds{*second} + Duration{thousandths} -
         offset;
}

std::optional<Time> parse_coming(std::string_view text, Time now) {
  if (auto duration = parse_duration(text)) return now + *duration;
  return parse_time(text);
}

std::optional<Time> parse_past(std::string_view text, Time now) {
  if (auto duration = parse_duration(text)) return now - *duration;
  return parse_time(text);
}

std::string format_time(Time time) {
  using namespace std::chrono;
  const auto days_part = floor<days>(time);
  const year_month_day date{days_part};
  const hh_mm_ss clock{time - days_part};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

std::optional<double> parse_amount(std::string_view text) {
  double amount = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), amount);
  const bool whole = failed == std::errc{} && end == text.data() + text.size();
  if (!whole || !std::isfinite(amount) || amount < 0) return {};
  return amount;
}

std::string format_amount(double amount) { return fmt::format("{:.2f}", amount); }

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    text.remove_prefix(std::max<std::size_t>(utf8_length(text), 1));
    ++width;
  }
  return width;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    if (character == "\n") {
      out += "\\n";
    } else if (character == "\t") {
      out += "\\t";
    } else if (length == 0 || is_control(character)) {
      for (char c : character) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

std::string cut(std::string_view text, std::size_t width) {
  if (width == 0 || display_width(text) <= width) return std::string(text);
  std::string out;
  for (std::size_t shown = 1; shown < width; ++shown) {
    const std::size_t length = std::max<std::size_t>(utf8_length(text), 1);
    out += text.substr(0, length);
    text.remove_prefix(length);
  }
  return out + "…";
}

}  // namespace once::cli
