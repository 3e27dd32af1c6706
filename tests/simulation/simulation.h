// One run: the scenario of a seed, its processes with their deaths and restarts, the storm, the calm
// after it, and the witness's last look.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flow/runner.h"
#include "publish/publisher.h"
#include "simulation/flow_parts.h"
#include "simulation/puller.h"
#include "simulation/scenario.h"
#include "simulation/witness.h"
#include "work/worker.h"

namespace once::sim {

class Simulation {
 public:
  Simulation(std::uint64_t seed, Trace::Detail detail, With with);

  void run();

  const std::optional<std::string>& violation() const { return world_.violation(); }
  const Trace& trace() { return world_.trace(); }
  std::uint64_t steps() const { return world_.steps(); }

 private:
  // A part that a process plays, again after each of its deaths.
  struct Part {
    std::string name{};
    std::function<void(Part&, Process&, SimStore&)> life{};
    Process* process = nullptr;  // that plays it now
    int lives = 0;
    bool ends = false;  // it is waited for
    bool done = false;  // nobody needs to play it any more
  };

  Part& add_part(std::string name, std::function<void(Part&, Process&, SimStore&)> life);
  void add_flow_parts();
  // What one of those does who have to do with runs.
  using OperatorAction = bool (FlowParts::*)(Process&, store::Store&);
  Part& add_flow_part(std::string name, OperatorAction action);
  void begin(Part& part);
  void publish(Part& part, Process& process, SimStore& store,
               const std::vector<Publication>& publications);
  // Until each has an answer that stands. False: the process died over it.
  bool publish_some(Process& process, engine::Publisher& publisher, std::vector<Publication> some);
  void work(Process& process, SimStore& store, const WorkerPlan& plan);
  static Result<void> drive(engine::Worker& worker, Process& process, WorkerPlan::Way way);
  void pull(Process& process, SimStore& store, const PullerPlan& plan, PullerMemory& memory);
  void run_flows(Process& process, SimStore& store);
  void decide(Process& process, SimStore& store);
  void decide_about_one(Process& process, Zone& zone);

  void storm();
  void strike();
  void calm_down();
  void stop_all();
  // Bodies go, then records; the ids are still known, and nothing runs again.
  void grow_old();
  // Runs wait for longer than anything is kept.
  void wait_long();
  // Somebody starts everything once more.
  void start_late();
  void start_when_keys_are_kept();
  void start_when_keys_expired();
  bool all_done() const;  // who is waited for
  bool all_ended() const;
  // Until it is so, looked at now and then.
  bool wait_for(const std::function<bool()>& so, Duration limit);

  World world_;
  const Scenario scenario_;
  SimZone zone_;
  Witness witness_;
  std::optional<FlowWitness> flows_;
  std::optional<FlowParts> flow_parts_;
  bool calm_ = false;
  bool ending_ = false;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::unique_ptr<Process>> processes_;  // all that ever were
  std::vector<std::unique_ptr<SimStore>> stores_;
  std::map<Process*, engine::Worker*> working_;
  std::vector<PullerMemory> memories_;  // of the pullers; a client outlives its server
  bool deciding_ = false;               // a person is at it
  int tags_ = 0;                        // that people gave what they asked for
};

}  // namespace once::sim
