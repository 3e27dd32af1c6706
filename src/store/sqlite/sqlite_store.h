// The default store: one SQLite file that any number of processes on this machine share. Next to
// `PATH` are `PATH-lock` (the writers' lock), `PATH-members` (the locks of live workers) and
// SQLite's own `PATH-wal` and `PATH-shm`. Other programs must not write to the file or checkpoint
// it. store_impl.h declares the store; database.h runs its transactions.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "once/zone.h"
#include "store/store.h"

namespace once::store {

struct SqliteOptions {
  std::filesystem::path path{};
  bool create = true;              // if false, a missing database is not_found
  std::shared_ptr<Clock> clock{};  // shared with the caller that moves it; null: the machine's
  Duration lock_wait{10'000};      // how long a write waits for its turn
  bool allow_unsafe = false;       // also opens a database with a second name, for doctor()
  std::string boot_id{};  // of the boot that this is; empty: what the machine says; "?": not known
};

Result<std::unique_ptr<Store>> open_sqlite(const SqliteOptions& options);

}  // namespace once::store
