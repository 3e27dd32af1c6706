// Sends pulls to consumers and receives what they deliver. puller.h decides what to pull.
//
// A delivered message has the subject that it was published on. So its subject does not name the
// pull. Each pull in progress therefore has an inbox of its own. Later pulls reuse free inboxes.
// Any thread may call it.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/nats/client/bell.h"
#include "store/nats/client/connection.h"

namespace once::store::nats {

// One pull in progress and the messages that it has brought so far. PullInboxes guards it.
struct PendingPull {
  std::uint64_t number{};
  std::vector<Message> messages{};
  std::size_t wanted = 1;  // messages until it ends; a status message also ends it
  bool ended = false;
  int status{};           // of the status message that ended it, else zero
  std::string subject{};  // of the request
  std::chrono::steady_clock::time_point sent_at{};
  std::string denied{};          // the server's text if the pull is forbidden
  std::shared_ptr<Bell> bell{};  // shared with the waiting thread; null: messages get a NAK
};

class PullInboxes {
 public:
  // Sends a message with a reply subject, which may be empty. Returns false if the message could
  // not be sent. The message may wait in a buffer until the connection is flushed.
  using Send = std::function<bool(const Outgoing& message, const std::string& reply)>;
  PullInboxes(Send send, std::function<void()> flush)
      : send_(std::move(send)), flush_(std::move(flush)) {}

  // Call it before the first pull. The inboxes are subjects below `root`.
  void open(Connection& connection, std::string root);
  // Call it before the connection is closed. After it returns, no message arrives.
  void close();

  // Sends a pull. It ends, and the bell rings, after `wanted` messages or a status message. Returns
  // null if the pull could not be sent. The pull stays in the buffer of nats.c until the next burst
  // or take().
  std::shared_ptr<PendingPull> pull(const Outgoing& question, std::size_t wanted,
                                    std::shared_ptr<Bell> bell);
  // Sets the bell of the thread that waits now. With null, each message that arrives from now on is
  // given back to the server by a NAK.
  void attend(PendingPull& pending, std::shared_ptr<Bell> bell);
  // Flushes, then moves the messages that have arrived to `into`. Returns true if the pull has
  // ended.
  bool take(PendingPull& pending, std::vector<Message>& into);
  int status_of(const PendingPull& pending);       // zero if there is no status message yet
  std::string denied(const PendingPull& pending);  // empty if the pull is not forbidden
  // Ends a pull that the server will not answer any more. Messages that still arrive get a NAK.
  void give_up(PendingPull& pending);

  void connection_lost();
  // Ends the pulls to the subjects that the server forbids.
  void end_denied(const std::function<bool(const std::string& subject)>& is_about,
                  std::string_view text);

 private:
  struct Inbox {
    std::string subject{};
    std::unique_ptr<Subscription> subscription{};
    std::shared_ptr<PendingPull> pending{};  // shared with the waiting thread; null if it is free
  };
  // What the callback does after it has released the mutex.
  struct Rung {
    std::shared_ptr<Bell> bell{};
    std::string give_back{};
  };
  std::pair<Inbox*, std::shared_ptr<PendingPull>> free_inbox();
  Rung receive(Inbox& inbox, Message message);
  std::vector<std::shared_ptr<Bell>> end(const std::function<bool(PendingPull&)>& ends);

  const Send send_;
  const std::function<void()> flush_;
  Connection* connection_ = nullptr;
  std::string root_;
  std::mutex mutex_;  // guards what follows
  std::list<Inbox> inboxes_;
  std::uint64_t last_number_{};
};

}  // namespace once::store::nats
