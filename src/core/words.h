// Names, counts, sizes and durations as text for people, and suggestions for a mistyped word.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "once/task.h"

namespace once::core {

std::string quoted(std::string_view text);                         // "'text'"
std::string counted(std::uint64_t number, std::string_view noun);  // "1 task", "3 tasks"
std::string size_text(std::uint64_t bytes);                        // "12 KB", "3.4 GB"
std::string time_text(Duration time);  // "80 ms", "12 s", "5 min", "7 h", "3 days"

// The candidate that is most similar to the word. Returns nullopt if no candidate is similar.
std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> candidates);

}  // namespace once::core
