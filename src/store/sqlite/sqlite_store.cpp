#include "store/sqlite/sqlite_store.h"

#include "store/sqlite/store_impl.h"

namespace once::store {

Result<std::unique_ptr<Store>> open_sqlite(const SqliteOptions& options) {
  auto database = sqlite::Database::open(options);
  if (!database) return database.error();
  return std::unique_ptr<Store>(std::make_unique<sqlite::SqliteStore>(std::move(*database)));
}

}  // namespace once::store
