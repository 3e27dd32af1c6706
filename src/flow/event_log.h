// Appends the events of runs and the tasks of steps to the log. The same runner or two runners may
// append one of them twice. An id has one entry, and the first one counts.
#pragma once

#include <string_view>
#include <vector>

#include "flow/rules/facts.h"
#include "publish/combiner.h"
#include "store/store.h"

namespace once::engine {

class EventLog {
 public:
  EventLog(store::Store& store, Scheduler& scheduler);

  // The entry of an event, `delay` after the append.
  static store::Append entry_of(const core::FlowEvent& event, Duration delay = {});

  // Checks whether the event can be an entry. Code::invalid_input: its body is nested too deeply.
  static Result<void> check(const core::FlowEvent& event);

  // What an append means if the log has the same entry already. `duplicate`: a caller said it
  // twice, and the log counts a duplicate. `same`: it follows from the facts, so several runners
  // may append it, and the log counts nothing.
  enum class Again { duplicate, same };
  // Returns one answer per item, in order. Makes digest and nonce. A conflict is an answer: the id
  // has other content, which does not change. A Combiner joins the appends of many threads. Any
  // thread may call it.
  std::vector<Result<store::AppendResult>> append(std::vector<store::Append> items,
                                                  Again again = Again::duplicate);
  Result<store::AppendResult> append(store::Append item, Again again = Again::duplicate);

  // The event in the log under that id. nullopt if there is none, or if its body is retired.
  Result<std::optional<core::FlowEvent>> find(std::string_view id);
  // Whether a runner has handled the event of that id, or the event has expired.
  Result<bool> handled(std::string_view id);

 private:
  store::Store& store_;
  Scheduler& scheduler_;
  Combiner<store::Append, Result<store::AppendResult>> combiner_;
};

}  // namespace once::engine
