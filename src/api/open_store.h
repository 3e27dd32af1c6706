// Which store a URL names.
#pragma once

#include <memory>
#include <string_view>

#include "store/store.h"
#include "tooling/bare_store_baseline.h"

namespace once::api {

// Both are implemented in src/open.cpp, the one file that names every store.
Result<std::unique_ptr<store::Store>> open_store(std::string_view url, const OpenOptions& options);
Result<std::unique_ptr<BareStoreBaseline>> open_baseline(std::string_view url,
                                                         const OpenOptions& options);

}  // namespace once::api
