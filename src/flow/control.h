// What people do to a run: signal, approve, cancel, retry. Each call appends one entry with a fixed
// id, so a repeated call finds the first entry and changes nothing. `by.who` must not be empty.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flow/event_log.h"
#include "flow/run_store.h"
#include "once/flows.h"

namespace once::engine {

class FlowControl {
 public:
  FlowControl(store::Store& store, RunStore& run_store, EventLog& log)
      : store_(store), run_store_(run_store), log_(log) {}

  // All signals of a name have one entry in the log, so the log says which one counts. Another body under
  // the id of that one is conflicting_duplicate; a run that is over is wrong_state.
  Result<SignalResult> signal(std::string_view run, std::string_view name, const Body& body,
                              std::string_view id, const By& by);
  Result<Approved> approve(std::string_view run, std::string_view step, bool yes, const By& by);
  Result<void> cancel(std::string_view run, const By& by);
  Result<std::vector<std::string>> retry(std::string_view run, const By& by);

  struct Known {
    KnownRun run{};
    FlowDefinitionRef definition{};
  };
  enum class Outputs { judged, all };  // of those that lie elsewhere; there may be many
  // A run and its definition; Code::not_found: also when it is forgotten. Of a run that failed, also
  // that it is to go on, from when the log says so.
  Result<Known> find(std::string_view run, Outputs outputs = Outputs::judged);
  // Who had a run retried, and why, by the headers of the event; empty: they do not say.
  static By said_in(const std::map<std::string, std::string>& headers);

 private:
  static Error no_run(std::string_view run);
  Result<Known> find_folded(std::string_view run, Outputs outputs = Outputs::judged);
  struct First {
    core::FlowEvent event{};
    std::string by{};
  };
  // The signal of that name that counts; none: the log has none as yet.
  Result<std::optional<First>> first_signal(const core::RunState& state,
                                            const core::FlowEvent& mine);
  // Appends a signal of which the log had none when the caller looked.
  Result<SignalResult> append_signal(const Known& known, const core::FlowEvent& event,
                                     const By& by);
  // Code::wrong_state: the run ended before that entry came.
  Result<void> came_in_time(const core::RunState& state, core::Sequence sequence);
  // Why a signal of that name changes nothing; empty: a step waits for it, or will. `before`: at that
  // entry of the log; none: now.
  Result<std::string> why_too_late(const Known& known, std::string_view signal,
                                   std::optional<core::Sequence> before);
  // Code::wrong_state: the task of one of these steps can never run again.
  Result<void> can_run_again(const core::FlowDefinition& definition, const core::RunState& state,
                             const std::map<std::string, std::uint32_t>& steps);

  store::Store& store_;
  RunStore& run_store_;
  EventLog& log_;
};

}  // namespace once::engine
