// The fixture for what happens to effects: a whole zone over the store under test, under a clock
// that the test moves, and words for workers that are paused or die at the wrong moment.
#pragma once

#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>

#include "api/access.h"
#include "contract/contract.h"
#include "once/once.h"

namespace once::contract {

class Effects : public ::testing::TestWithParam<StoreUnderTest> {
 protected:
  static constexpr Duration kLease = 30s;

  void add(Queue queue) {
    queue.name = "q";
    if (!queue.ledger && queue.topic.empty()) queue.topic = "t";
    if (queue.backoff.empty()) queue.backoff = {1s};
    zone.queues().add(queue).value();
  }
  void publish(std::string id, std::string_view json = "null") {
    zone.publish({.topic = "t", .id = std::move(id), .body = Body::json(json).value()}).value();
  }
  void pass(Duration time) { clock->advance(time); }

  // Runs what is claimable now, at most one; true: there was something.
  bool run(std::function<Outcome(Context&)> handler, WorkerOptions options = {}) {
    if (options.name.empty()) options.name = "worker";
    return zone.worker("q", std::move(handler), std::move(options)).value().run_one().value();
  }
  bool run_ok() {
    return run([](Context&) { return Outcome::completed(); });
  }
  // Waits until a handler is asked to stop; false: it never was.
  static bool is_told_to_stop(const Context& context) {
    std::mutex mutex;
    std::condition_variable_any told;
    std::unique_lock lock(mutex);
    told.wait_for(lock, context.stop(), 60s, [] { return false; });
    return context.stop().stop_requested();
  }
  // The worker hangs for longer than its lease, and others go on meanwhile.
  void hang(const std::function<void()>& meanwhile) {
    pass(kLease);
    meanwhile();
  }

  QueueView view(std::string_view id = "a") {
    return zone.tasks().inspect(id).value().queues.at(0);
  }
  State state(std::string_view id = "a") { return view(id).state; }
  std::vector<std::string> story(std::string_view id = "a") {
    std::vector<std::string> acts;
    for (const ActionView& action : view(id).story) acts.emplace_back(to_string(action.kind));
    return acts;
  }
  StepView step(std::string_view name, std::string_view id = "a") {
    for (const StepView& each : view(id).steps)
      if (each.step == name) return each;
    return {};
  }
  std::uint64_t count(State wanted) {
    for (const QueueStatus& queue : zone.status().value().queues)
      if (queue.queue.name == "q") return queue.tasks.at(wanted);
    return 0;
  }
  std::vector<std::string> listed(State wanted) {
    std::vector<std::string> ids;
    for (const ListItem& item : zone.tasks().list({.queue = "q", .state = wanted}).value())
      ids.push_back(item.id);
    return ids;
  }

  const By by{.who = "ann", .why = "she looked"};
  testing::TempFolder folder;
  std::shared_ptr<testing::VirtualClock> clock = std::make_shared<testing::VirtualClock>();
  std::shared_ptr<detail::ZoneState> impl =
      std::make_shared<detail::ZoneState>(GetParam().open(folder.path(), clock));
  Zone zone = detail::Access::make<Zone>(impl);
};

}  // namespace once::contract
