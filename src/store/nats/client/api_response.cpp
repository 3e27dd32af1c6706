#include "store/nats/client/api_response.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace once::store::nats {
namespace {

using encoding::Json;

constexpr int kWrongLastSequence = 10071;
constexpr int kInFlight = 10164;
// What the server says of a write that it may still make.
constexpr std::array kUndecided{10158, kInFlight};
// What a cluster says that is choosing leaders or has too few nodes up.
constexpr std::array kNotNow{10004, 10005, 10007, 10008, 10009, 10118, 10119};
// Limits of the account, the server or the stream: of memory, files, messages or bytes.
constexpr std::array kFull{10002, 10023, 10028, 10047, 10077};
constexpr std::array kLargerThanAllowed{10054};

template <std::size_t count>
bool one_of(const std::array<int, count>& codes, int error) {
  return std::find(codes.begin(), codes.end(), error) != codes.end();
}

// What was not stored, by the server's own word.
Error not_stored(const ApiResponse& response) {
  const std::string words = response.text + " (" + std::to_string(response.error) + ")";
  if (one_of(kFull, response.error))
    return {.code = Code::store_unusable,
            .message = "the NATS server has no room: " + words +
                       "; nothing was stored. Raise the limit (max_file_store, the account's, or "
                       "max_bytes of the stream) or let retention make room, then the same call "
                       "goes on",
            .retryable = true};
  if (one_of(kLargerThanAllowed, response.error))
    return {.code = Code::too_large,
            .message = "the NATS server takes no message of that size: " + words +
                       "; nothing was stored. Raise max_msg_size of the stream, or send less"};
  return {.code = Code::store_unavailable,
          .message = "nothing was stored: " + words,
          .retryable = true};
}

}  // namespace

Error refused(const std::string& what, const ApiResponse& response) {
  const std::string words = what + " was refused by the NATS server: " + response.text + " (" +
                            std::to_string(response.error) + ")";
  if (one_of(kNotNow, response.error) || response.error == kNoStream)
    return {.code = Code::store_unavailable,
            .message = words + "; the same call later may succeed",
            .retryable = true};
  if (one_of(kFull, response.error))
    return {.code = Code::store_unusable,
            .message = words +
                       "; raise the limit (max_file_store, or the account's), then the same "
                       "call goes on",
            .retryable = true};
  return {.code = Code::store_unusable, .message = words};
}

std::vector<Difference> differences(const Json& wanted, const Json* echoed) {
  std::vector<Difference> all;
  for (const auto& [name, value] : wanted.members()) {
    const Json* found = echoed ? echoed->member(name) : nullptr;
    if (found && *found == value) continue;
    // What is off or zero may be left out.
    const bool nothing = (value.kind() == Json::Kind::boolean && !value.boolean()) ||
                         (value.kind() == Json::Kind::number && value.number() == 0);
    if (!found && nothing) continue;
    all.push_back({.field = name,
                   .found = found ? encoding::canonical(*found) : std::string("missing"),
                   .wanted = encoding::canonical(value)});
  }
  return all;
}

std::optional<Difference> difference(const Json& wanted, const Json* echoed) {
  auto all = differences(wanted, echoed);
  return all.empty() ? std::nullopt : std::optional(std::move(all.front()));
}

// {"stream":"NAME","seq":N}, which is what is answered almost always; zero: it is something else.
std::uint64_t plainly_stored(std::string_view answer) {
  constexpr std::string_view kBefore = R"({"stream":")";
  constexpr std::string_view kBetween = R"(","seq":)";
  if (!answer.starts_with(kBefore) || !answer.ends_with('}')) return 0;
  const std::size_t end = answer.find('"', kBefore.size());
  if (end == std::string_view::npos || !answer.substr(end).starts_with(kBetween)) return 0;
  const char* const last = answer.data() + answer.size() - 1;
  std::uint64_t sequence = 0;
  const auto read = std::from_chars(answer.data() + end + kBetween.size(), last, sequence);
  return read.ptr == last && read.ec == std::errc{} ? sequence : 0;
}

PublishResult published_from(const ApiResponse& response) {
  if (response.error == kWrongLastSequence) {
    const std::size_t digits = response.text.find_last_not_of("0123456789");
    return {.kind = PublishResult::Kind::refused,
            .sequence = std::strtoull(response.text.c_str() + digits + 1, nullptr, 10)};
  }
  if (one_of(kUndecided, response.error))
    return {.text = response.text, .in_flight = response.error == kInFlight};
  if (response.error != 0)
    return {
        .kind = PublishResult::Kind::failed, .text = response.text, .error = not_stored(response)};
  const std::uint64_t sequence = number_of(response.json, "seq").value_or(0);
  if (sequence == 0) return {.text = "the NATS server acknowledged without a sequence"};
  return {.kind = PublishResult::Kind::stored,
          .sequence = sequence,
          .value = text_of(response.json, "val")};
}

Error failure_of(const PublishResult& published) {
  if (published.error) return *published.error;
  if (published.kind == PublishResult::Kind::unknown)
    return {.code = Code::outcome_unknown,
            .message = "it is not known whether the NATS server stored it (" + published.text +
                       "); the same call again finds out",
            .retryable = true,
            .in_doubt = true};
  return {.code = published.too_large ? Code::too_large : Code::store_unavailable,
          .message = "nothing was stored: " + published.text,
          .retryable = !published.too_large};
}

std::size_t size_of(const Outgoing& message) {
  std::size_t size = message.data.size() + 16;
  for (const auto& [name, value] : message.headers) size += name.size() + value.size() + 4;
  return size;
}

Headers expecting(std::uint64_t last_sequence) {
  return {{"Nats-Expected-Last-Subject-Sequence", std::to_string(last_sequence)}};
}

}  // namespace once::store::nats
