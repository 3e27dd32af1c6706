// A body on its way back from a store. It was checked when it was published, and a large one takes
// longer to check than to read.
#pragma once

#include <string>

#include "once/task.h"

namespace once::inline v1 {

struct StoredBody {
  static Body json(std::string text);
};

}  // namespace once::inline v1
