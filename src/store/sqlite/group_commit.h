// Lets the threads of a Database share transactions, because a sync costs more than most writes.
//
//   join:  a call that may share a transaction. It waits until another call takes it along. If no
//          other call of join() leads, it leads.
//   lead:  takes the write lock, runs the waiting calls in the order of their arrival, then its own.
//
// what fails                     the leader                     the calls that it took along
// a call that was taken along    runs alone                     run alone, each on its own thread
// the leader's work, or COMMIT   returns the error; a call of   run alone
//                                join() runs alone
// COMMIT, outcome unknown        returns the error              return the error
// the write lock                 returns the error              wait for the lock themselves
//
// So the work of join() may run twice, on any thread. The work of lead() runs once.
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

  // `work` must change only the database and its own answer.
  Result<void> join(const Work& work);
  Result<void> lead(const Work& work) { return lead(work, Again::no); }

 private:
  enum class Again { no, yes };  // whether the leader's work may run a second time
  struct Waiting {
    const Work& work;
    std::condition_variable changed{};
    std::optional<Result<void>> done{};
    bool leads = false;
    bool alone = false;  // it must run in a transaction of its own
  };

  Result<void> lead(const Work& work, Again again);
  void pass_on();  // lets the next waiting call lead
  std::vector<Waiting*> take_along();
  void end(const std::vector<Waiting*>& calls, const Result<void>& done);
  void leave_alone(const std::vector<Waiting*>& calls);
  void leave_all_alone();

  const Run run_;
  std::mutex mutex_;
  std::deque<Waiting*> waiting_;  // under mutex_; without the call that leads
  bool leading_ = false;          // under mutex_: a call of join() leads; lead() does not set it
};

}  // namespace once::store::sqlite
