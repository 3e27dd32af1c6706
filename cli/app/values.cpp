// Durations, times, counts and bytes as people write them.
#include "cli/app/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace once::cli {
namespace {

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

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

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    const std::size_t digits = std::min<std::size_t>(bytes.size() - i, 3) + 1;
    for (std::size_t j = 0; j < 4; ++j) {
      out += j < digits ? kBase64[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return {};
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const std::size_t digits = last ? 4 - padding : 4;
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      std::size_t value = 0;
      if (j < digits) {
        value = kBase64.find(text[i + j]);
        if (value == std::string_view::npos) return {};
      }
      group = group << 6 | static_cast<std::uint32_t>(value);
    }
    // Bits below the last byte are zero, or two texts would mean the same bytes.
    if (last && padding > 0 && (group & (padding == 1 ? 0xffU : 0xffffU)) != 0) return {};
    for (std::size_t j = 0; j + 1 < digits; ++j) {
      out += static_cast<char>(group >> (16 - 8 * j) & 0xff);
    }
  }
  return out;
}

std::size_t utf8_length(std::string_view text) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xbf;  // range of the second byte
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    if (first == 0xe0) low = 0xa0;   // overlong
    if (first == 0xed) high = 0x9f;  // surrogates
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    if (first == 0xf0) low = 0x90;   // overlong
    if (first == 0xf4) high = 0x8f;  // beyond U+10FFFF
  } else {
    return 0;
  }
  if (text.size() < length || byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

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
