#include "store/nats/feed/queue_news.h"

namespace once::store::nats {

void QueueNews::ring() {
  ++told_;
  const std::lock_guard lock(mutex_);
  for (const auto& bell : bells_) bell->ring();
}

void QueueNews::listen() {
  std::call_once(listening_, [this] {
    auto listener = zone_.mux->listen(zone_.subjects.news(), [this] { ring(); });
    if (listener) listener_ = std::move(*listener);
  });
}

QueueNews::Waiting::Waiting(QueueNews& news, const std::shared_ptr<Bell>& bell) : news_(news) {
  const std::lock_guard lock(news_.mutex_);
  place_ = news_.bells_.insert(news_.bells_.end(), bell);
}

QueueNews::Waiting::~Waiting() {
  const std::lock_guard lock(news_.mutex_);
  news_.bells_.erase(place_);
}

}  // namespace once::store::nats
