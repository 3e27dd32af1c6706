// Speaks JetStream's API over a RequestMux: makes streams and consumers and verifies the server's
// echo, reads messages from the leader or in pages, and publishes. Any thread may call it.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/nats/client/api_response.h"
#include "store/nats/client/request_mux.h"

namespace once::store::nats {

class JetStreamClient {
 public:
  explicit JetStreamClient(RequestMux& mux, Duration patience = Duration{5'000},
                           RequestMux::Use use = RequestMux::Use::ordinary)
      : mux_(mux), patience_(patience), use_(use) {}

  Duration patience() const { return patience_; }
  const std::string& where() const { return mux_.where(); }  // the servers, for messages

  using Response = ApiResponse;
  // `api` is what follows "$JS.API.".
  Result<Response> call(const std::string& api, const std::string& body) const;
  std::vector<Result<Response>> call(std::span<const Outgoing> questions) const;

  // Refuses servers that are known to lose or repeat tasks.
  Result<void> check_server() const;
  // Makes or updates a consumer. Each field of `config` must have that value in the end.
  Result<Response> make_consumer(const std::string& stream, const std::string& name,
                                 const std::string& config) const;

  // From the leader. nullopt if there is no such message.
  Result<std::optional<StreamMessage>> get(const std::string& stream, std::uint64_t sequence) const;
  Result<std::optional<StreamMessage>> last(const std::string& stream,
                                            const std::string& subject) const;
  std::vector<Result<std::optional<StreamMessage>>> last(
      const std::string& stream, std::span<const std::string> subjects) const;
  std::vector<Result<std::optional<StreamMessage>>> get(
      const std::string& stream, std::span<const std::uint64_t> sequences) const;
  // The server's description of a stream. nullopt if there is no such stream.
  Result<std::optional<encoding::Json>> stream_info(const std::string& stream,
                                                    const std::string& body = {}) const;
  // Like page(), from the leader. Works on any stream, also on one that answers no direct reads, and with
  // any headers.
  Result<bool> leader_page(const std::string& stream, const std::string& filter, std::uint64_t from,
                           std::size_t limit, std::vector<StreamMessage>& into) const;
  // Messages from `from` on whose subject matches, in order, at most `limit`. True if there may be more.
  // The leader answers if `limit` is one. Otherwise a replica that lags behind may answer, so a missing
  // message decides nothing.
  Result<bool> page(const std::string& stream, const std::string& filter, std::uint64_t from,
                    std::size_t limit, std::vector<StreamMessage>& into) const;
  // The same in two steps, never from the leader. Requests that the caller sends between the two
  // steps share the round trip.
  RequestMux::PendingQuestion begin_page(const std::string& stream, const std::string& filter,
                                         std::uint64_t from, std::size_t limit) const;
  Result<bool> end_page(RequestMux::PendingQuestion asked, std::vector<StreamMessage>& into) const;
  // Calls `seen` for each message up to `up_to`, in order. The next page is requested meanwhile.
  static constexpr std::uint64_t kToTheEnd = std::numeric_limits<std::uint64_t>::max();
  Result<void> each(const std::string& stream, const std::string& filter, std::uint64_t from,
                    std::uint64_t up_to,
                    const std::function<Result<void>(StreamMessage)>& seen) const;
  // How many messages match, by the server's own count.
  Result<std::uint64_t> count(const std::string& stream, const std::string& filter,
                              std::uint64_t from = 1) const;
  // The last message on each subject that has one. The leader answers for a few subjects. For more, a
  // replica may answer as above.
  Result<std::map<std::string, StreamMessage>> last_of_each(
      const std::string& stream, std::span<const std::string> subjects) const;
  // All messages that match.
  Result<std::vector<StreamMessage>> all(const std::string& stream,
                                         const std::string& filter) const;

  std::vector<PublishResult> publish(std::span<const Outgoing> messages) const;
  PublishResult publish(const Outgoing& message) const;
  // Stores all messages in one stream or none, with one answer. The answer's sequence is that of the last
  // message. At most kMostInBatch.
  static constexpr std::size_t kMostInBatch = 500;
  static constexpr std::size_t kBatchHeaders = 256;  // bytes that each of them has more, at most
  PublishResult publish_together(std::vector<Outgoing> messages) const;
  // Publishes, and reads the last message on these subjects of a stream, in one burst.
  struct Burst {
    std::vector<PublishResult> published{};
    std::vector<Result<std::optional<StreamMessage>>> last{};
  };
  Burst publish(std::span<const Outgoing> messages, const std::string& stream,
                std::span<const std::string> subjects) const;
  // The same for all messages or none, with one answer.
  Burst publish_together(std::vector<Outgoing> messages, const std::string& stream,
                         std::span<const std::string> subjects) const;
  // False if the message was not there.
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
  Result<Response> response_of(RequestMux::Answer answer) const;
  PublishResult published_from(RequestMux::Answer answer) const;
  std::vector<RequestMux::Answer> ask(std::span<const Outgoing> questions) const {
    return mux_.ask(questions, patience_, use_);
  }
  // Sends a message again if the server refused it because another write on its subject was in
  // progress.
  void outlast_others(std::span<const Outgoing> messages,
                      std::vector<PublishResult>& published) const;
  RequestMux::PendingQuestion ask_directly(const std::string& stream, std::string question) const;
  Result<std::uint64_t> read_directly(RequestMux::PendingQuestion asked,
                                      std::vector<StreamMessage>& into) const;

  RequestMux& mux_;
  const Duration patience_;
  const RequestMux::Use use_;
};

}  // namespace once::store::nats
