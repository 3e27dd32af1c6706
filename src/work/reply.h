// Makes the reply of a task: the event that tells a waiting run how the task ended. Its id names
// the task and which of its ends it is. Its id and body follow from the record alone. So several
// workers may append it, and the log has it once. LedgerWriter::pay() appends it.
//
//   id    {reply.id}.ended.{claims}; for a cancelled task {claims + 1}
//   body  {"n":claims,"outcome":"completed"|"failed"|"cancelled","output":...|"error":"...",
//          "run":"...","step":"..."}
//
// An output that is not JSON is a string, or {"raw":base64}. A large output stays in the record:
// "output_in":{"key":"...","queue":"...","sequence":17}. An empty key means the entry's own record.
#pragma once

#include "store/store.h"

namespace once::engine {

inline constexpr std::size_t kMostSaid = 64 << 10;  // the largest output in an event, in bytes

// The reply that the record at that address owes.
store::Append reply_event(const core::Record& record, const store::Address& at);

}  // namespace once::engine
