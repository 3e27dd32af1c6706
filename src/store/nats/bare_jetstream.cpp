// Laid out like a zone, so that the server does the same: a log with a subject per task, a ledger with
// a subject per record, one consumer. What is left out is what makes it Once: no expected sequence, no
// digest, no nonce, no decision, nothing read back.
#include "store/nats/bare_jetstream.h"

#include <chrono>

#include "core/names.h"
#include "store/nats/client/jetstream_client.h"
#include "store/nats/streams.h"
#include "store/nats/subjects.h"

namespace once::store::nats {
namespace {

using std::chrono::steady_clock;

constexpr const char* kConsumer = "bench";

// Not below a zone's own names: no zone can be called so that they meet.
struct BarePlace {
  std::string stream{};
  std::string root{};  // of its subjects
};
BarePlace log_of(const std::string& zone) {
  return {.stream = "ONCEBARE_" + zone + "_LOG", .root = "once-bare." + zone + ".log."};
}
BarePlace ledger_of(const std::string& zone) {
  return {.stream = "ONCEBARE_" + zone + "_LEDGER", .root = "once-bare." + zone + ".ledger."};
}

std::string config_of(const BarePlace& place, const char* per_subject) {
  return R"({"subjects":[)" + json_string(place.root + ">") +
         R"(],"storage":"file","retention":"limits","allow_direct":true,"max_msgs_per_subject":)" +
         per_subject + "}";
}

class BareJetStream final : public BareStoreBaseline {
 public:
  BareJetStream(std::unique_ptr<RequestMux> mux, const NatsOptions& options)
      : mux_(std::move(mux)),
        client_(*mux_, options.patience),
        zone_{.zone = options.zone},
        log_(log_of(options.zone)),
        ledger_(ledger_of(options.zone)) {}

  Result<void> prepare() {
    if (auto checked = client_.check_server(); !checked) return checked;
    const auto zone = client_.call("STREAM.INFO." + zone_.meta_stream(), "");
    if (!zone) return zone.error();
    found_zone_ = zone->error != kNoStream;
    if (auto gone = remove(own_streams()); !gone) return gone;
    if (auto made = make_streams(client_, {{log_.stream, config_of(log_, "-1")},
                                           {ledger_.stream, config_of(ledger_, "1")}});
        !made)
      return made;
    const auto consumer =
        client_.make_consumer(log_.stream, kConsumer,
                              R"({"durable_name":"bench","ack_policy":"explicit",)"
                              R"("deliver_policy":"all","max_deliver":-1,"max_ack_pending":-1})");
    if (!consumer) return consumer.error();
    return {};
  }

  std::string_view name() const override { return "bare JetStream"; }

  Result<void> publish(std::span<const std::string> ids, const std::string& body) override {
    std::vector<Outgoing> messages;
    messages.reserve(ids.size());
    for (const std::string& id : ids)
      messages.push_back({.subject = log_.root + token(id) + ".bench", .data = body});
    return stored(messages);
  }

  Result<void> work(std::size_t count) override {
    const auto deliveries = fetch(count);
    if (!deliveries) return deliveries.error();
    std::vector<Outgoing> records;
    std::vector<Outgoing> acks;
    for (const Message& delivery : *deliveries) {
      records.push_back({.subject = ledger_.root + std::to_string(++worked_), .data = record_});
      acks.push_back({.subject = std::string(delivery.reply()), .data = "+ACK"});
    }
    if (auto claimed = stored(records); !claimed) return claimed;
    if (auto completed = stored(records); !completed) return completed;
    for (const RequestMux::Answer& answer : mux_->ask(acks, client_.patience()))
      if (answer.kind != RequestMux::Answer::Kind::answered)
        return failure_of({.text = "an acknowledgement was not answered"});
    return {};
  }

  bool found_zone() const override { return found_zone_; }

  Result<void> clear(bool zone) override {
    auto gone = remove(own_streams());
    if (!gone || !zone || found_zone_) return gone;
    return remove(zone_.streams());
  }

 private:
  std::vector<std::string> own_streams() const { return {log_.stream, ledger_.stream}; }

  Result<void> remove(const std::vector<std::string>& streams) const {
    for (const std::string& stream : streams) {
      const auto response = client_.call("STREAM.DELETE." + stream, "");
      if (!response) return response.error();
      if (response->error != 0 && response->error != kNoStream)
        return Error{.code = Code::store_unusable,
                     .message = "the stream " + stream +
                                " of this benchmark could not be removed (" + response->text +
                                "); remove it with `nats stream rm`"};
    }
    return {};
  }

  Result<void> stored(const std::vector<Outgoing>& messages) const {
    for (const PublishResult& published : client_.publish(messages))
      if (published.kind != PublishResult::Kind::stored) return failure_of(published);
    return {};
  }

  Result<std::vector<Message>> fetch(std::size_t count) {
    const auto bell = std::make_shared<Bell>();
    const auto deadline = steady_clock::now() + client_.patience();
    const auto pending = mux_->pulls().pull(
        {.subject = "$JS.API.CONSUMER.MSG.NEXT." + log_.stream + "." + kConsumer,
         .data = "{\"batch\":" + std::to_string(count) +
                 ",\"expires\":" + std::to_string(client_.patience().count()) + "000000}"},
        count, bell);
    std::vector<Message> messages;
    bool ended = !pending;
    while (!ended && steady_clock::now() < deadline) {
      const std::uint64_t seen = bell->rings();
      ended = mux_->pulls().take(*pending, messages);
      if (!ended) bell->wait_until(seen, deadline, {});
    }
    if (pending) mux_->pulls().attend(*pending, nullptr);
    if (messages.size() < count)
      return Error{.code = Code::store_unavailable,
                   .message = "the NATS server delivered " + std::to_string(messages.size()) +
                              " of " + std::to_string(count) + " messages of the bare stream",
                   .retryable = true};
    return messages;
  }

  std::unique_ptr<RequestMux> mux_;
  JetStreamClient client_;
  const Subjects zone_;
  const BarePlace log_;
  const BarePlace ledger_;
  bool found_zone_ = true;  // until it is known that it was not
  std::uint64_t worked_ = 0;
  const std::string record_ = std::string(120, 'r');  // about the size of Once's
};

}  // namespace
}  // namespace once::store::nats

namespace once::store {

Result<std::unique_ptr<BareStoreBaseline>> open_bare_jetstream(const NatsOptions& options) {
  using namespace nats;
  if (auto ok = core::check_name(options.zone, "zone"); !ok) return ok.error();
  auto mux = RequestMux::open({.servers = options.servers, .login = options.login});
  if (!mux) return mux.error();
  auto made = std::make_unique<BareJetStream>(std::move(*mux), options);
  if (auto ready = made->prepare(); !ready) {
    static_cast<void>(made->clear(false));
    return ready.error();
  }
  return std::unique_ptr<BareStoreBaseline>(std::move(made));
}

}  // namespace once::store
