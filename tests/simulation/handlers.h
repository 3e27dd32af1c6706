// What the tasks of a simulation do: effects outside, durable steps, and every way in which a handler
// can end: by a word, by throwing, too late, not at all, or with its process.
#pragma once

#include "simulation/witness.h"
#include "work/task_attempt.h"

namespace once::sim {

// Takes that long, or until it is to stop. False: it is, or its process is dead.
bool work_on(Process& process, const engine::TaskAttempt& task_attempt, Duration how_long);

class Handlers {
 public:
  Handlers(Process& process, Witness& witness, const Queue& queue, int steps, const bool& calm)
      : process_(process), witness_(witness), queue_(queue), steps_(steps), calm_(calm) {}

  engine::Report handle(const engine::TaskAttempt& task_attempt);
  engine::Report probe(const engine::TaskAttempt& task_attempt);

 private:
  enum class End { well, over, fails };

  Outcome outcome(const engine::TaskAttempt& task_attempt);
  End run_steps(const engine::TaskAttempt& task_attempt);
  End step(const engine::TaskAttempt& task_attempt, const std::string& name);
  End run(const engine::TaskAttempt& task_attempt, const std::string& name);
  End record(const engine::TaskAttempt& task_attempt, const std::string& name);
  End over(const engine::TaskAttempt& task_attempt);
  bool rarely(double probability) { return !calm_ && random().chance(probability); }
  Random& random() { return process_.world().random(); }

  Process& process_;
  Witness& witness_;
  const Queue& queue_;
  const int steps_;
  const bool& calm_;  // nothing goes wrong any more
};

}  // namespace once::sim
