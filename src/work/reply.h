// What is said of a task that somebody waits for, once it is over: an event in the log whose id says
// whose it is and which of its endings, and whose body follows from the record alone. So whoever says
// it, and however often, the log has it once.
//
//   id    {reply.id}.ended.{claims}; of one that is cancelled {claims + 1}
//   body  {"n":claims,"outcome":"completed"|"failed"|"cancelled","output":...|"error":"...",
//          "run":"...","step":"..."}
//
// An output that is no JSON is a string, or {"raw":base64}; a large one stays where it is:
// "output_in":{"key":"...","queue":"...","sequence":17}, in which an empty key means the record that
// the entry has for itself.
#pragma once

#include "store/store.h"

namespace once::engine {

inline constexpr std::size_t kMostSaid = 64 << 10;  // bytes of an output that an event carries

// The record owes a reply, and lies there.
store::Append reply_event(const core::Record& record, const store::Address& at);

}  // namespace once::engine
