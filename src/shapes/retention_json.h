// How long a zone keeps settled tasks, as JSON.
#pragma once

#include <string>

#include "once/view.h"

namespace once::cli {

std::string retention_json(const Retention& ages);

}  // namespace once::cli
