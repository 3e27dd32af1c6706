// The baseline on SQLite: bare SQL in a file beside the zone's, so on the same disk.
#pragma once

#include <filesystem>
#include <memory>

#include "tooling/bare_store_baseline.h"

namespace once::store {

// `zone` is the zone's database.
Result<std::unique_ptr<BareStoreBaseline>> open_bare_sql(const std::filesystem::path& zone);

}  // namespace once::store
