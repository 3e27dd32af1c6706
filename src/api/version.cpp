// The version. The number itself is the one in CMake's project(), handed in at compile time.
#include "once/version.h"

namespace once::inline v1 {

std::string_view version() { return ONCE_VERSION; }

}  // namespace once::inline v1
