// Appends to the log, and finds out what happened to an append whose answer was lost.
#pragma once

#include <vector>

#include "store/store.h"

namespace once::engine {

// Returns one answer per item, in order. An append with an unknown outcome is sent again unchanged,
// up to five times. The store recognises the entry of the first try by its nonce.
std::vector<Result<store::AppendResult>> append_known(store::Store& store,
                                                      const std::vector<store::Append>& items);

}  // namespace once::engine
