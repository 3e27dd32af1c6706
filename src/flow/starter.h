// Starts runs. One compare-and-swap writes the key's value, which says which run the key has. A
// starter that finds a key whose run has not begun begins that run. So two starters at the same
// time get the same run. So does a starter that died anywhere in here and starts again.
//
//   the starter dies after   result
//   no write                 nothing was done
//   the key's value          the next start of this key appends `started`; the runners look, too
//   `started`                the first runner writes the run's value
//
// If a run can never begin, its key becomes free again.
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
  bool unique = false;  // starts a new run without a key
};

struct RunStarted {
  std::string run{};
  bool duplicate = false;
  std::uint32_t version{};  // of the run
};

class FlowStarter {
 public:
  FlowStarter(store::Store& store, Scheduler& scheduler, RunStore& run_store, EventLog& log)
      : store_(store), scheduler_(scheduler), run_store_(run_store), log_(log) {}

  // Any thread may call it. An error with in_doubt means that the run may have started. The same
  // call again is safe.
  Result<RunStarted> start(const RunStart& start);

  // Begins the runs that dead starters left behind: keys whose run has not begun. Returns early if
  // `ended` returns true.
  Result<void> finish_starts(const std::function<bool()>& ended);

 private:
  Result<RunStarted> claim(const core::FlowDefinition& definition, const std::string& key,
                           const std::string& input);
  // Appends `started` and writes the run's value. With `look`, first looks whether the run has
  // begun.
  Result<void> begin(core::FlowEvent started, bool look);
  // The store will never accept this `started`. If the run has not begun, frees the key and returns
  // the error.
  Result<void> give_back(const core::FlowEvent& started, const Error& refused);
  // `started` is in the log, and the run has no value. Either a runner will write the value, or the
  // run has expired and the runner that handled its end died before it settled the key. In the
  // second case this settles the key.
  Result<void> settle_forgotten(const core::FlowEvent& started);
  // Whether the key's run has failed, so that a retry can continue it.
  bool has_failed(const StartKey& known);
  std::string new_run(std::string_view workflow);

  store::Store& store_;
  Scheduler& scheduler_;
  RunStore& run_store_;
  EventLog& log_;
};

}  // namespace once::engine
