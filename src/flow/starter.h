// Starts runs. A key record, made by one compare-and-swap, says which run a key has; whoever finds one
// without a run that has begun begins it. So two who start at once, and one who starts again after
// having died anywhere in here, get the same run.
//
//   dies after            what then
//   nothing is written    nothing was done
//   the key record        the next start of this key appends `started`; the runners look, too
//   `started`             the first runner makes the run's record
//
// A key whose run can never begin is given back.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "flow/event_log.h"
#include "flow/run_store.h"

namespace once::engine {

struct RunStart {
  std::string workflow{};
  std::uint32_t version{};  // zero: the newest
  Body input{};
  bool unique = false;  // a run of its own, whatever its key
};

struct RunStarted {
  std::string run{};
  bool duplicate = false;
  std::uint32_t version{};  // of the run
};

class FlowStarter {
 public:
  FlowStarter(store::Store& store, Scheduler& scheduler, RunStore& book, EventLog& log)
      : store_(store), scheduler_(scheduler), book_(book), log_(log) {}

  // Any thread. An error with in_doubt: it may have been started; the same again is safe.
  Result<RunStarted> start(const RunStart& start);

  // Begins what a starter that died left behind: a key without a run that has begun. `ended`: give up.
  Result<void> finish_starts(const std::function<bool()>& ended);

 private:
  Result<RunStarted> claim(const core::FlowDefinition& definition, const std::string& key,
                           const std::string& input);
  // `look`: somebody else may have begun it.
  Result<void> begin(core::FlowEvent started, bool look);
  // The store takes no such `started`, from nobody. Unless the run had begun before: an error that says
  // so, once the key is free.
  Result<void> give_back(const core::FlowEvent& started, const Error& refused);
  // A run that had begun before has no record: a runner is to make it, or it is forgotten, and who
  // handled its end died over the key.
  Result<void> settle_forgotten(const core::FlowEvent& started);
  // What a key's run can be made to do, when it has another input.
  std::string way_on(const StartKey& known);
  std::string new_run(std::string_view workflow);

  store::Store& store_;
  Scheduler& scheduler_;
  RunStore& book_;
  EventLog& log_;
};

}  // namespace once::engine
