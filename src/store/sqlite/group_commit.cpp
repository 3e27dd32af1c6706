#include "store/sqlite/group_commit.h"

#include <algorithm>

namespace once::store::sqlite {
namespace {

constexpr std::size_t kTakenAlong = 32;  // calls per transaction

}  // namespace

Result<void> GroupCommit::join(const Work& work) {
  {
    std::unique_lock lock(mutex_);
    if (leading_) {
      Waiting me{.work = work};
      waiting_.push_back(&me);
      me.changed.wait(lock, [&] { return me.done || me.leads; });
      if (me.done) return std::move(*me.done);
    }
    leading_ = true;
  }
  try {
    Result<void> done = lead(work);
    pass_on();
    return done;
  } catch (...) {
    pass_on();
    throw;
  }
}

void GroupCommit::pass_on() {
  const std::lock_guard lock(mutex_);
  leading_ = !waiting_.empty();
  if (!leading_) return;
  waiting_.front()->leads = true;
  waiting_.front()->changed.notify_one();
  waiting_.pop_front();
}

Result<void> GroupCommit::lead(const Work& work) {
  std::vector<Waiting*> along;
  bool open = false;     // the transaction was opened
  bool has_run = false;  // `work` was called
  const auto together = [&]() -> Result<void> {
    try {
      return run_([&](WriteTransaction& transaction) {
        open = true;
        along = take_along();
        for (const Waiting* const call : along) call->work(transaction);
        has_run = true;
        work(transaction);
      });
    } catch (...) {  // no memory, say; the waiting calls must not wait for ever
      end(along,
          Error{.code = Code::failed,
                .message = "another call of the same transaction failed unexpectedly; nothing was "
                           "written; the same call again is safe",
                .retryable = true});
      throw;
    }
  };
  const Result<void> done = together();
  // Without the lock or the database, the waiting calls would fail too, one after the other.
  if (!open) along = take_along();
  if (along.empty()) return done;
  if (done || !open || done.error().in_doubt) {
    end(along, done);
    return done;
  }
  // Nothing was written. The call that failed must not fail the others.
  const Result<void> mine = has_run ? done : run_(work);
  for (Waiting* const call : along) end(*call, run_(call->work));
  return mine;
}

std::vector<GroupCommit::Waiting*> GroupCommit::take_along() {
  const std::lock_guard lock(mutex_);
  const std::size_t count = std::min(waiting_.size(), kTakenAlong);
  std::vector<Waiting*> calls(waiting_.begin(),
                              waiting_.begin() + static_cast<std::ptrdiff_t>(count));
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
  return calls;
}

void GroupCommit::end(const std::vector<Waiting*>& calls, const Result<void>& done) {
  for (Waiting* const call : calls) end(*call, done);
}

// The waiting thread may destroy its call as soon as the lock is free.
void GroupCommit::end(Waiting& call, Result<void> done) {
  const std::lock_guard lock(mutex_);
  call.done = std::move(done);
  call.changed.notify_one();
}

}  // namespace once::store::sqlite
