#include "once/yardstick.h"

#include "api/open_store.h"

namespace once::inline v1 {

Result<std::unique_ptr<Yardstick>> Yardstick::open(std::string_view url, OpenOptions options) {
  return api::open_yardstick(url, options);
}

}  // namespace once::inline v1
