// A server of the test's own and a zone on it, in real time, with words to speak to both.
#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "store/nats/client/jetstream_client.h"
#include "store/nats/nats_store.h"
#include "support/nats_server.h"

namespace once::store::nats {

using namespace std::chrono_literals;

class NatsWorld : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::NatsServer::program().empty())
      GTEST_SKIP() << "THE STORE ON NATS IS NOT TESTED: there is no nats-server; tools/nats-server "
                      "fetches one";
    server_ = std::make_unique<testing::NatsServer>(configuration());
    store_ = open().value();
  }

  virtual std::string configuration() const { return {}; }  // of the server, beside the usual
  testing::NatsServer& server() { return *server_; }
  Store& store() { return *store_; }
  Result<std::unique_ptr<Store>> open(Duration patience = 5s) {
    return open_nats({.servers = {server_->url()}, .zone = "test", .patience = patience});
  }
  void reopen(NatsOptions options) {
    close();
    if (options.servers.empty()) options.servers = {server_->url()};
    options.zone = "test";
    store_ = open_nats(options).value();
  }
  void close() { store_.reset(); }
  void reopen(Duration patience) {
    close();
    store_ = open(patience).value();
  }

  // What somebody does to the server beside Once.
  encoding::Json raw(const std::string& api, const std::string& body) {
    return server_->ask(api, body);
  }

  static Append task(std::string id, std::string json = "{}") {
    static std::atomic<std::uint64_t> last{0};
    Append item{.id = std::move(id), .topic = "orders.new", .body = Body::json(json).value()};
    const std::uint64_t number = ++last;
    std::memcpy(item.nonce.bytes.data(), &number, sizeof number);
    item.digest.bytes[0] = static_cast<std::uint8_t>(json.size());
    return item;
  }
  Result<AppendResult> append(const Append& item) {
    return std::move(store().append(std::span(&item, 1)).front());
  }
  Sequence publish(const std::string& id) { return append(task(id)).value().sequence; }
  Queue add(const std::string& name, Duration lease) {
    Queue queue;
    queue.name = name;
    queue.topic = ">";
    queue.lease = lease;
    store().add_queue(queue).value();
    return queue;
  }
  std::vector<Delivery> fetch(const std::string& queue, Duration wait = 0ms,
                              std::size_t limit = 1) {
    return store().fetch({.queue = queue, .limit = limit, .wait = wait}).value();
  }
  static Swap record_of(const std::string& queue, const Delivery& delivery, State state,
                        Duration lease, Revision expected = {}) {
    return {.at = {.queue = queue, .key = delivery.entry.id, .sequence = delivery.entry.sequence},
            .expected = expected,
            .record = {.sequence = delivery.entry.sequence, .state = state, .lease = lease},
            .handle = delivery.handle};
  }
  Result<SwapResult> swap(const Swap& item) {
    return std::move(store().swap(std::span(&item, 1)).front());
  }

 private:
  std::unique_ptr<testing::NatsServer> server_;
  std::unique_ptr<Store> store_;
};

}  // namespace once::store::nats
