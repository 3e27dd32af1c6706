#include "store/nats/watch.h"

#include <algorithm>

#include "store/nats/marks.h"

namespace once::store::nats {
namespace {

// Between looks that are asked for; also how long what is missing must be missing.
constexpr Duration kBetweenWatchLooks{500};
constexpr int kMarksLive = 2;  // rounds, until the marks are moved

void raise_to(std::uint64_t& value, std::uint64_t least) { value = std::max(value, least); }

}  // namespace

Watch::~Watch() { mux_.set_connection_check(nullptr); }

void Watch::note_worker() { worked_ = true; }

void Watch::begin(Identity known, Duration every, std::function<void()> found) {
  known_ = std::move(known);
  trouble_ = known_.trouble;
  uuid_ = known_.uuid;
  sealed_ = known_.sealed;
  every_ = every;
  found_ = std::move(found);
  mux_.set_connection_check([this] {
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

void Watch::watch_values(std::string created, std::uint64_t last) {
  note_value(last);
  const std::lock_guard lock(mutex_);
  values_created_ = std::move(created);
}

Result<void> Watch::values_are_whole() const {
  const std::lock_guard lock(mutex_);
  if (trouble_ && trouble_->values) return trouble_->error;
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
  const auto sealed = ledger_is_sealed(client_, subjects_, uuid_);
  if (!sealed) return sealed.error();
  if (*sealed) return {};
  Error error = stream_emptied(subjects_, subjects_.ledger_stream());
  {
    const std::lock_guard lock(mutex_);
    trouble_ = {.error = error, .ours = true, .emptied = true};
    asked_ = true;
    changed_.notify_all();
  }
  found_();
  return error;
}

Result<void> Watch::has_its_uuid() {
  auto same = check_uuid(client_, subjects_, uuid_);
  if (!same) {
    const std::lock_guard lock(mutex_);
    asked_ = true;
    changed_.notify_all();
  }
  return same;
}

void Watch::run(const std::stop_token& stop) {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const Duration wait = trouble_ ? std::min(every_, 2 * kBetweenWatchLooks) : every_;
      changed_.wait_for(lock, stop, wait, [&] { return asked_; });
      asked_ = false;
    }
    if (stop.stop_requested()) return leave();
    const std::uint64_t connection = mux_.connection();
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
    mux_.admit(connection, another ? std::optional((*finding)->error) : std::nullopt);
    if (news) found_();
    pause(kBetweenWatchLooks, stop);
  }
}

// A worker that ends marks what it leaves.
void Watch::leave() {
  if (!worked_ || !may_begin() || mux_.connection() == 0) return;
  know_own_writes();
  static_cast<void>(examine(client_, subjects_, known_, Duration{1}));
}

void Watch::know_own_writes() {
  raise_to(known_.last[subjects_.ledger_stream()], last_record_);
  raise_to(known_.last[subjects_.log_stream()], last_task_);
  const std::lock_guard lock(mutex_);
  if (values_created_.empty()) return;
  known_.created.emplace(subjects_.kv_stream(), values_created_);
  raise_to(known_.last[subjects_.kv_stream()], last_value_);
}

// Until it is known; an error: the connection is another one by now, or none. A cluster that is choosing
// leaders may not know its own streams for a moment: what is not ours any more is so only when it stays so.
Result<std::optional<Trouble>> Watch::look(std::uint64_t connection, const std::stop_token& stop) {
  bool again = false;
  while (!stop.stop_requested() && mux_.connection() == connection) {
    know_own_writes();
    auto finding = examine(client_, subjects_, known_, worked_ ? kMarksLive * every_ : Duration{0});
    const bool edit = finding && *finding && (*finding)->ours && !(*finding)->emptied;
    if (finding && (!*finding || edit || again)) return finding;
    again = static_cast<bool>(finding);
    pause(kBetweenWatchLooks, stop);
  }
  return Error{.code = Code::store_unavailable, .message = "the connection was lost"};
}

void Watch::pause(Duration time, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, stop, time, [] { return false; });
}

}  // namespace once::store::nats
