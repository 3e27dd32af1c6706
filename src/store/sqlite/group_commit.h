// Lets the threads of a process share transactions, because a sync costs more than what it makes durable.
//
//   join:  a call that may share a transaction. It waits until another call takes it along. If no call is
//          on its way to the write lock, it goes there itself.
//   lead:  a call that goes to the write lock. With the lock held, it takes the waiting calls along.
//
// The waiting calls run first, in the order of their arrival. If one of them fails, the transaction is rolled
// back before the leader's own work has run. Then each call gets a transaction of its own. So a call that
// joins may run twice, and the leader's work runs once.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "once/result.h"

namespace once::store::sqlite {

class WriteTransaction;

class GroupCommit {
 public:
  using Work = std::function<void(WriteTransaction&)>;
  // Opens a transaction, calls `body` in it and commits. Returns the error of any of the three.
  using Run = std::function<Result<void>(const Work& body)>;

  explicit GroupCommit(Run run) : run_(std::move(run)) {}

  // `work` may be called twice, on any thread. It must change nothing but the database and its own answer.
  Result<void> join(const Work& work);
  Result<void> lead(const Work& work);

 private:
  struct Waiting {
    const Work& work;
    std::condition_variable changed{};
    std::optional<Result<void>> done{};
    bool leads = false;
  };

  std::vector<Waiting*> take_along();
  void pass_on();  // lets the next waiting call lead
  void end(const std::vector<Waiting*>& calls, const Result<void>& done);
  void end(Waiting& call, Result<void> done);

  const Run run_;
  std::mutex mutex_;
  std::deque<Waiting*> waiting_;  // under mutex_; without the call that leads
  bool leading_ = false;          // under mutex_: a call that could wait goes to the lock itself
};

}  // namespace once::store::sqlite
