// Those who have to do with the runs of a simulation beside runners and workers: who starts them, who
// sends the signal that they wait for, who has them cancelled or retried. Each does what it has to do
// until it has an answer that stands, and begins anew after its death, knowing nothing of before.
#pragma once

#include "flow/control.h"
#include "simulation/flow_witness.h"

namespace once::sim {

class FlowParts {
 public:
  FlowParts(World& world, const FlowPlan& plan, FlowWitness& witness, const bool& calm)
      : world_(world), plan_(plan), witness_(witness), calm_(calm) {}

  // Each is one life of a process. True: it is done, and nobody needs to do it again.
  bool start(Process& process, store::Store& store);
  bool signal(Process& process, store::Store& store);
  bool cancel(Process& process, store::Store& store);
  bool retry(Process& process, store::Store& store);

  // Signals may come: so they may from the beginning, where nobody is patient.
  void let_signals_come() { signals_ = true; }

 private:
  // What a process needs to speak of runs.
  struct Desk {
    Desk(store::Store& store, engine::Scheduler& scheduler)
        : run_store(store, scheduler),
          log(store, scheduler),
          starter(store, scheduler, run_store, log),
          control(store, run_store, log) {}
    engine::RunStore run_store;
    engine::EventLog log;
    engine::FlowStarter starter;
    engine::FlowControl control;
  };

  // The definition is there, whoever added it. False: the process died over it.
  bool open(Process& process, Desk& desk);
  // None: the process died over it.
  std::optional<std::string> start_one(Process& process, Desk& desk, const Order& order);
  // Until the answer stands; `stands` says so of an error.
  template <class Call, class Stands>
  bool ask(Process& process, Call call, Stands stands);
  void pause(Process& process, std::int64_t most);

  World& world_;
  const FlowPlan& plan_;
  FlowWitness& witness_;
  const bool& calm_;
  bool signals_ = false;
};

}  // namespace once::sim
