// Which store a URL names.
#pragma once

#include <memory>
#include <string_view>

#include "once/yardstick.h"
#include "store/store.h"

namespace once::api {

// Both are implemented in src/open.cpp, the one file that names every store.
Result<std::unique_ptr<store::Store>> open_store(std::string_view url, const OpenOptions& options);
Result<std::unique_ptr<Yardstick>> open_yardstick(std::string_view url, const OpenOptions& options);

}  // namespace once::api
