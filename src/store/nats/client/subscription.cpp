#include "store/nats/client/subscription.h"

namespace once::store::nats {

Error unreachable(natsStatus status, const std::string& where) {
  return {.code = Code::store_unavailable,
          .message = "the NATS server at " + where + " cannot be reached (" +
                     natsStatus_GetText(status) +
                     "); nothing was done: is it running, and is the address right?",
          .retryable = true};
}

Subscription::~Subscription() {
  ended_(this);
  detach();
}

natsStatus Subscription::attach(natsConnection* connection) {
  detach();
  natsSubscription* raw = nullptr;
  natsStatus status =
      natsConnection_Subscribe(&raw, connection, subject_.c_str(), &on_message, this);
  if (status != NATS_OK) return status;
  handle_.reset(raw);
  {
    const std::lock_guard lock(mutex_);
    over_now_ = false;
  }
  // This fails only if the subscription is closed already. Then on_complete() is never called.
  if (status = natsSubscription_SetOnCompleteCB(raw, &on_complete, this); status != NATS_OK) {
    const std::lock_guard lock(mutex_);
    over_now_ = true;
    return status;
  }
  return natsSubscription_SetPendingLimits(raw, -1, -1);
}

void Subscription::detach() {
  if (!handle_) return;
  static_cast<void>(natsSubscription_Unsubscribe(handle_.get()));
  handle_.reset();
  std::unique_lock lock(mutex_);
  over_.wait(lock, [&] { return over_now_; });
}

void Subscription::on_message(natsConnection*, natsSubscription*, natsMsg* raw, void* self) {
  static_cast<Subscription*>(self)->heard_(Message(MessageHandle(raw)));
}

void Subscription::on_complete(void* data) {
  auto* self = static_cast<Subscription*>(data);
  const std::lock_guard lock(self->mutex_);
  self->over_now_ = true;
  self->over_.notify_all();  // under the lock: the destructor may run right after it
}

}  // namespace once::store::nats
