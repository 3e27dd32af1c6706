// Combines the calls of many threads into batches. While one caller runs a batch, later callers
// wait. When it is done, the first waiting caller runs the next batch for all that fit.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/scheduler.h"

namespace once::engine {

// Any thread may call submit(). `work` returns one answer per item, in order. It runs on the thread
// of one of the callers, and never twice at the same time.
template <class Item, class Answer>
class Combiner {
 public:
  using Work = std::function<std::vector<Answer>(const std::vector<Item>&)>;

  Combiner(Scheduler& scheduler, std::size_t most, Work work)
      : most_(most), work_(std::move(work)), mutex_(scheduler.mutex()) {}

  std::vector<Answer> submit(std::vector<Item> items) {
    Caller me{.items = std::move(items)};
    std::unique_lock lock(*mutex_);
    callers_.push_back(&me);
    if (leading_) {
      me.condition = mutex_->condition();
      while (!me.done && !me.leads) me.condition->wait();
      if (me.done) return std::move(me.answers);
    }
    leading_ = true;
    const std::vector<Caller*> batch = gather();
    lock.unlock();
    run(batch);
    lock.lock();
    for (Caller* caller : batch) {
      caller->done = true;
      if (caller != &me) caller->condition->notify_one();
    }
    leading_ = !callers_.empty();
    if (leading_) {
      callers_.front()->leads = true;
      callers_.front()->condition->notify_one();
    }
    return std::move(me.answers);
  }

 private:
  struct Caller {
    std::vector<Item> items;
    std::vector<Answer> answers{};
    std::unique_ptr<Condition> condition{};
    bool done = false;
    bool leads = false;
  };

  // Takes the leader, which is the first caller, and as many callers behind it as fit.
  std::vector<Caller*> gather() {
    std::vector<Caller*> batch;
    std::size_t size = 0;
    while (!callers_.empty() && (batch.empty() || size + callers_.front()->items.size() <= most_)) {
      size += callers_.front()->items.size();
      batch.push_back(callers_.front());
      callers_.pop_front();
    }
    return batch;
  }

  void run(const std::vector<Caller*>& batch) {
    if (batch.size() == 1) {
      batch[0]->answers = work_(batch[0]->items);
      return;
    }
    std::vector<Item> items;
    for (Caller* caller : batch)
      items.insert(items.end(), std::make_move_iterator(caller->items.begin()),
                   std::make_move_iterator(caller->items.end()));
    std::vector<Answer> answers = work_(items);
    auto next = answers.begin();
    for (Caller* caller : batch) {
      const auto end = next + static_cast<std::ptrdiff_t>(caller->items.size());
      caller->answers.assign(std::make_move_iterator(next), std::make_move_iterator(end));
      next = end;
    }
  }

  const std::size_t most_;
  const Work work_;
  const std::unique_ptr<Mutex> mutex_;
  std::deque<Caller*> callers_;  // under mutex_
  bool leading_ = false;         // under mutex_: a caller runs a batch or was told to run one
};

}  // namespace once::engine
