// JetStream by its raw API: streams and consumers as JSON whose echo is verified, messages read from
// the leader or in pages, and publishes with their acknowledgements.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "json/json.h"
#include "store/nats/request_mux.h"

namespace once::store::nats {

// A message of a stream.
struct StreamMessage {
  std::string subject{};
  std::uint64_t sequence{};
  Time time{};  // the leader's clock when it was stored
  std::map<std::string, std::string, std::less<>> headers{};
  std::string data{};

  const std::string* header(std::string_view name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? nullptr : &found->second;
  }
};

// A message as it was delivered: without sequence and time, which its reply subject tells.
StreamMessage kept_from(const Message& message);

// "2026-01-02T03:04:05.678901234Z"
std::optional<Time> time_from(std::string_view text);
std::optional<std::string> from_base64(std::string_view text);

struct Published {
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
Error failure_of(const Published& published);

class JetStreamClient {
 public:
  explicit JetStreamClient(RequestMux& exchange, Duration patience = Duration{5'000},
                           RequestMux::Use use = RequestMux::Use::ordinary)
      : exchange_(exchange), patience_(patience), use_(use) {}

  Duration patience() const { return patience_; }

  struct Response {
    encoding::Json json{};
    int error{};  // JetStream's own code; zero: none
    std::string text{};
  };
  // `api` is what follows "$JS.API.".
  Result<Response> call(const std::string& api, const std::string& body) const;
  std::vector<Result<Response>> call(std::span<const Outgoing> questions) const;

  // Refuses servers that are known to lose or repeat tasks.
  Result<void> check_server() const;
  // Makes or updates it. `config` holds the fields that matter; each must be so in the end.
  Result<Response> make_consumer(const std::string& stream, const std::string& name,
                                 const std::string& config) const;

  // From the leader. None: there is no such message.
  Result<std::optional<StreamMessage>> get(const std::string& stream, std::uint64_t sequence) const;
  Result<std::optional<StreamMessage>> last(const std::string& stream,
                                            const std::string& subject) const;
  std::vector<Result<std::optional<StreamMessage>>> last(
      const std::string& stream, std::span<const std::string> subjects) const;
  std::vector<Result<std::optional<StreamMessage>>> get(
      const std::string& stream, std::span<const std::uint64_t> sequences) const;
  // What a stream is, as the server tells it. None: there is no such stream.
  Result<std::optional<encoding::Json>> stream_info(const std::string& stream,
                                                    const std::string& body = {}) const;
  // Like page(), from the leader and of any stream: also of one that answers no direct reads, and
  // whatever headers its messages carry.
  Result<bool> leader_page(const std::string& stream, const std::string& filter, std::uint64_t from,
                           std::size_t limit, std::vector<StreamMessage>& into) const;
  // Messages from `from` on whose subject matches, in order, at most `limit`; true: there may be more.
  // One is asked of the leader. More may be answered by a replica that lags behind: nothing may be
  // decided by what is missing.
  Result<bool> page(const std::string& stream, const std::string& filter, std::uint64_t from,
                    std::size_t limit, std::vector<StreamMessage>& into) const;
  // The same in two steps, never of the leader: what is asked in between goes out with it.
  RequestMux::Asked begin_page(const std::string& stream, const std::string& filter,
                               std::uint64_t from, std::size_t limit) const;
  Result<bool> end_page(RequestMux::Asked asked, std::vector<StreamMessage>& into) const;
  // Calls for each of them up to `up_to`, in order. The next page is on its way meanwhile.
  static constexpr std::uint64_t kToTheEnd = std::numeric_limits<std::uint64_t>::max();
  Result<void> each(const std::string& stream, const std::string& filter, std::uint64_t from,
                    std::uint64_t up_to,
                    const std::function<Result<void>(StreamMessage)>& seen) const;
  // How many there are, by the server's own count.
  Result<std::uint64_t> count(const std::string& stream, const std::string& filter,
                              std::uint64_t from = 1) const;
  // What stands last on each of the subjects that has something, by subject. A few are asked of the
  // leader, more may be answered by a replica as above.
  Result<std::map<std::string, StreamMessage>> last_of_each(
      const std::string& stream, std::span<const std::string> subjects) const;
  // All of them.
  Result<std::vector<StreamMessage>> all(const std::string& stream,
                                         const std::string& filter) const;

  std::vector<Published> publish(std::span<const Outgoing> messages) const;
  Published publish(const Outgoing& message) const;
  // All or none of them, to one stream, with one answer. Stored: at the sequences that end with the
  // answer's, in their order. At most kMostInBatch.
  static constexpr std::size_t kMostInBatch = 500;
  static constexpr std::size_t kBatchHeaders = 256;  // bytes that each of them has more, at most
  Published publish_together(std::vector<Outgoing> messages) const;
  // The same, and what stands last on these subjects of a stream, in one burst.
  struct Burst {
    std::vector<Published> published{};
    std::vector<Result<std::optional<StreamMessage>>> last{};
  };
  Burst publish(std::span<const Outgoing> messages, const std::string& stream,
                std::span<const std::string> subjects) const;
  // All or none of them, as above: one answer for all.
  Burst publish_together(std::vector<Outgoing> messages, const std::string& stream,
                         std::span<const std::string> subjects) const;
  // False: it was not there.
  Result<bool> remove(const std::string& stream, std::uint64_t sequence) const;
  // Of each whether it was there.
  Result<std::vector<bool>> remove_each(const std::string& stream,
                                        std::span<const std::uint64_t> sequences) const;
  // How many of them were there.
  Result<std::uint64_t> remove(const std::string& stream,
                               std::span<const std::uint64_t> sequences) const;
  Result<void> purge(const std::string& stream, const std::string& filter) const;
  Result<void> purge(const std::string& stream, std::span<const std::string> filters) const;

 private:
  // An answer with what it means for everyone who asks.
  Result<Response> response_of(RequestMux::Answer answer) const;
  Published published_from(RequestMux::Answer answer) const;
  std::vector<RequestMux::Answer> ask(std::span<const Outgoing> questions) const {
    return exchange_.ask(questions, patience_, use_);
  }
  // Sends what met another write on its subject again, until that is through.
  void outlast_others(std::span<const Outgoing> messages, std::vector<Published>& published) const;
  RequestMux::Asked ask_directly(const std::string& stream, std::string question) const;
  Result<std::uint64_t> read_directly(RequestMux::Asked asked,
                                      std::vector<StreamMessage>& into) const;

  RequestMux& exchange_;
  const Duration patience_;
  const RequestMux::Use use_;
};

// The error for a call that the server answered with one.
Error refused(const std::string& what, const JetStreamClient::Response& response);

// A field of what was wanted that the server does not echo.
struct Difference {
  std::string field{};
  std::string found{};
  std::string wanted{};
};
std::vector<Difference> differences(const encoding::Json& wanted, const encoding::Json* echoed);
// The first of them.
std::optional<Difference> difference(const encoding::Json& wanted, const encoding::Json* echoed);
// With its headers, as the server counts it.
std::size_t size_of(const Outgoing& message);

// The fields of an expectation for a publish.
Headers expecting(std::uint64_t last_sequence);

std::string quoted(std::string_view text);  // as JSON
std::optional<std::uint64_t> number_of(const encoding::Json& json, std::string_view member);
std::string text_of(const encoding::Json& json, std::string_view member);

}  // namespace once::store::nats
