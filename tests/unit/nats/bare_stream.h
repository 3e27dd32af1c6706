// JetStream as the well-known recipes use it: a stream, a consumer, a bucket, and nothing of Once's.
// With it a test shows that a fault is real before it shows that Once survives it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "store/nats/client/jetstream_client.h"

namespace once::store::nats {

using namespace std::chrono_literals;

class Bare {
 public:
  explicit Bare(const std::string& url) : mux_(RequestMux::open({.servers = {url}}).value()) {}

  const JetStreamClient& client() const { return client_; }

  // Throws what the server says against it.
  encoding::Json api(const std::string& question, const std::string& body = "") const {
    auto response = client_.call(question, body).value();
    if (response.error != 0) throw std::runtime_error(question + ": " + response.text);
    return std::move(response.json);
  }
  // `more` goes on in JSON: ",\"max_age\":1".
  void stream(const std::string& name, const std::string& subject,
              const std::string& more = "") const {
    api("STREAM.CREATE." + name, R"({"name":")" + name + R"(","subjects":[")" + subject +
                                     R"("],"storage":"file")" + more + "}");
  }
  void consumer(const std::string& stream, const std::string& name,
                const std::string& more = "") const {
    api("CONSUMER.DURABLE.CREATE." + stream + "." + name,
        R"({"stream_name":")" + stream + R"(","config":{"durable_name":")" + name +
            R"(","ack_policy":"explicit")" + more + "}}");
  }

  struct Acked {
    std::uint64_t sequence{};
    bool duplicate = false;
  };
  // A replicated stream that was just made may have no leader. Then no server takes the message, and
  // it is sent again.
  Acked publish(const std::string& subject, const std::string& data, Headers headers = {}) const {
    constexpr int kNoResponders = 503;
    const Outgoing message{.subject = subject, .data = data, .headers = std::move(headers)};
    auto answer = ask(message);
    for (int tries = 0; answer.status == kNoResponders && tries < 200; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
      answer = ask(message);
    }
    const auto json = encoding::parse_json(answer.messages.at(0).data()).value();
    const encoding::Json* duplicate = json.member("duplicate");
    return {.sequence = number_of(json, "seq").value(),
            .duplicate = duplicate && duplicate->boolean()};
  }
  // As a bucket does that is put to without a look.
  void put(const std::string& subject, const std::string& data) const { publish(subject, data); }
  // What stands there; none: nothing.
  std::optional<std::string> get(const std::string& stream, const std::string& subject) const {
    const auto message = client_.last(stream, subject).value();
    return message ? std::optional(message->data) : std::nullopt;
  }
  std::uint64_t messages(const std::string& stream) const {
    const auto info = api("STREAM.INFO." + stream);
    return number_of(*info.member("state"), "messages").value();
  }
  std::uint64_t unanswered(const std::string& stream, const std::string& consumer) const {
    return number_of(api("CONSUMER.INFO." + stream + "." + consumer), "num_ack_pending").value();
  }

  struct Pulled {
    std::string data{};
    std::string reply{};
  };
  // The next message within that time.
  std::optional<Pulled> pull(const std::string& stream, const std::string& consumer,
                             Duration wait) const {
    const auto bell = std::make_shared<Bell>();
    const auto pending = mux_->pulls().pull(
        {.subject = "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer,
         .data = "{\"batch\":1,\"expires\":" + std::to_string(wait.count()) + "000000}"},
        1, bell);
    const auto deadline = std::chrono::steady_clock::now() + wait + 10s;
    std::vector<Message> messages;
    while (pending && std::chrono::steady_clock::now() < deadline) {
      const std::uint64_t seen = bell->rings();
      if (mux_->pulls().take(*pending, messages)) break;
      bell->wait_until(seen, deadline, {});
    }
    if (messages.empty()) return std::nullopt;
    return Pulled{.data = std::string(messages[0].data()),
                  .reply = std::string(messages[0].reply())};
  }
  // "+ACK", "-NAK {...}"; the server has heard it when this returns.
  void answer(const Pulled& pulled, const std::string& word = "+ACK") const {
    ask({.subject = pulled.reply, .data = word});
  }

 private:
  RequestMux::Answer ask(const Outgoing& question) const {
    return std::move(mux_->ask(std::span(&question, 1), 10s).front());
  }

  std::unique_ptr<RequestMux> mux_;
  JetStreamClient client_{*mux_, 10s};
};

}  // namespace once::store::nats
