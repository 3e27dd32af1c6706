#include "store/nats/watch.h"

#include <algorithm>

#include "store/nats/marks.h"

namespace once::store::nats {
namespace {

// Between looks that are asked for; also how long what is missing must be missing.
constexpr Duration kBetweenLooks{500};
constexpr int kMarksLive = 2;  // rounds, until the marks are moved

}  // namespace

Watch::~Watch() { exchange_.guard(nullptr); }

void Watch::note_worker() { worked_ = true; }

void Watch::begin(Identity known, Duration every, std::function<void()> found) {
  known_ = std::move(known);
  trouble_ = known_.trouble;
  uuid_ = known_.uuid;
  sealed_ = known_.sealed;
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
  if (trouble_) return trouble_->error;
  return {};
}

std::optional<Error> Watch::lost() const {
  const std::lock_guard lock(mutex_);
  return trouble_ && trouble_->emptied ? std::optional(trouble_->error) : std::nullopt;
}

Result<void> Watch::ledger_is_whole() {
  {
    const std::lock_guard lock(mutex_);
    if (trouble_) return trouble_->error;
    if (!sealed_) return {};
  }
  const auto sealed = ledger_is_sealed(jet_, subjects_, uuid_);
  if (!sealed) return sealed.error();
  if (*sealed) return {};
  Error error = ledger_emptied(subjects_);
  {
    const std::lock_guard lock(mutex_);
    trouble_ = {.error = error, .ours = true, .emptied = true};
    asked_ = true;
    changed_.notify_all();
  }
  found_();
  return error;
}

void Watch::run(const std::stop_token& stop) {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const Duration wait = trouble_ ? std::min(every_, 2 * kBetweenLooks) : every_;
      changed_.wait_for(lock, stop, wait, [&] { return asked_; });
      asked_ = false;
    }
    if (stop.stop_requested()) return leave();
    const std::uint64_t connection = exchange_.connection();
    if (connection == 0) continue;  // it is heard of when it is back
    auto finding = look(connection, stop);
    if (!finding) continue;
    bool news = false;
    {
      const std::lock_guard lock(mutex_);
      news = finding->has_value() != trouble_.has_value();
      trouble_ = *finding;
      sealed_ = known_.sealed;
    }
    const bool another = *finding && !(*finding)->ours;
    exchange_.admit(connection, another ? std::optional((*finding)->error) : std::nullopt);
    if (news) found_();
    pause(kBetweenLooks, stop);
  }
}

// A worker that ends marks what it leaves.
void Watch::leave() {
  if (worked_ && may_begin() && exchange_.connection() != 0)
    static_cast<void>(examine(jet_, subjects_, known_, Duration{1}));
}

// Until it is known; an error: the connection is another one by now, or none. A cluster that is choosing leaders may not know its own streams for a moment:
// what is not ours any more is so only when it stays so.
Result<std::optional<Trouble>> Watch::look(std::uint64_t connection, const std::stop_token& stop) {
  bool again = false;
  while (!stop.stop_requested() && exchange_.connection() == connection) {
    auto finding = examine(jet_, subjects_, known_, worked_ ? kMarksLive * every_ : Duration{0});
    const bool edit = finding && *finding && (*finding)->ours && !(*finding)->emptied;
    if (finding && (!*finding || edit || again)) return finding;
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
