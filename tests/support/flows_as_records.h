// What the zones in tests/fixtures/flows_as_records must do in this version: all four runs are known by
// their keys, and go on where the older version left them.
//
//   order 1  completed, with outputs that are too large for its run
//   order 2  waits for an approval
//   order 3  started in version 2, and no runner has seen it
//   order 4  failed
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "once/once.h"

namespace once::testing {

inline std::string fixture(std::string_view name) {
  return std::string(ONCE_FIXTURES) + "/flows_as_records/" + std::string(name);
}

inline Result<Started> start_order(Zone& zone, int order) {
  return zone.flows().start("pay",
                            Body::json(R"({"order":)" + std::to_string(order) + "}").value());
}

inline void finish_the_runs(Zone& zone) {
  Flows flows = zone.flows();
  std::vector<std::string> names;
  for (const QueueStatus& each : zone.status().value().queues) names.push_back(each.queue.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("once-flow", "pay"));
  std::vector<std::uint32_t> versions;
  for (const FlowInfo& each : flows.list().value()) versions.push_back(each.version);
  EXPECT_THAT(versions, ::testing::ElementsAre(1U, 2U));
  std::vector<std::string> runs;
  for (int order = 1; order <= 4; ++order) {
    const auto started = start_order(zone, order);
    ASSERT_TRUE(started) << started.error().message;
    EXPECT_TRUE(started->duplicate) << order;
    runs.push_back(started->run);
  }
  const auto state = [&](std::size_t i) { return flows.show(runs[i]).value().info.state; };
  EXPECT_EQ(flows.runs({}).value().size(), 4U);
  EXPECT_EQ(state(0), RunPhase::completed);
  EXPECT_EQ(state(1), RunPhase::waiting);
  EXPECT_EQ(state(3), RunPhase::failed);
  EXPECT_GT(flows.show(runs[0]).value().output.value().text().size(), 5'000U)
      << "an output that was kept beside its run";

  flows.approve(runs[1], "review", true, {.who = "ann"}).value();
  flows.retry(runs[3], {.who = "ann"}).value();
  WorkflowRunner runner = flows.runner().value();
  Worker worker =
      zone.worker("pay",
                  [](Context&) {
                    return Outcome::completed(Body::json(R"({"charged":true})").value());
                  })
          .value();
  const auto settle = [&] {
    for (bool more = true; more;) {
      more = runner.run_one().value();
      more = worker.run_one().value() || more;
    }
  };
  settle();
  for (const std::size_t i : {2U, 3U})
    flows.approve(runs[i], "review", true, {.who = "ann"}).value();
  settle();
  for (std::size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(state(i), RunPhase::completed) << i + 1;
  for (int order = 1; order <= 4; ++order)
    EXPECT_EQ(start_order(zone, order).value().run, runs[static_cast<std::size_t>(order - 1)]);
  EXPECT_FALSE(start_order(zone, 5).value().duplicate);
  EXPECT_THAT(zone.audit().value().discrepancies, ::testing::IsEmpty());
}

}  // namespace once::testing
