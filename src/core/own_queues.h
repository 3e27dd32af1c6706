// Of the queues in which workflows live, those that people are told of.
#pragma once

#include "core/names.h"

namespace once::core {

// Holds neither tasks nor runs: definitions, keys, outputs. Nobody counts or looks after these.
inline bool own_bookkeeping(std::string_view queue) {
  return own_queue(queue) && queue != kFlowQueue && queue != kRunsLedger;
}

}  // namespace once::core
