// The fixture for workflows: a zone with a queue `q` for the steps' tasks (`do.STEP`), what each step
// does, and words for runs. Steps and events are handled one at a time, when the test says so.
#pragma once

#include "contract/effects.h"

namespace once::contract {

// Steps of workflows that many tests use.
inline constexpr std::string_view kTwo =
    R"({"id":"a","task":"do.a"},{"id":"b","task":"do.b","depends_on":["a"]})";
inline constexpr std::string_view kGoThenA =
    R"({"id":"go","signal":"go"},{"id":"a","task":"do.a","depends_on":["go"],"input":"steps.go"})";

class FlowZone : public Effects {
 protected:
  using Handler = std::function<Outcome(Context&)>;

  FlowZone() { add({.topic = "do.*", .attempts = 3}); }
  // Whatever a test does to its runs, the books agree.
  void TearDown() override {
    pass(2 * kLease);
    const Audit audit = zone.audit({.deep = true}).value();
    for (const Discrepancy& found : audit.discrepancies)
      ADD_FAILURE() << found.queue << " " << found.task << ": " << found.what;
  }

  static Body json(std::string_view text) { return Body::json(text).value(); }
  // The workflow `w` of these steps; `more`: members beside them.
  static std::string workflow(std::string_view steps, std::string_view more = {}) {
    return R"({"name":"w",)" + (more.empty() ? "" : std::string(more) + ",") + R"("steps":[)" +
           std::string(steps) + "]}";
  }
  FlowAdded add_flow(std::string_view steps, std::string_view more = {}) {
    return flows.add(workflow(steps, more)).value();
  }
  std::string start(std::string_view input = "{}") {
    return flows.start("w", json(input)).value().run;
  }

  // Handles one event of a run; false: there was none.
  bool drive() {
    if (!runner) runner = flows.runner({.name = "runner"}).value();
    return runner->run_one().value();
  }
  // Runs one task; false: there was none.
  bool work(const std::string& queue = "q") {
    auto found = workers.find(queue);
    if (found == workers.end())
      found = workers
                  .emplace(queue, zone.worker(queue, [this](Context& c) { return do_step(c); },
                                              {.name = "worker"})
                                      .value())
                  .first;
    return found->second.run_one().value();
  }
  // Runs everything that is to be done now.
  void settle() {
    while (drive() || work()) continue;
  }

  RunView show(std::string_view run) { return flows.show(run).value(); }
  RunPhase phase(std::string_view run) { return show(run).info.state; }
  static RunStep step_in(const RunView& view, std::string_view step) {
    for (const RunStep& each : view.steps)
      if (each.step == step) return each;
    ADD_FAILURE() << "no step " << step;
    return {};
  }
  RunStep step_of(std::string_view run, std::string_view step) { return step_in(show(run), step); }
  StepStatus status(std::string_view run, std::string_view step) {
    return step_of(run, step).status;
  }
  // In words: "started", "task a", "step a completed", "ended completed".
  std::vector<std::string> events(std::string_view run) {
    std::vector<std::string> words;
    for (const RunEvent& event : flows.events(run).value())
      words.push_back(std::string(to_string(event.kind)) +
                      (event.step.empty() ? "" : " " + event.step) +
                      (event.outcome ? " " + std::string(to_string(*event.outcome)) : ""));
    return words;
  }
  std::size_t runs() { return flows.runs({}).value().size(); }
  // Timers, and starts that are tried again, that still lie there.
  std::uint64_t timers() {
    for (const QueueStatus& queue : zone.status().value().queues)
      if (queue.queue.name == "once-flow") return queue.tasks.at(State::scheduled);
    ADD_FAILURE() << "no queue of events";
    return 0;
  }

  Flows flows = zone.flows();
  std::optional<WorkflowRunner> runner{};
  std::map<std::string, Worker> workers{};     // by queue
  std::map<std::string, Handler> does{};       // by step; others complete with {"did":STEP}
  std::vector<std::string> ran{};              // steps whose tasks were run, in that order
  std::map<std::string, std::string> given{};  // what each was given last

 private:
  Outcome do_step(Context& context) {
    const std::string& id = context.task().id;  // RUN.STEP
    const std::string step = id.substr(id.find('.') + 1);
    ran.push_back(step);
    given[step] = context.task().body.text();
    if (const auto found = does.find(step); found != does.end()) return found->second(context);
    return Outcome::completed(json(R"({"did":")" + step + R"("})"));
  }
};

}  // namespace once::contract
