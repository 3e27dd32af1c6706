// SQLite's default file system in this process: files are on a Disk, locks and shared memory in the
// process. What is asked of the disk and when is what SQLite's own layer for Unix asks.
#pragma once

#include <string>

#include "power/disk.h"

namespace once::power {

// While it lives, everything that SQLite opens is on that disk. One at a time; close what was opened
// before it goes. Not for two threads.
class DiskVfs {
 public:
  // `synchronous`: what connections get, whatever they ask for; empty: what they ask for.
  explicit DiskVfs(Disk& disk, std::string synchronous = {});
  DiskVfs(const DiskVfs&) = delete;
  DiskVfs& operator=(const DiskVfs&) = delete;
  ~DiskVfs();
};

}  // namespace once::power
