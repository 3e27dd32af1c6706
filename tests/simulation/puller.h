// A client of a consumer, behind a network that loses requests and answers. Its server is the process;
// the client's memory outlives it. So the next life of the server meets claims that another one made.
#pragma once

#include <deque>

#include "simulation/handlers.h"
#include "simulation/scenario.h"
#include "work/consumer.h"

namespace once::sim {

struct PullerMemory {
  struct Unsettled {
    Settlement settlement{};
    std::uint64_t token{};
  };
  std::deque<std::string> offers{};
  std::deque<Unsettled> unsettled{};  // that were not answered yet
  std::uint64_t calls{};
};

class Puller {
 public:
  Puller(Process& process, Witness& witness, const Queue& queue, const PullerPlan& plan,
         engine::Consumer& consumer, PullerMemory& memory, int steps, const bool& calm)
      : process_(process),
        witness_(witness),
        queue_(queue),
        plan_(plan),
        consumer_(consumer),
        memory_(memory),
        handlers_(process, witness, queue, steps, calm),
        calm_(calm) {}

  void run();

 private:
  class PulledSteps;

  // The answer of `ask`, or nullopt if the request or the answer was lost.
  template <class Ask>
  auto call(Ask ask) -> std::optional<decltype(ask())> {
    if (process_.dead() || rarely(0.1)) return std::nullopt;
    auto answer = ask();
    if (process_.dead() || rarely(0.1)) return std::nullopt;
    return answer;
  }
  // The same, again and again until it is answered and the store is there. nullopt: the process is
  // dead, or it was in vain for too long.
  template <class Ask>
  auto insist(Ask ask) -> std::optional<decltype(ask())> {
    for (int tries = 0; tries < 40 && !process_.dead(); ++tries) {
      auto answer = call(ask);
      if (answer && (*answer || !(answer->error().retryable || answer->error().in_doubt)))
        return answer;
      process_.sleep(Duration{random().between(1, 300)});
    }
    return std::nullopt;
  }
  void round();
  void settle_all();
  void take(const std::string& claim);
  void work(const StartedTask& task, Instant lease_end);
  // False: the task must not run in this attempt.
  bool probe(const StartedTask& task, const engine::TaskAttempt& attempt);
  void keep_lease(const StartedTask& task, std::stop_source& stop, const bool& over);
  bool rarely(double probability) { return !calm_ && random().chance(probability); }
  Random& random() { return process_.world().random(); }

  Process& process_;
  Witness& witness_;
  const Queue& queue_;
  const PullerPlan& plan_;
  engine::Consumer& consumer_;
  PullerMemory& memory_;
  Handlers handlers_;
  const bool& calm_;
};

}  // namespace once::sim
