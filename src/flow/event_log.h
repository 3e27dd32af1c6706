// Writes what happens to runs, and their tasks, to the log. Both may be written twice, by the same
// runner or by two: an id is one entry, and the first that wrote it is right.
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

  // Whether there can be such an entry. Code::invalid_input: its body is nested too deeply.
  static Result<void> check(const core::FlowEvent& event);

  // What it is when the log has it already: somebody's second word, which is counted as a duplicate, or
  // the same, of what follows from the facts and any runner may write.
  enum class Again { duplicate, same };
  // One answer per item, in order; digest and nonce are made here. A conflict is an answer: the id has
  // other content, and stays as it is. What many threads append at once is one batch. Any thread.
  std::vector<Result<store::Appended>> append(std::vector<store::Append> items,
                                              Again again = Again::duplicate);
  Result<store::Appended> append(store::Append item, Again again = Again::duplicate);

  // The event that is in the log under that id; none: there is none, or its body is retired.
  Result<std::optional<core::FlowEvent>> find(std::string_view id);
  // Whether the event of that id is done with, or forgotten.
  Result<bool> handled(std::string_view id);

 private:
  store::Store& store_;
  Scheduler& scheduler_;
  Combiner<store::Append, Result<store::Appended>> combiner_;
};

}  // namespace once::engine
