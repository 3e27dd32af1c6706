// What a seed is about: the queues, what is published by whom, who works, and how bad it gets.
#pragma once

#include <string>
#include <vector>

#include "once/task.h"
#include "once/view.h"
#include "simulation/flow_plan.h"
#include "simulation/random.h"
#include "simulation/sim_store.h"

namespace once::sim {

// One id may be published with several contents: all but the first that arrives are conflicts.
struct Publication {
  std::string id{};
  int content{};
  std::string topic{};
  std::string body{};
  Duration delay{};                 // not to be run before
  std::optional<Duration> lives{};  // not to be begun after
};

struct WorkerPlan {
  std::string queue{};
  std::size_t concurrency = 1;
  bool can_probe = true;
  enum class Way { until_stopped, until_empty, one_at_a_time } way = Way::until_stopped;
};

// A client of a consumer.
struct PullerPlan {
  std::string queue{};
  std::size_t offers = 1;  // that it asks for at once
  bool can_probe = true;
};

struct Scenario {
  std::vector<Queue> queues{};
  std::vector<std::vector<Publication>> publishers{};
  std::vector<WorkerPlan> workers{};
  std::vector<PullerPlan> pullers{};
  bool person = false;
  Weather weather{};
  bool presence = true;
  std::int64_t store_speed = 1000;
  Duration longest_slow{};
  Duration storm{};  // how long things go wrong
  int steps = 0;     // of the tasks that have any, at most
  Retention ages{};
  bool late = false;  // see what is left when everything has aged
  std::optional<FlowPlan> flow{};
};

enum class With { nothing, flows, pullers };
Scenario draw_scenario(Random& random, With with);

}  // namespace once::sim
