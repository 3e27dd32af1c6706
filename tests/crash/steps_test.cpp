// A handler of three durable steps, killed with -9 at every point between and inside them, over and
// over: what is done never runs again, what was cut off is run again, held or asked about, as its
// policy says, and inspect shows which. A model of a few lines says what must be seen.
#include <gtest/gtest.h>

#include <random>

#include "crash/child.h"
#include "once/zone.h"
#include "support/temp_folder.h"

namespace once::crash {
namespace {

using namespace std::chrono_literals;

constexpr int kKilled = 128 + 9;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr unsigned kSeeds = 20;  // processes start slowly there
#else
constexpr unsigned kSeeds = 200;
#endif

// What an attempt that is killed at a point leaves behind.
struct Model {
  std::string policy;
  std::map<std::string, int> effects{};
  std::map<std::string, int> runs{};
  std::map<std::string, std::string> states{};  // as inspect shows them

  // The step that the last attempt was killed in; empty: in none.
  std::string open() const {
    for (const auto& [name, state] : states)
      if (state == "running") return name;
    return {};
  }

  // False: it was killed.
  bool attempt(const std::string& kill) {
    if (const std::string name = open(); !name.empty()) states[name] = "in_doubt";
    for (const std::string name : kSteps) {
      if (kill == "before:" + name) return false;
      if (states[name] != "done" && !run(name, kill)) return false;
      if (kill == "after:" + name) return false;
    }
    return true;
  }

  bool run(const std::string& name, const std::string& kill) {
    const bool found = states[name] == "in_doubt" && policy == "probe" && effects[name] > 0;
    if (!found) {
      ++runs[name];
      states[name] = "running";
      if (kill == "in:" + name) return false;
      ++effects[name];
      if (kill == "done:" + name) return false;
    }
    states[name] = "done";
    return true;
  }
};

class Stepper {
 public:
  explicit Stepper(std::string policy) : model{.policy = policy} {
    role_.database = (folder_ / "once.db").string();
    role_.effects = (folder_ / "effects").string();
    role_.policy = std::move(policy);
    zone()
        .queues()
        .add({.name = "q", .topic = "t", .attempts = 50, .in_doubt = InDoubt::steps})
        .value();
    zone().publish({.topic = "t", .id = "a"}).value();
  }

  Zone zone() { return Zone::open(role_.database).value(); }
  QueueView view() { return zone().tasks().inspect("a").value().queues.at(0); }

  void run(const std::string& kill) {
    role_.dies = kill;
    const bool killed = !model.attempt(kill);
    ASSERT_EQ(Child(role_).wait(), killed ? kKilled : 0) << kill;
    check(killed);
    if (killed && model.policy == "hold" && !model.open().empty()) resolve();
  }

  Model model;

 private:
  void check(bool killed) {
    const QueueView seen = view();
    EXPECT_EQ(seen.state, killed ? State::running : State::completed);
    auto effects = effects_in(role_.effects);
    for (const std::string name : kSteps) {
      EXPECT_EQ(effects[name], model.effects[name]) << name;
      EXPECT_EQ(step(seen, name).runs, model.runs[name]) << name;
      const bool begun = !model.states[name].empty();
      ASSERT_EQ(step(seen, name).step, begun ? name : std::string());
      if (begun) {
        EXPECT_EQ(to_string(step(seen, name).state), model.states[name]) << name;
      }
    }
  }

  // The next worker finds the step cut off and holds the task; then a person looks.
  void resolve() {
    const std::string open = model.open();
    role_.dies.clear();
    ASSERT_EQ(Child(role_).wait(), 0);
    ASSERT_EQ(view().state, State::in_doubt);
    EXPECT_EQ(step(view(), open).state, StepView::State::in_doubt);
    const By by{.who = "ann"};
    const bool happened = model.effects[open] > 0;
    if (happened)
      zone().tasks().complete_step("a", "q", open, {}, by).value();
    else
      zone().tasks().retry("a", "q", by).value();
    model.states[open] = happened ? "done" : "again";
  }

  static StepView step(const QueueView& seen, std::string_view name) {
    for (const StepView& each : seen.steps)
      if (each.step == name) return each;
    return {};
  }

  once::testing::TempFolder folder_;
  Role role_{.name = "stepper"};
};

class Steps : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, Steps, ::testing::Values("retry", "hold", "probe"),
                         [](const auto& policy) { return policy.param; });

TEST_P(Steps, SurviveAKillAtEveryPoint) {
  for (const std::string name : kSteps)
    for (const std::string where : {"before", "in", "done", "after"}) {
      SCOPED_TRACE(where + ":" + name);
      Stepper stepper(GetParam());
      stepper.run(where + ":" + name);
      stepper.run("");
      if (HasFatalFailure()) return;
      const int expected = GetParam() == "retry" && where == "done" ? 2 : 1;
      EXPECT_EQ(stepper.model.effects[name], expected);
    }
}

TEST_P(Steps, SurviveKillsAtAnyPointsOverAndOver) {
  for (unsigned seed = 0; seed < kSeeds / 3 + 1; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Stepper stepper(GetParam());
    for (auto kills = 1 + random() % 3; kills > 0; --kills) {
      const char* const where[] = {"before", "in", "done", "after"};
      stepper.run(std::string(where[random() % 4]) + ":" + kSteps[random() % 3]);
      if (HasFatalFailure() || stepper.view().state == State::completed) break;
    }
    if (stepper.view().state != State::completed) stepper.run("");
    if (HasFailure()) return;
    EXPECT_EQ(stepper.view().state, State::completed);
  }
}

}  // namespace
}  // namespace once::crash
