// The workflow that bench/flow measures: three steps, one after the other.
#pragma once

#include <string>
#include <string_view>

#include "../peers/role.h"

namespace bench {

constexpr std::size_t kSteps = 3;
constexpr const char* kWorkflow = "three";
constexpr const char* kQueue = "steps";
constexpr std::string_view kTopic = "s.";  // and the name of the step

inline once::Body input_of(const std::string& run) {
  return once::Body::json("{\"id\":\"" + run + "\"}").value();
}

// Adds the queue of the steps and the workflow. `options` are those of with_options().
inline void add_three_steps(once::Zone& zone, const Options& options = {}) {
  zone.queues()
      .add(
          with_options({.name = kQueue, .topic = std::string(kTopic) + "*", .window = 64}, options))
      .value();
  once::Workflow three(kWorkflow);
  three.idempotency_key("id")
      .step({.id = "a", .task = "s.a"})
      .step({.id = "b", .task = "s.b", .depends_on = {"a"}})
      .step({.id = "c", .task = "s.c", .depends_on = {"b"}});
  zone.flows().add(three).value();
}

}  // namespace bench
