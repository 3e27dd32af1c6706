// The values people type and read: durations, times, amounts. Parsing answers none for what is
// not such a value; the caller knows the option's name and words the error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "once/task.h"

namespace once::cli {

// `500ms 30s 2m 1h30m 7d`; `0` alone is zero.
std::optional<Duration> parse_duration(std::string_view text);
std::string format_duration(Duration duration);

// To the second, and from two days on to the hour, so that a column of them is quiet.
std::string age_text(Duration age);

// The machine's clock. In milliseconds: far years do not fit into its own nanoseconds.
Time now();
// RFC 3339, or a date alone, which is its midnight in UTC.
std::optional<Time> parse_time(std::string_view text);
// A time, or a duration that means so long from now.
std::optional<Time> parse_coming(std::string_view text, Time now);
// A time, or a duration that means so long ago.
std::optional<Time> parse_past(std::string_view text, Time now);
// RFC 3339 in UTC with milliseconds.
std::string format_time(Time time);

std::optional<std::uint64_t> parse_number(std::string_view text);

// `3.50`, of whatever currency; not below zero.
std::optional<double> parse_amount(std::string_view text);
std::string format_amount(double amount);

// How many columns a terminal needs, one per character.
std::size_t display_width(std::string_view text);

// For a terminal: control characters and what is not UTF-8 are shown as escapes, so that a task's
// text cannot move the cursor. One line.
std::string printable(std::string_view text);

// At most so many columns, the last an ellipsis when something is missing; zero: everything.
std::string cut(std::string_view text, std::size_t width);

}  // namespace once::cli
