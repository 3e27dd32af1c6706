// The reference store: ordered maps behind one mutex, gone with the object. What it does is what
// the seam means; tests and the simulator run on it.
#pragma once

#include <memory>

#include "once/zone.h"
#include "store/store.h"

namespace once::store {

// Time is the clock's, which is shared with whoever moves it; null: the machine's.
std::unique_ptr<Store> open_memory(std::shared_ptr<Clock> clock);

}  // namespace once::store
