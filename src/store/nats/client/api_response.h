// What JetStream answers: to calls of its API, and to publishes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "once/result.h"
#include "store/nats/client/stream_message.h"

namespace once::store::nats {

// JetStream's own codes of an ApiResponse.
constexpr int kNoConsumer = 10014;
constexpr int kNoStream = 10059;

struct ApiResponse {
  encoding::Json json{};
  int error{};  // JetStream's own code; zero: none
  std::string text{};
};
// The error for a call that the server answered with one.
Error refused(const std::string& what, const ApiResponse& response);

// A field of what was wanted that the server does not echo.
struct Difference {
  std::string field{};
  std::string found{};
  std::string wanted{};
};
std::vector<Difference> differences(const encoding::Json& wanted, const encoding::Json* echoed);
// The first of them.
std::optional<Difference> difference(const encoding::Json& wanted, const encoding::Json* echoed);

struct PublishResult {
  enum class Kind {
    stored,   // at `sequence`
    refused,  // the expected sequence was another: `sequence`
    failed,   // known not to be stored; `text` says why
    unknown,  // it may be stored
  };
  Kind kind = Kind::unknown;
  std::uint64_t sequence{};
  std::string value{};  // of a counter
  std::string text{};
  bool in_flight = false;        // unknown: another write on its subject was not through
  std::optional<Error> error{};  // failed: what is to be said of it, when there is more than `text`
  bool too_large = false;        // failed, and always will
};

// The error for what became of a publish that was neither stored nor refused.
Error failure_of(const PublishResult& published);
// What became of a publish that was answered so.
PublishResult published_from(const ApiResponse& response);
// The sequence of {"stream":"NAME","seq":N}, which is what is answered almost always. Zero if the answer is
// something else.
std::uint64_t plainly_stored(std::string_view answer);

// With its headers, as the server counts it.
std::size_t size_of(const Outgoing& message);

// The fields of an expectation for a publish.
Headers expecting(std::uint64_t last_sequence);

}  // namespace once::store::nats
