#include "store/sqlite/group_commit.h"

#include <algorithm>

#include "store/sqlite/failure.h"

namespace once::store::sqlite {
namespace {

constexpr std::size_t kTakenAlong = 32;  // calls per transaction

// A call that was taken along ended by an exception. It meets that exception again when it runs alone.
Error stopped_by_another_call() {
  return {.code = Code::failed,
          .message = "another call of the same transaction failed; nothing was written"};
}

Error unknown_outcome() {
  return {
      .code = Code::outcome_unknown,
      .message = "the transaction ended by an exception: it is not known whether it was written",
      .in_doubt = true};
}

}  // namespace

Result<void> GroupCommit::join(const Work& work) {
  bool alone = false;
  {
    std::unique_lock lock(mutex_);
    if (leading_) {
      Waiting me{.work = work};
      waiting_.push_back(&me);
      me.changed.wait(lock, [&] { return me.done || me.leads || me.alone; });
      if (me.done) return std::move(*me.done);
      alone = me.alone;
    }
    if (!alone) leading_ = true;
  }
  if (alone) return run_(work);
  try {
    Result<void> done = lead(work, Again::yes);
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

Result<void> GroupCommit::lead(const Work& work, Again again) {
  std::vector<Waiting*> along;
  bool open = false;     // the transaction was opened
  bool has_run = false;  // `work` was called
  Result<void> done;
  try {
    done = run_([&](WriteTransaction& transaction) {
      open = true;
      along = take_along();
      for (const Waiting* const call : along) try {
          call->work(transaction);
        } catch (const Failure&) {
          throw;
        } catch (...) {
          throw Failure(stopped_by_another_call());
        }
      has_run = true;
      work(transaction);
    });
  } catch (...) {  // such as bad_alloc: no other call may wait for ever
    if (has_run)
      end(along, unknown_outcome());
    else
      leave_alone(along);
    throw;
  }
  if (!open) leave_all_alone();
  if (along.empty()) return done;
  if (done || done.error().in_doubt) {
    end(along, done);
    return done;
  }
  // Nothing was written. The call that failed must not fail the others.
  leave_alone(along);
  return has_run && again == Again::no ? done : run_(work);
}

std::vector<GroupCommit::Waiting*> GroupCommit::take_along() {
  const std::lock_guard lock(mutex_);
  const auto end =
      waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kTakenAlong));
  std::vector<Waiting*> calls(waiting_.begin(), end);
  waiting_.erase(waiting_.begin(), end);
  return calls;
}

// A waiting thread may destroy its call as soon as the lock is free.
void GroupCommit::end(const std::vector<Waiting*>& calls, const Result<void>& done) {
  const std::lock_guard lock(mutex_);
  for (Waiting* const call : calls) {
    call->done = done;
    call->changed.notify_one();
  }
}

void GroupCommit::leave_alone(const std::vector<Waiting*>& calls) {
  const std::lock_guard lock(mutex_);
  for (Waiting* const call : calls) {
    call->alone = true;
    call->changed.notify_one();
  }
}

// The lock is held elsewhere for long. Behind one another, the waiting calls would wait for it in turn.
void GroupCommit::leave_all_alone() {
  const std::lock_guard lock(mutex_);
  for (Waiting* const call : waiting_) {
    call->alone = true;
    call->changed.notify_one();
  }
  waiting_.clear();
}

}  // namespace once::store::sqlite
