// Lets the threads of a Database share transactions, because a sync costs more than most writes.
//
//   join:  a call that may share a transaction. It waits until another call takes it along. If no
//          other call of join() leads, it leads.
//   lead:  takes the write lock, runs the waiting calls in the order of their arrival, then its own.
//
// If a waiting call fails, the transaction is rolled back before the leader's work has run. Then
// each call gets a transaction of its own. If the leader's work or the commit fails, the leader
// returns the error, and each waiting call gets a transaction of its own. So a call that waits may
// run twice, and the leader's work runs once. If the transaction cannot begin, or if the outcome of
// the commit is unknown, every call returns that error.
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
  bool leading_ = false;  // under mutex_: a call of join() leads; a direct lead() does not set it
};

}  // namespace once::store::sqlite
