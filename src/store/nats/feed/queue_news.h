// Wakes the waiting fetches when a queue's definition changes, and counts the changes. Any thread
// may call it.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>

#include "store/nats/zone_connection.h"

namespace once::store::nats {

class QueueNews {
 public:
  explicit QueueNews(ZoneConnection& zone) : zone_(zone) {}

  void ring();  // wakes every waiting fetch
  std::uint64_t told() const { return told_; }
  // From now on, rings when the server reports a changed definition. Only a fetch that waits calls
  // it, so other logins need no permission for that subject.
  void listen();

  // Registers a bell for as long as it lives.
  class Waiting {
   public:
    Waiting(QueueNews& news, const std::shared_ptr<Bell>& bell);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    QueueNews& news_;
    std::list<std::shared_ptr<Bell>>::iterator place_;
  };

 private:
  ZoneConnection& zone_;
  std::atomic<std::uint64_t> told_{};
  std::mutex mutex_;
  std::list<std::shared_ptr<Bell>> bells_;  // shared with the fetches that wait
  std::once_flag listening_;
  std::unique_ptr<Subscription> listener_;  // last: it uses the others
};

}  // namespace once::store::nats
