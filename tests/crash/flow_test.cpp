// A workflow of twelve steps (order_flow.h) while two runners race, which are real processes and are
// killed with -9 at every k-th call of the store, over and over, and so are the workers of its steps:
// every step completes once, and the run ends as one that nothing happened to. ONCE_STRESS=1 (make
// stress) runs 50 seeds; ONCE_TEST_NATS names a server to do it on instead of a file.
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdlib>
#include <random>

#include "api/open_store.h"
#include "core/names.h"
#include "crash/child.h"
#include "once/zone.h"
#include "support/order_flow.h"
#include "support/temp_folder.h"

namespace once::crash {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;
using once::testing::Order;

constexpr int kKilled = 128 + 9;
constexpr auto kLimit = 100s;  // for a run that gets nowhere

unsigned seeds() {
  if (std::getenv("ONCE_STRESS") != nullptr) return 50;
  if (std::getenv("ONCE_TEST_NATS") != nullptr)
    return 1;  // a server waits for the leases of the dead
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return 2;  // processes start slowly there
#else
  return 6;
#endif
}

// A part that a process plays, and the next one after its end: each is killed at some call of its own,
// until enough were. Either at any call, or, soon, where something has just become durable: then it
// takes many to get through the events of a run.
enum class Deaths { anywhere, soon };
class Mortal {
 public:
  Mortal(Role role, Deaths deaths, std::mt19937& random)
      : role_(std::move(role)), how_(deaths), random_(random), child_(doomed()) {}

  void play_on() {
    if (!child_.ended()) return;
    const int status = child_.wait();
    EXPECT_TRUE(status == 0 || status == kKilled) << role_.name << " ended with " << status;
    if (status == kKilled) ++deaths_;
    child_ = Child(deaths_ < kMostDeaths ? doomed() : role_);
  }
  int deaths() const { return deaths_; }

 private:
  static constexpr int kMostDeaths = 30;

  Role doomed() {
    static constexpr const char* kSoon[] = {"kill_after:swap:1", "kill_after:swap:2",
                                            "kill_after:append:1", "kill_before:append:2"};
    static constexpr const char* kSeams[] = {"append", "swap", "swap", "get", "fetch", "commit"};
    Role role = role_;
    if (how_ == Deaths::soon) {
      role.faults = kSoon[random_() % std::size(kSoon)];
      return role;
    }
    role.faults = std::string(random_() % 2 == 0 ? "kill_before:" : "kill_after:") +
                  kSeams[random_() % std::size(kSeams)] + ":" + std::to_string(1 + random_() % 4);
    return role;
  }

  const Role role_;
  const Deaths how_;
  std::mt19937& random_;
  int deaths_ = 0;
  Child child_;
};

class FlowUnderFire : public ::testing::TestWithParam<unsigned> {
 protected:
  FlowUnderFire() {
    if (const char* const server = std::getenv("ONCE_TEST_NATS"))
      database_ = std::string(server) + "/flow" + std::to_string(GetParam()) + "-" +
                  std::to_string(std::random_device{}());
    else
      database_ = (folder_ / "once.db").string();
    const auto store = api::open_store(database_, {}).value();
    // Shorter than what runners make: a server does not see that a process is gone.
    store
        ->add_queue({.name = std::string(core::kFlowQueue),
                     .topic = "$once.flow.>",
                     .lease = 1s,
                     .attempts = 1'000'000,
                     .backoff = {50ms, 200ms},
                     .in_doubt = InDoubt::retry,
                     .window = 8})
        .value();
    store
        ->add_queue({.name = once::testing::kOrderQueue,
                     .topic = once::testing::kOrderTopics,
                     .lease = 1s,
                     .attempts = 2,
                     .backoff = {10ms}})
        .value();
  }

  Role role(std::string name, int concurrency) const {
    return {.name = std::move(name),
            .database = database_,
            .queue = once::testing::kOrderQueue,
            .effects = (folder_ / "effects").string(),
            .concurrency = concurrency};
  }

  once::testing::TempFolder folder_;
  std::string database_;
};

void expect_undisturbed(const Zone& zone, const RunView& run, const Order& order,
                        const std::map<std::string, int>& effects) {
  const once::testing::Stood stood = once::testing::undisturbed(order, true);
  EXPECT_EQ(to_string(run.info.state), to_string(stood.phase)) << run.info.error;
  EXPECT_EQ(run.round, stood.rounds);
  ASSERT_TRUE(run.output);
  EXPECT_EQ(run.output->text(), once::testing::value_of(stood.numbers.at("finish")));
  ASSERT_EQ(run.steps.size(), stood.steps.size());
  for (const RunStep& step : run.steps) {
    SCOPED_TRACE(step.step);
    EXPECT_EQ(to_string(step.status), to_string(stood.steps.at(step.step)));
    const auto number = stood.numbers.find(step.step);
    if (number != stood.numbers.end() && step.kind != StepKind::sleep) {
      ASSERT_TRUE(step.output);
      EXPECT_EQ(step.output->text(), once::testing::value_of(number->second));
    }
    const std::string id = run.info.run + "." + step.step;
    if (!stood.inputs.contains(step.step)) {
      EXPECT_FALSE(effects.contains(id)) << "it was not to run";
      continue;
    }
    const TaskView task = zone.tasks().inspect(id).value();
    ASSERT_EQ(task.queues.size(), 1U);
    EXPECT_EQ(task.entry.body->text(), stood.inputs.at(step.step));
    int completions = 0;
    int without_verdict = 0;
    for (const AttemptView& attempt : task.queues[0].attempts) {
      completions += attempt.outcome == AttemptOutcome::completed ? 1 : 0;
      without_verdict += attempt.in_doubt ? 1 : 0;
    }
    EXPECT_EQ(completions, step.status == StepStatus::completed ? 1 : 0);
    const auto had = effects.find(id);
    EXPECT_LE(had == effects.end() ? 0 : had->second, completions + without_verdict);
    if (completions == 1) {
      EXPECT_TRUE(had != effects.end()) << "it has no effect";
    }
  }
}

TEST_P(FlowUnderFire, EndsAsIfNothingHadHappened) {
  std::mt19937 random(GetParam());
  const Order order{.key = "k", .plain = random() % 2 == 0, .bad = random() % 2 == 0};
  const Zone zone = Zone::open(database_).value();
  Flows flows = zone.flows();
  const once::testing::OrderFlow flow{.sleep = 100ms, .retry_wait = 10ms, .timeout = 300ms};
  flows.add(flow.definition()).value();
  const std::string run = flows.start("order", Body::json(order.input()).value()).value().run;

  const int concurrency = 1 + static_cast<int>(random() % 4);
  const Deaths deaths = GetParam() % 2 == 0 ? Deaths::soon : Deaths::anywhere;
  std::vector<std::unique_ptr<Mortal>> all;
  for (int i = 0; i < 2; ++i)
    all.push_back(std::make_unique<Mortal>(role("runner", concurrency), deaths, random));
  all.push_back(std::make_unique<Mortal>(role("step_worker", 2), Deaths::anywhere, random));
  const auto signal_after = std::chrono::milliseconds{random() % 1500};
  const auto began = SteadyClock::now();
  const Body paid = Body::json(std::string(once::testing::kPaid)).value();
  bool signalled = false;
  RunView view = flows.show(run).value();
  for (; view.info.state != RunPhase::completed; view = flows.show(run).value()) {
    ASSERT_LT(SteadyClock::now() - began, kLimit) << "it waits for " << view.info.waits_for;
    for (const auto& each : all) each->play_on();
    if (!signalled && SteadyClock::now() - began > signal_after) {
      flows.signal(run, "paid", paid, "s1").value();
      signalled = true;
    }
    // It may go on already, and that has not been seen yet.
    if (view.info.state == RunPhase::failed) static_cast<void>(flows.retry(run, {.who = "ann"}));
    ::poll(nullptr, 0, 20);
  }
  int killed = 0;
  for (const auto& each : all) killed += each->deaths();
  all.clear();
  EXPECT_EQ(Child(role("runner", 1)).wait(), 0) << "something of the run is left to be done";
  EXPECT_GT(killed, 0);
  expect_undisturbed(zone, view, order, effects_in(role("", 1).effects));
  std::cout << "  " << killed << " processes killed\n";
}

INSTANTIATE_TEST_SUITE_P(Seeds, FlowUnderFire, ::testing::Range(1U, 1U + seeds()));

}  // namespace
}  // namespace once::crash
