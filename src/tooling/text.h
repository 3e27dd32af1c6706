// The library's text helpers that the command also needs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace once::inline v1 {

std::string counted(std::uint64_t number, std::string_view noun);  // "1 task", "3 tasks"

// The candidate that is most similar to the word. Returns nullopt if no candidate is similar.
std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> candidates);

// Base64 of RFC 4648 with padding. from_base64() returns nullopt for any text that base64() does
// not write.
std::string base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);

// The length of the UTF-8 character at the front of the text. Zero if there is none, or if it is not
// well-formed.
std::size_t utf8_length(std::string_view text);
bool is_utf8(std::string_view text);

// A JSON string, quoted and escaped as RFC 8785 does. U+FFFD replaces each byte that is not UTF-8.
std::string json_string(std::string_view text);

// A version 4 UUID from random bytes.
std::string uuid_from(std::array<std::uint8_t, 16> bytes);

}  // namespace once::inline v1
