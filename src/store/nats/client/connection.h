// A connection to one of several servers. If the connection breaks, this class opens a new one,
// until it is destroyed. ARCHITECTURE.md, "Threads of the client", draws the threads.
//
// Each new one is a new connection of nats.c. This class does not use the reconnect of nats.c. With
// an event loop, the parser of nats.c keeps part of a message over a reconnect and never recovers
// (nats.c issue 1007).
//
// | what happens | result |
// |---|---|
// | the connection breaks | `lost` is called; from then until `back` is called, every send fails |
// | a message was sent and not yet written | it is dropped; no later connection sends it |
// | a subscription exists | it is made again before `back` is called |
// | the server refuses the login | refused() says why; the next try may succeed |
// | a server names other servers of its cluster | the next tries include them |
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "once/result.h"
#include "once/zone.h"
#include "store/nats/client/socket_loop.h"
#include "store/nats/client/subscription.h"

namespace once::store::nats {

struct Servers {
  std::vector<std::string> servers{};  // "nats://host:port", or all "tls://..."
  NatsLogin login{};
  std::function<void(std::string_view)> log{};  // called per line, on any thread; may be empty
  Duration ping_every{5'000};  // after two unanswered pings the connection counts as broken
};

class Connection {
 public:
  // The reconnecting thread calls `lost` and `back`, one at a time. A thread of nats.c calls
  // `violation`, perhaps at the same time. The calls may begin before open() returns.
  struct Events {
    std::function<void(const std::string& server)> lost{};
    std::function<void(const std::string& server)> back{};
    std::function<void(std::string_view)> violation{};  // of a permission; the server's text
  };
  static Result<std::unique_ptr<Connection>> open(const Servers& address, Events events);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Puts the message into the buffer of nats.c; flush() writes the buffer. Returns false if the
  // message is not sent, for example because there is no connection. With `sent`, the caller keeps
  // the message of nats.c. nats.c wakes a thread to destroy messages. If the caller destroys many
  // messages together, that thread wakes only once.
  bool send(const Outgoing& message, const std::string& reply,
            std::vector<MessageHandle>* sent = nullptr);
  void flush();
  // See SocketLoop.
  void await_read();
  // Calls `heard` on a delivery thread of nats.c for each message, over this and every later
  // connection. The subscription must not outlive this object.
  Result<std::unique_ptr<Subscription>> subscribe(const std::string& subject,
                                                  Subscription::Heard heard);
  // Returns after the server has handled everything that was sent before. Returns an error if the
  // server reported a violation.
  Result<void> confirm();

  std::size_t max_payload() const { return max_payload_; }  // of the last server
  std::string refused() const;  // why the last login was refused; empty if it was accepted
  const std::string& where() const { return where_; }  // the servers that are tried

 private:
  explicit Connection(Events events) : events_(std::move(events)) {}
  using Handle = std::shared_ptr<natsConnection>;  // shared by the threads that send
  natsStatus set_options(const Servers& address);
  natsStatus connect();
  void keep_connected(const std::stop_token& stop);
  bool connect_again(const std::stop_token& stop);
  void give_up_current();
  Handle current() const;
  static void on_closed(natsConnection* connection, void* self);
  static void on_error(natsConnection*, natsSubscription*, natsStatus status, void* self);

  const Events events_;
  std::string where_;
  OptionsHandle options_;
  // Null with TLS: a read may block there, and must not delay a write.
  std::unique_ptr<SocketLoop> loop_;
  std::vector<std::string> servers_;  // to try; only the thread that connects uses them
  std::string server_;                // the last one that was connected; the same thread
  std::atomic<std::size_t> max_payload_{0};

  std::mutex subscribing_;                 // held while subscriptions are made; before mutex_
  std::set<Subscription*> subscriptions_;  // under subscribing_
  mutable std::mutex mutex_;               // guards what follows
  std::condition_variable_any changed_;    // lost_, open_
  Handle current_;
  bool lost_ = false;  // current_ is broken
  int open_ = 0;       // connections of nats.c that may still call back
  std::string refused_;
  std::jthread thread_;  // the reconnecting thread: keep_connected()
};

// Returns the URL without its login: "nats://nats-1:4222" for "nats://user:secret@nats-1:4222".
std::string bare(std::string_view url);

}  // namespace once::store::nats
