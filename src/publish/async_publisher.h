// Publishes in the background. One activity takes the submitted tasks in order and publishes them
// in batches. While the store writes one batch, the next batch gathers.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/scheduler.h"
#include "once/zone.h"
#include "publish/publisher.h"

namespace once::engine {

// Any thread may call submit() and in_flight().
class AsyncPublisher {
 public:
  AsyncPublisher(Publisher& publisher, Scheduler& scheduler, AsyncLimits limits)
      : publisher_(publisher),
        scheduler_(scheduler),
        limits_(limits),
        mutex_(scheduler.mutex()),
        work_(mutex_->condition()) {}
  ~AsyncPublisher() { close(); }

  // Accepts the task, or returns an Error and never calls `done`. Does not wait for the store.
  Result<void> submit(Task task, PublishCallback done);
  // Publishes the accepted tasks, calls every callback and ends the activity. If the store fails a
  // whole batch meanwhile, the tasks behind that batch get an error and are not published.
  void close();
  std::uint64_t in_flight() const;

 private:
  struct Item {
    Task task{};
    PublishCallback done{};
    std::size_t bytes{};
  };

  void run();
  std::vector<Item> gather();
  // Returns true if the store failed every task of the batch.
  bool publish(std::vector<Item> batch);
  void answer(Item& item, Result<Receipt> result);

  Publisher& publisher_;
  Scheduler& scheduler_;
  const AsyncLimits limits_;
  const std::unique_ptr<Mutex> mutex_;
  // Under mutex_:
  const std::unique_ptr<Condition> work_;
  std::deque<Item> waiting_;
  std::uint64_t in_flight_ = 0;
  std::size_t bytes_ = 0;
  bool closing_ = false;
  std::unique_ptr<Activity> activity_;  // null until the first submit()
};

}  // namespace once::engine
