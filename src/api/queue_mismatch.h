// What a person is told when a queue is added again with other settings.
#pragma once

#include <optional>

#include "once/result.h"
#include "once/task.h"

namespace once::api {

// The error that names each setting that differs, with both values; nullopt if none differs. A
// paused queue is still the same queue.
std::optional<Error> queue_mismatch(const Queue& existing, const Queue& given);

}  // namespace once::api
