#include "store/sqlite/zone_clock.h"

#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include <algorithm>
#include <fstream>

#include "store/sqlite/failure.h"
#include "store/sqlite/file_system.h"

namespace once::store::sqlite {
namespace {

constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";
constexpr unsigned long kProcFileSystem = 0x9fa0;
constexpr ino_t kFirstTimeNamespace = 0xEFFFFFFA;  // of the kernel's proc_ns.h
constexpr std::int64_t kSecond = 1'000'000'000;    // in nanoseconds, like all times here
constexpr std::int64_t kMillisecond = 1'000'000;
// Within less than that a process may be moved to another time namespace unseen.
constexpr std::int64_t kJump = 2 * kSecond;

// Containers may mount a boot id of their own over the kernel's. That one says nothing of the machine.
std::string machine_boot_id() {
  struct statfs system {};
  if (statfs(kBootId, &system) != 0 ||
      static_cast<unsigned long>(system.f_type) != kProcFileSystem || mounted_alone(kBootId))
    return kUnknownBoot;
  std::ifstream file(kBootId);
  std::string id;
  return std::getline(file, id) && !id.empty() ? id : kUnknownBoot;
}

bool known(const std::string& boot_id) { return !boot_id.empty() && boot_id != kUnknownBoot; }

// How far CLOCK_BOOTTIME of this process is ahead of the machine's.
Result<std::int64_t> ahead_of_machine() {
  struct stat own {};
  struct stat of_children {};
  if (stat("/proc/self/ns/time", &own) != 0) {
    struct stat folder {};
    if (stat("/proc/self/ns", &folder) == 0) return 0;  // the kernel has no time namespaces
    return unusable(
        "/proc cannot be read, so the time since the machine's start is not known: nothing was "
        "done; mount /proc");
  }
  if (own.st_ino == kFirstTimeNamespace) return 0;
  // The offsets that /proc shows are those of programs that are started from here.
  if (stat("/proc/self/ns/time_for_children", &of_children) == 0 &&
      of_children.st_ino == own.st_ino) {
    std::ifstream offsets("/proc/self/timens_offsets");
    std::string clock;
    for (std::int64_t seconds = 0, rest = 0; offsets >> clock >> seconds >> rest;)
      if (clock == "boottime" || clock == std::to_string(CLOCK_BOOTTIME))
        return seconds * kSecond + rest;
  }
  return unusable(
      "this process is in a time namespace whose offset cannot be read: nothing was done; run it "
      "in the machine's own time namespace");
}

}  // namespace

ZoneClock::ZoneClock(std::shared_ptr<Clock> clock, std::string boot_id)
    : clock_(std::move(clock)),
      boot_id_(!boot_id.empty() ? std::move(boot_id)
               : clock_         ? "virtual"
                                : machine_boot_id()) {}

bool ZoneClock::boot_known() const { return known(boot_id_); }

// In milliseconds, of the machine. With mutex_ held.
std::int64_t ZoneClock::since_boot() {
  if (clock_) return clock_->now().time_since_epoch().count();
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  const std::int64_t told = std::int64_t{time.tv_sec} * kSecond + time.tv_nsec;
  if (told < told_ || told > told_ + kJump || !ahead_) ahead_ = ahead_of_machine();
  told_ = told;
  // A clock that cannot be understood stands still.
  if (ahead_) since_boot_ = (told - *ahead_) / kMillisecond;
  return since_boot_;
}

Result<void> ZoneClock::usable() {
  const std::lock_guard lock(mutex_);
  since_boot();
  if (!ahead_) return ahead_.error();
  return {};
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

bool ZoneClock::this_boot(const BootTime& time) {
  if (known(boot_id_) && known(time.boot_id)) return time.boot_id == boot_id_;
  // Only a clock that is behind the last write proves another boot. If it was one all the same, the
  // store's time counts less than has passed, and leases of that boot end by time.
  const std::lock_guard lock(mutex_);
  return since_boot() >= time.boot_at + (time.last - time.base);
}

void ZoneClock::begin_boot(BootTime& time) {
  const std::lock_guard lock(mutex_);
  time.boot_id = boot_id_;
  time.base = ++time.last;
  time.boot_at = since_boot();
}

void ZoneClock::go_on(BootTime& time) {
  const std::lock_guard lock(mutex_);
  if (!known(time.boot_id)) time.boot_id = boot_id_;
  const std::int64_t behind = time.last - (time.base + since_boot() - time.boot_at);
  if (behind > 0) time.boot_at -= behind;
}

void ZoneClock::follow(const BootTime& time) {
  const std::lock_guard lock(mutex_);
  base_ = time.base;
  boot_at_ = time.boot_at;
  last_ = std::max(last_, time.last);
}

}  // namespace once::store::sqlite
