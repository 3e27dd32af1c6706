// The store's time: one line per zone that never goes back, whatever wall clocks do. Within a boot
// it runs with CLOCK_BOOTTIME; a new boot goes on where the last write of the one before left off,
// so that the time in between is not counted and every stamp of an earlier boot can be told by it.
// A process in a time namespace counts by the machine's clock, like everybody else.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "core/types.h"
#include "once/zone.h"

namespace once::store::sqlite {

// A boot that cannot be told from others by its id.
inline constexpr const char* kUnknownBoot = "?";

// As the zone's row holds it.
struct BootTime {
  std::string boot_id{};
  std::int64_t base{};     // store time when the boot was first seen
  std::int64_t boot_at{};  // CLOCK_BOOTTIME then
  std::int64_t last{};     // store time of the last write
};

// Any thread may call.
class ZoneClock {
 public:
  // No clock and an empty boot id: the machine's.
  ZoneClock(std::shared_ptr<Clock> clock, std::string boot_id);

  core::StoreTime now();
  Time wall() const;
  core::StoreTime boot_began();  // what is stamped before it was written in an earlier boot
  bool is_given() const { return clock_ != nullptr; }
  bool boot_known() const;  // the boot has an id that says something

  // Error: the clock of this process says nothing of the machine's, and must not be used.
  Result<void> usable();

  // Whether the row may be of this boot: by the ids, or by the clock where an id is not known.
  bool this_boot(const BootTime& time);
  // The first writer of a boot makes the row say so.
  void begin_boot(BootTime& time);
  // With a row of this boot, before a write. A row that is ahead of the clock goes on from there.
  void go_on(BootTime& time);
  // Goes by the row from now on, which is of this boot.
  void follow(const BootTime& time);

 private:
  std::int64_t since_boot();

  const std::shared_ptr<Clock> clock_;  // shared with whoever moves it; null: the machine's
  const std::string boot_id_;
  std::mutex mutex_;
  std::int64_t base_ = 0;  // guarded by mutex_, like all below
  std::int64_t boot_at_ = 0;
  std::int64_t last_ = 0;  // the latest time told or read
  std::int64_t told_ = 0;  // what CLOCK_BOOTTIME said last, in nanoseconds
  std::int64_t since_boot_ = 0;
  Result<std::int64_t> ahead_ = 0;  // of told_, before the machine's own
};

}  // namespace once::store::sqlite
