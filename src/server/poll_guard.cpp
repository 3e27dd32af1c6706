#include "server/poll_guard.h"

#include <chrono>
#include <utility>

#include "server/problem.h"

namespace once::server {
namespace {

constexpr std::chrono::milliseconds kLook{250};

}  // namespace

class PollGuard::Place : public Wait {
 public:
  Place(PollGuard& guard, std::map<std::string, Ends>::iterator token, Ends::iterator at,
        std::unique_ptr<Wait> inner)
      : guard_(guard), token_(token), at_(at), inner_(std::move(inner)) {}
  ~Place() override {
    const std::lock_guard lock(guard_.mutex_);
    token_->second.erase(at_);
    if (token_->second.empty()) guard_.waiting_.erase(token_);
  }
  void finish() override { inner_->finish(); }

 private:
  PollGuard& guard_;
  const std::map<std::string, Ends>::iterator token_;
  const Ends::iterator at_;
  const std::unique_ptr<Wait> inner_;
};

Answer PollGuard::guarded(Answer answer, const std::string& hash) {
  if (auto* parked = std::get_if<Parked>(&answer); parked && parked->ends_with_token)
    return Parked{.limit = parked->limit,
                  .begin = [this, hash, begin = std::move(parked->begin)](AnswerWith give) {
                    const End end = [give](const Error& why) { give(problem(why)); };
                    return guard(hash, end, begin(std::move(give)));
                  }};
  if (auto* streamed = std::get_if<Streamed>(&answer))
    return Streamed{.type = streamed->type,
                    .begin = [this, hash, begin = std::move(streamed->begin)](SendMore send) {
                      const End end = [send](const Error&) { send({}); };
                      return guard(hash, end, begin(std::move(send)));
                    }};
  return answer;
}

std::unique_ptr<Wait> PollGuard::guard(const std::string& hash, End end,
                                       std::unique_ptr<Wait> inner) {
  const std::lock_guard lock(mutex_);
  const auto token = waiting_.try_emplace(hash).first;
  const auto at = token->second.insert(token->second.end(), std::move(end));
  changed_.notify_one();
  return std::make_unique<Place>(*this, token, at, std::move(inner));
}

void PollGuard::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (waiting_.empty()) {
      changed_.wait(lock, stop, [&] { return !waiting_.empty(); });
      continue;
    }
    end_refused();
    changed_.wait_for(lock, stop, kLook, [] { return false; });
  }
}

// A request stays in the list until its connection takes the answer.
void PollGuard::end_refused() {
  for (const auto& [hash, ends] : waiting_) {
    const auto still = tokens_.find(hash);
    if (still) continue;
    for (const End& end : ends) end(still.error());
  }
}

}  // namespace once::server
