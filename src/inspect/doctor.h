// Looks for what could lose or repeat a task: what the store sees of itself, and what its tasks show.
// The judgements on tasks are here, one for every store. Reads a bounded part of the zone.
#pragma once

#include "once/doctor.h"
#include "store/store.h"

namespace once::engine {

// not_found when the options name a queue that is not there.
Result<Diagnosis> diagnose(store::Store& store, const DoctorOptions& options);

}  // namespace once::engine
