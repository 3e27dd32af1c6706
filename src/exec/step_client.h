// What `once step` does: asks the worker, runs the command or its probe, and tells the worker.
//
//   worker says   then
//   run           the command is run: exit 0 is recorded; no verdict: nothing is said; else it failed
//   remembered    its output is written
//   ask           the probe is run: 0 it happened, recorded; 1 it did not, asked to run; else held
//   over, refused nothing is run
#pragma once

#include "exec/step_channel.h"
#include "exec/step_process.h"
#include "tooling/step.h"

namespace once::engine {

class StepClient {
 public:
  explicit StepClient(const StepCommand& step) : step_(step) {}
  StepExit run();

 private:
  Result<void> check() const;
  StepExit obey(step::Channel& worker, const step::Message& order);
  StepExit run_command(step::Channel& worker, const step::Message& order);
  StepExit ask_probe(step::Channel& worker, const step::Message& order);
  StepExit record(step::Channel& worker, StepProcess::End& end);
  StepExit happened(step::Channel& worker, StepProcess::End& probe);
  StepExit give_remembered(const step::Message& order) const;
  // `why`: for the record; empty: what is said.
  StepExit nothing_happened(step::Channel& worker, int status, std::string said,
                            const std::string& why = {});
  std::vector<std::string> environment(const std::string& key) const;
  std::string named() const { return "the step '" + step_.name + "'"; }

  const StepCommand& step_;
  std::string path_{};  // of the command
  HeldSignals signals_{};
};

}  // namespace once::engine
