// Gives the command the text helpers of the library.
#include "tooling/text.h"

#include "core/utf8.h"
#include "core/words.h"
#include "json/base64.h"
#include "json/json_string.h"
#include "store/uuid.h"

namespace once::inline v1 {

std::string counted(std::uint64_t number, std::string_view noun) {
  return core::counted(number, noun);
}

std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> candidates) {
  return core::nearest(word, candidates);
}

std::string base64(std::string_view bytes) { return encoding::base64(bytes); }

std::optional<std::string> from_base64(std::string_view text) {
  return encoding::from_base64(text);
}

std::size_t utf8_length(std::string_view text) { return core::utf8_sequence(text, 0); }

bool is_utf8(std::string_view text) { return core::valid_utf8(text); }

std::string json_string(std::string_view text) {
  return encoding::json_string(core::readable(text));
}

std::string uuid_from(std::array<std::uint8_t, 16> bytes) { return store::uuid_from(bytes); }

}  // namespace once::inline v1
