// A workflow of twelve steps for tests in which everything goes wrong: with retries, a sleep, a signal,
// an on_failure, a step that may be skipped, fan-out and fan-in. It is a table: the definition is made
// from it, the handlers of the steps do as it says, and undisturbed() reads from it how a run must end,
// without a look at the engine's rules. How a step ends is fixed by the table and the order that the
// run is about, never by chance: what happens to those who run it must not matter.
//
//   take ─┬─ reserve ─┬─ nap ──┬─ pack ─┬─ weigh ────────┐
//         │           └─ paid ─┴────────│────────────────┼─ finish
//         ├─ gift ──────────────────────┴─ label ────────┘
//         └─ charge ─┬─ receipt
//                    └┄ refund
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "once/workflow.h"

namespace once::testing {

struct StepPlan {
  enum class Kind { task, sleep, signal };
  enum class Way {
    well,
    fails_twice,   // attempts 1 and 2
    fails,         // each of its kHopelessAttempts
    hangs_once,    // attempt 1 takes longer than its timeout
    fails_if_bad,  // for good, when the order is bad and its run was not retried
  };
  std::string id{};
  Kind kind = Kind::task;
  std::vector<std::string> after{};
  Way way = Way::well;
  std::string on_failure{};
  bool optional = false;  // skipped when the order is plain
};

// Every step comes after those it depends on and whose failure it handles.
inline const std::vector<StepPlan>& order_steps() {
  using Kind = StepPlan::Kind;
  using Way = StepPlan::Way;
  static const std::vector<StepPlan> steps{
      {.id = "take"},
      {.id = "reserve", .after = {"take"}, .way = Way::fails_twice},
      {.id = "charge", .after = {"take"}, .way = Way::fails, .on_failure = "refund"},
      {.id = "refund", .way = Way::fails_if_bad},
      {.id = "nap", .kind = Kind::sleep, .after = {"reserve"}},
      {.id = "paid", .kind = Kind::signal, .after = {"reserve"}},
      {.id = "gift", .after = {"take"}, .optional = true},
      {.id = "pack", .after = {"nap", "paid"}},
      {.id = "label", .after = {"gift", "pack"}, .way = Way::hangs_once},
      {.id = "receipt", .after = {"charge"}},
      {.id = "weigh", .after = {"pack"}},
      {.id = "finish", .after = {"label", "paid", "weigh"}},
  };
  return steps;
}

inline const StepPlan* order_step(std::string_view id) {
  const auto found = std::find_if(order_steps().begin(), order_steps().end(),
                                  [&](const StepPlan& step) { return step.id == id; });
  return found == order_steps().end() ? nullptr : &*found;
}

inline constexpr int kHopelessAttempts = 3;
inline constexpr int kEnoughAttempts = 1000;  // more than anybody can die of
inline constexpr const char* kOrderQueue = "s";
inline constexpr const char* kOrderTopics = "s.>";
inline constexpr std::string_view kPaid = R"({"v":7})";  // the body of the signal "paid"

namespace order_text {

inline std::string in_quotes(std::string_view text) { return "\"" + std::string(text) + "\""; }
inline std::string named(bool value) { return value ? "true" : "false"; }

// A sleep has no output, and nobody asks for it.
inline bool is_asked(const std::string& step) {
  return order_step(step)->kind != StepPlan::Kind::sleep;
}

}  // namespace order_text

// What a run is started with.
struct Order {
  std::string key{};
  bool plain = false;
  bool bad = false;

  std::string input() const { return text(""); }
  std::string other_input() const { return text(R"(,"much":true)"); }  // of the same key

 private:
  std::string text(std::string_view rest) const {
    using namespace order_text;
    return R"({"bad":)" + named(bad) + R"(,"order":)" + in_quotes(key) + R"(,"plain":)" +
           named(plain) + std::string(rest) + "}";
  }
};

struct OrderFlow {
  Duration sleep{};
  Duration retry_wait{};
  Duration timeout{};  // of the attempts of the step that hangs
  Duration key_ttl{86'400'000};
  int max_runs = 0;    // zero: no limit
  bool rated = false;  // a step has a rate

  // JSON, with the name "order".
  std::string definition() const {
    using namespace order_text;
    std::string text = R"({"name":"order","idempotency_key":"order","key_ttl":)" +
                       in_quotes(duration_text(key_ttl)) +
                       R"(,"timeout":"90d","output":"steps.finish","default_retry":)" +
                       retry(kEnoughAttempts);
    if (max_runs > 0) text += R"(,"max_runs":)" + std::to_string(max_runs);
    std::string steps;
    for (const StepPlan& step : order_steps()) steps += (steps.empty() ? "" : ",") + member(step);
    return text + R"(,"steps":[)" + steps + "]}";
  }

 private:
  std::string retry(int attempts) const {
    return R"({"attempts":)" + std::to_string(attempts) + R"(,"backoff":"fixed","wait":)" +
           order_text::in_quotes(duration_text(retry_wait)) + R"(,"jitter":0.2})";
  }

  static std::string mapping(const StepPlan& step) {
    using namespace order_text;
    std::string text = R"({"bad":"input.bad","order":"input.order")";
    for (const std::string& before : step.after)
      if (is_asked(before))
        text += "," + in_quotes(before) + R"(:{"path":"steps.)" + before + R"(.v","default":0})";
    return text + "}";
  }

  std::string member(const StepPlan& step) const {
    using namespace order_text;
    using Kind = StepPlan::Kind;
    using Way = StepPlan::Way;
    std::string after;
    for (const std::string& before : step.after)
      after += (after.empty() ? "" : ",") + in_quotes(before);
    std::string text = R"({"id":)" + in_quotes(step.id) + R"(,"depends_on":[)" + after + "]";
    if (step.kind == Kind::sleep) text += R"(,"sleep":)" + in_quotes(duration_text(sleep));
    if (step.kind == Kind::signal) text += R"(,"signal":"paid","timeout":"60d")";
    if (step.kind == Kind::task)
      text += R"(,"task":"s.)" + step.id + R"(","queue":)" + in_quotes(kOrderQueue) +
              R"(,"input":)" + mapping(step);
    if (step.way == Way::fails) text += R"(,"retry":)" + retry(kHopelessAttempts);
    if (step.way == Way::hangs_once) text += R"(,"timeout":)" + in_quotes(duration_text(timeout));
    if (!step.on_failure.empty()) text += R"(,"on_failure":)" + in_quotes(step.on_failure);
    if (step.optional) text += R"(,"skip_if":"input.plain")";
    if (rated && step.id == "pack") text += R"(,"rate":{"limit":1,"per":"4s"})";
    return text + "}";
  }
};

// The task of a step gives back {"v":NUMBER}: a number that nobody gets who was given something else.
inline std::string number_from(std::string_view step, std::string_view input) {
  std::uint32_t hash = 2'166'136'261U;
  for (const std::string_view part : {step, input})
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619U;
  return std::to_string(hash);
}
inline std::string value_of(const std::string& number) { return R"({"v":)" + number + "}"; }

// How a step's attempt is to end; the one that hangs does so before.
enum class StepEnd { completed, failed, dead };
inline StepEnd end_of_attempt(const StepPlan& step, std::uint32_t attempt, std::string_view input,
                              bool run_was_retried) {
  using Way = StepPlan::Way;
  const bool bad = input.find(R"("bad":true)") != std::string_view::npos;
  if (step.way == Way::fails || (step.way == Way::fails_twice && attempt <= 2))
    return StepEnd::failed;
  if (step.way == Way::fails_if_bad && bad && !run_was_retried) return StepEnd::dead;
  return StepEnd::completed;
}
inline bool hangs(const StepPlan& step, std::uint32_t attempt) {
  return step.way == StepPlan::Way::hangs_once && attempt == 1;
}

struct Stood {
  std::map<std::string, StepStatus> steps{};
  std::map<std::string, std::string> inputs{};   // of tasks that run
  std::map<std::string, std::string> numbers{};  // that steps which complete give back
  RunPhase phase = RunPhase::completed;
  std::uint32_t rounds = 1;
};

// What becomes of a run that nothing happens to. `retried`: somebody has it go on when it failed.
inline Stood undisturbed(const Order& order, bool retried) {
  Stood stood;
  if (order.bad && retried) stood.rounds = 2;
  for (const StepPlan& step : order_steps()) {
    std::map<std::string, std::string> members{{"bad", order_text::named(order.bad)},
                                               {"order", order_text::in_quotes(order.key)}};
    bool lost = false;
    for (const std::string& before : step.after) {
      const StepStatus was = stood.steps[before];
      lost = lost || was == StepStatus::failed || was == StepStatus::unreached;
      if (order_text::is_asked(before))
        members[before] = was == StepStatus::completed ? stood.numbers[before] : "0";
    }
    bool handles = false;
    bool failure = false;
    for (const StepPlan& other : order_steps()) {
      if (other.on_failure != step.id) continue;
      handles = true;
      failure = failure || stood.steps[other.id] == StepStatus::failed;
    }
    StepStatus& status = stood.steps[step.id];
    if (lost) {
      status = StepStatus::unreached;
      continue;
    }
    if ((handles && !failure) || (step.optional && order.plain)) {
      status = StepStatus::skipped;
      continue;
    }
    std::string input;
    for (const auto& [name, value] : members)
      input += (input.empty() ? "" : ",") + order_text::in_quotes(name) + ":" + value;
    input = "{" + input + "}";
    if (step.kind == StepPlan::Kind::task) stood.inputs[step.id] = input;
    const bool completes =
        end_of_attempt(step, kEnoughAttempts, input, retried) == StepEnd::completed;
    status = completes ? StepStatus::completed : StepStatus::failed;
    if (completes)
      stood.numbers[step.id] =
          step.kind == StepPlan::Kind::signal ? "7" : number_from(step.id, input);
  }
  for (const StepPlan& step : order_steps())
    if (stood.steps[step.id] == StepStatus::failed &&
        (step.on_failure.empty() || stood.steps[step.on_failure] != StepStatus::completed))
      stood.phase = RunPhase::failed;
  return stood;
}

}  // namespace once::testing
