// Which store a URL names.
#pragma once

#include <memory>
#include <string_view>

#include "once/zone.h"
#include "store/store.h"

namespace once::api {

// Implemented in src/open.cpp, the one file that names every store.
Result<std::unique_ptr<store::Store>> open_store(std::string_view url, const OpenOptions& options);

}  // namespace once::api
