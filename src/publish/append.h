// Appending to the log so that the answer is known whenever it can be.
#pragma once

#include <vector>

#include "store/store.h"

namespace once::engine {

// One answer per item, in order. An append whose outcome is unknown is sent again as it is: the nonce
// recognises its own entry.
std::vector<Result<store::Appended>> append_known(store::Store& store,
                                                  const std::vector<store::Append>& items);

}  // namespace once::engine
