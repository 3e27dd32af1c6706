#include "store/nats/zone_clock.h"

#include <algorithm>

namespace once::store::nats {
namespace {

using std::chrono::steady_clock;

// Two clocks drift apart: ask again after this long.
constexpr std::chrono::seconds kAskEvery{10};
constexpr std::string_view kStamp = "Once-Stamp";

}  // namespace

StoreTime ZoneClock::now() {
  if (given_) {
    const std::lock_guard lock(mutex_);
    last_ = std::max(last_, StoreTime{given_->now().time_since_epoch()});
    return last_;
  }
  bool ask = false;
  {
    const std::lock_guard lock(mutex_);
    ask = told_at_ == steady_clock::time_point{} || steady_clock::now() - told_at_ > kAskEvery;
  }
  const auto told = ask ? ask_() : std::nullopt;
  const std::lock_guard lock(mutex_);
  if (told) {
    told_ = StoreTime{told->time_since_epoch()};
    told_at_ = steady_clock::now();
  }
  const auto since = steady_clock::now() - told_at_;
  last_ = std::max(last_, told_ + std::chrono::floor<Duration>(since));
  return last_;
}

Time ZoneClock::wall() const {
  return given_ ? given_->now() : std::chrono::floor<Duration>(std::chrono::system_clock::now());
}

void ZoneClock::at_least(StoreTime seen) {
  const std::lock_guard lock(mutex_);
  last_ = std::max(last_, seen);
}

void ZoneClock::stamp(Headers& headers) {
  if (given_) headers.emplace_back(kStamp, std::to_string(now().time_since_epoch().count()));
}

StoreTime ZoneClock::stamp_of(const StreamMessage& message) const {
  const std::string* header = given_ ? message.header(kStamp) : nullptr;
  if (header) return StoreTime{Duration{std::strtoll(header->c_str(), nullptr, 10)}};
  return StoreTime{message.time.time_since_epoch()};
}

}  // namespace once::store::nats
