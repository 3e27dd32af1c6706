// The default store: one SQLite file that any number of processes on this machine share. Beside
// `PATH` live `PATH-lock` (writers queue on it), `PATH-members` (who is alive) and SQLite's own
// `PATH-wal` and `PATH-shm`. Other programs must not write to or checkpoint the file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "once/zone.h"
#include "store/store.h"

namespace once::store {

struct SqliteOptions {
  std::filesystem::path path{};
  bool create = true;              // false: a missing database is not_found
  std::shared_ptr<Clock> clock{};  // shared with whoever moves it; null: the machine's
  Duration lock_wait{10'000};      // how long a write waits for its turn
  bool as_it_is = false;           // opens also what has a second name, for doctor()
  std::string boot_id{};  // of the boot that this is; empty: what the machine says; "?": not known
};

Result<std::unique_ptr<Store>> open_sqlite(const SqliteOptions& options);

}  // namespace once::store
