#include "store/sqlite/zone_clock.h"

#include <time.h>

#include <algorithm>
#include <fstream>

namespace once::store::sqlite {
namespace {

std::string machine_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace

ZoneClock::ZoneClock(std::shared_ptr<Clock> clock, std::string boot_id)
    : clock_(std::move(clock)),
      boot_id_(!boot_id.empty() ? std::move(boot_id)
               : clock_         ? "virtual"
                                : machine_boot_id()) {}

std::int64_t ZoneClock::since_boot() const {
  if (clock_) return clock_->now().time_since_epoch().count();
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

core::StoreTime ZoneClock::now() {
  const std::lock_guard lock(mutex_);
  last_ = std::max(last_, base_ + since_boot() - boot_at_);
  return core::StoreTime{Duration{last_}};
}

Time ZoneClock::wall() const {
  return clock_ ? clock_->now() : std::chrono::floor<Duration>(std::chrono::system_clock::now());
}

core::StoreTime ZoneClock::boot_began() {
  const std::lock_guard lock(mutex_);
  return core::StoreTime{Duration{base_}};
}

void ZoneClock::begin_boot(BootTime& time) {
  time.boot_id = boot_id_;
  time.base = ++time.last;
  time.boot_at = since_boot();
}

void ZoneClock::follow(const BootTime& time) {
  const std::lock_guard lock(mutex_);
  base_ = time.base;
  boot_at_ = time.boot_at;
  last_ = std::max(last_, time.last);
}

}  // namespace once::store::sqlite
