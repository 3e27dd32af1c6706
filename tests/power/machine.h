// One time that a machine is on: a disk, and a zone on it that one thread uses under a clock that
// only moves when told to. What is random comes from a seed, so that a life can be repeated.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "once/once.h"
#include "once/testing.h"
#include "power/disk.h"
#include "power/disk_vfs.h"
#include "store/store.h"

namespace once::power {

struct MachineOptions {
  DiskOptions disk{};
  std::string synchronous{};  // see DiskVfs
  std::string boot_id{};
};

class Machine {
 public:
  // Lock files are real ones, in that folder.
  Machine(std::filesystem::path folder, const Image& image, MachineOptions options);
  ~Machine();

  // The zone, as every process finds it that is started here.
  Result<void> open();
  void close();
  Zone& zone() { return *zone_; }
  store::Store& store() { return *store_; }
  Disk& disk() { return disk_; }
  void pass(Duration time) { clock_->advance(time); }
  // What SQLite itself says of the file; "ok" when nothing is wrong.
  std::string integrity();

 private:
  std::filesystem::path path() const { return folder_ / "zone.db"; }
  void show_file();

  const std::filesystem::path folder_;
  const std::string boot_id_;
  Disk disk_;
  DiskVfs vfs_;
  std::shared_ptr<testing::VirtualClock> clock_;
  std::optional<Zone> zone_;
  store::Store* store_ = nullptr;  // the zone's
};

}  // namespace once::power
