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

  // All signals of a name have one entry in the log, so the log says which signal counts. The id of
  // that signal with another body is conflicting_duplicate. A run that has ended is wrong_state.
  Result<SignalResult> signal(std::string_view run, std::string_view name, const Body& body,
                              std::string_view id, const By& by);
  Result<Approved> approve(std::string_view run, std::string_view step, bool yes, const By& by);
  Result<void> cancel(std::string_view run, const By& by);
  Result<std::vector<std::string>> retry(std::string_view run, const By& by);

  struct Known {
    KnownRun run{};
    FlowDefinitionRef definition{};
  };
  enum class Outputs { judged, all };  // which large outputs to read
  // A run and its definition. Code::not_found: there is no such run, or it has expired. For a
  // failed run, the facts include a retry that is in the log and that no runner has handled yet.
  Result<Known> find(std::string_view run, Outputs outputs = Outputs::judged);
  // The person who retried the run, and why, from the headers of the event. Empty if they are
  // missing.
  static By said_in(const std::map<std::string, std::string>& headers);

 private:
  static Error no_run(std::string_view run);
  Result<Known> find_folded(std::string_view run, Outputs outputs = Outputs::judged);
  struct First {
    core::FlowEvent event{};
    std::string by{};
  };
  // The signal of that name that counts. nullopt if the log has none yet.
  Result<std::optional<First>> first_signal(const core::RunState& state,
                                            const core::FlowEvent& mine);
  // Appends a signal. The caller has found no signal of that name in the log.
  Result<SignalResult> append_signal(const Known& known, const core::FlowEvent& event,
                                     const By& by);
  // Code::wrong_state: the run ended before that entry.
  Result<void> came_in_time(const core::RunState& state, core::Sequence sequence);
  // Why a signal of that name changes nothing. Empty if a step waits for it or will wait for it.
  // `before` asks about that entry of the log; nullopt asks about now.
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
