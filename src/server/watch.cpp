#include "server/watch.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "server/problem.h"

namespace once::server {
namespace {

using std::chrono::steady_clock;

constexpr Duration kFirstPause{5};
constexpr Duration kLongestPause{500};

}  // namespace

class Watch::Entry : public Wait {
 public:
  Entry(Watch& watch, std::shared_ptr<Waiting> waiting)
      : watch_(watch), waiting_(std::move(waiting)) {}
  ~Entry() override { watch_.leave(waiting_); }
  void finish() override { watch_.finish(waiting_); }

 private:
  Watch& watch_;
  const std::shared_ptr<Waiting> waiting_;  // shared with the line
};

Parked Watch::parked(Duration limit, Look look) {
  return {.limit = limit, .begin = [this, look = std::move(look)](AnswerWith answer) {
            auto waiting = std::make_shared<Waiting>(
                Waiting{.look = look, .answer = std::move(answer), .pause = kFirstPause});
            auto entry = std::make_unique<Entry>(*this, waiting);
            const std::lock_guard lock(mutex_);
            put(std::move(waiting), steady_clock::now());
            return entry;
          }};
}

bool Watch::take(const std::shared_ptr<Waiting>& waiting) {
  const auto [first, last] = line_.equal_range(waiting->at);
  const auto found =
      std::find_if(first, last, [&](const auto& each) { return each.second == waiting; });
  if (found == last) return false;
  line_.erase(found);
  return true;
}

void Watch::put(std::shared_ptr<Waiting> waiting, Moment at) {
  waiting->at = at;
  const bool sooner = line_.empty() || at < line_.begin()->first;
  line_.emplace(at, std::move(waiting));
  if (sooner) changed_.notify_one();
}

void Watch::finish(const std::shared_ptr<Waiting>& waiting) {
  const std::lock_guard lock(mutex_);
  waiting->last = true;
  if (take(waiting)) put(waiting, steady_clock::now());
}

void Watch::leave(const std::shared_ptr<Waiting>& waiting) {
  const std::lock_guard lock(mutex_);
  waiting->gone = true;
  take(waiting);
}

// A look that throws must not end the thread.
std::optional<Response> Watch::look(const Waiting& waiting, bool last) {
  try {
    return waiting.look(last);
  } catch (const std::exception& error) {
    return problem({.code = Code::failed, .message = error.what()});
  }
}

void Watch::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (line_.empty()) {
      changed_.wait(lock, stop, [&] { return !line_.empty(); });
      continue;
    }
    if (const Moment next = line_.begin()->first; next > steady_clock::now()) {
      changed_.wait_until(lock, stop, next,
                          [&] { return line_.empty() || line_.begin()->first < next; });
      continue;
    }
    const auto waiting = line_.extract(line_.begin()).mapped();
    const bool last = waiting->last;
    lock.unlock();
    auto response = look(*waiting, last);
    if (response) waiting->answer(std::move(*response));
    lock.lock();
    if (response || waiting->gone) continue;
    put(waiting, steady_clock::now() + (waiting->last ? Duration{0} : waiting->pause));
    waiting->pause = std::min(waiting->pause * 2, kLongestPause);
  }
}

}  // namespace once::server
