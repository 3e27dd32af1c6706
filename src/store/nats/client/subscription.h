// A subscription that stays over several connections of nats.c: Connection attaches it to each new
// one. After its destructor returns, its callback does not run any more.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "once/result.h"
#include "store/nats/client/handles.h"

namespace once::store::nats {

// The error for a server that cannot be reached.
Error unreachable(natsStatus status, const std::string& where);

class Subscription {
 public:
  using Heard = std::function<void(Message)>;
  // Calls `heard` on a delivery thread of nats.c. The destructor first calls `ended`.
  Subscription(std::string subject, Heard heard, std::function<void(Subscription*)> ended)
      : subject_(std::move(subject)), heard_(std::move(heard)), ended_(std::move(ended)) {}
  ~Subscription();
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  // Subscribes over this connection and ends the subscription over the last one. One thread at a
  // time may call it.
  natsStatus attach(natsConnection* connection);

 private:
  static void on_message(natsConnection*, natsSubscription*, natsMsg* raw, void* self);
  static void on_complete(void* self);
  void detach();

  const std::string subject_;
  const Heard heard_;
  const std::function<void(Subscription*)> ended_;
  SubscriptionHandle handle_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool over_now_ = true;  // under mutex_; no callback of handle_ is left
};

}  // namespace once::store::nats
