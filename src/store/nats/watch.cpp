#include "store/nats/watch.h"

#include <algorithm>

namespace once::store::nats {
namespace {

// Between looks that are asked for; also how long what is missing must be missing.
constexpr Duration kBetweenLooks{500};

}  // namespace

Watch::~Watch() { exchange_.guard(nullptr); }

void Watch::begin(Identity known, Duration every, std::function<void()> found) {
  known_ = std::move(known);
  trouble_ = known_.trouble;
  every_ = every;
  found_ = std::move(found);
  exchange_.guard([this] {
    const std::lock_guard lock(mutex_);
    asked_ = true;
    changed_.notify_all();
  });
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Result<void> Watch::may_begin() const {
  const std::lock_guard lock(mutex_);
  if (trouble_) return *trouble_;
  return {};
}

void Watch::run(const std::stop_token& stop) {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const Duration wait = trouble_ ? std::min(every_, 2 * kBetweenLooks) : every_;
      changed_.wait_for(lock, stop, wait, [&] { return asked_; });
      if (stop.stop_requested()) return;
      asked_ = false;
    }
    const std::uint64_t connection = exchange_.connection();
    if (connection == 0) continue;  // it is heard of when it is back
    auto finding = look(connection, stop);
    if (!finding) continue;
    bool news = false;
    {
      const std::lock_guard lock(mutex_);
      news = finding->has_value() != trouble_.has_value();
      trouble_.reset();
      if (*finding) trouble_ = (*finding)->error;
    }
    const bool another = *finding && !(*finding)->ours;
    exchange_.admit(connection, another ? std::optional((*finding)->error) : std::nullopt);
    if (news) found_();
    pause(kBetweenLooks, stop);
  }
}

// Until it is known; an error: the connection is another one by now, or none. A cluster that is choosing leaders may not know its own streams for a moment:
// what is not ours any more is so only when it stays so.
Result<std::optional<Trouble>> Watch::look(std::uint64_t connection, const std::stop_token& stop) {
  bool again = false;
  while (!stop.stop_requested() && exchange_.connection() == connection) {
    auto finding = examine(jet_, subjects_, known_);
    if (finding && (!*finding || (*finding)->ours || again)) return finding;
    again = static_cast<bool>(finding);
    pause(kBetweenLooks, stop);
  }
  return Error{.code = Code::store_unavailable, .message = "the connection was lost"};
}

void Watch::pause(Duration time, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, stop, time, [] { return false; });
}

}  // namespace once::store::nats
