#include "roles.h"

#include <thread>

#include "three_steps.h"

namespace bench {
namespace {

constexpr int kStarters = 256;

void prepare(const Options& options) {
  once::Zone zone = open(options);
  say(R"({"ready":true})");
  if (!heard("go")) return;
  add_three_steps(zone, options);
  say("{}");
}

// Starts a run for each id of the file `--ids`. A run that was started before is started no second time.
void publish(const Options& options) {
  once::Zone zone = open(options);
  once::Flows flows = zone.flows();
  const std::vector<std::string> runs = lines_of(options.at("ids"));
  say(R"({"ready":true})");
  if (!heard("go")) return;
  const auto begun = SteadyClock::now();
  {
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> starters;
    for (int i = 0; i < kStarters; ++i)
      starters.emplace_back([&] {
        for (std::size_t run = next++; run < runs.size(); run = next++)
          flows.start(kWorkflow, input_of(runs[run])).value();
      });
  }
  std::ostringstream answer;
  answer << R"({"seconds":)" << seconds_since(begun) << R"(,"count":)" << runs.size() << "}";
  say(answer.str());
  heard("end");
}

// The worker of the steps and the runner of the workflow, on one thread each, until it is destroyed.
class AtWork {
 public:
  AtWork(once::Zone& zone, Effects& effects, int concurrency)
      : flows_(zone.flows()),
        worker_(zone.worker(kQueue,
                            [&effects](once::Context& context) {
                              const once::Task& task = context.task();
                              effects.add(std::string(task.body.at("id").value()) + "." +
                                          task.topic.substr(kTopic.size()));
                              return once::Outcome::completed(once::Body::json("1").value());
                            },
                            {.concurrency = concurrency})
                    .value()),
        runner_(flows_.runner().value()),
        working_([this] { worker_.run(stop_.get_token()).value(); }),
        running_([this] { runner_.run(stop_.get_token()).value(); }) {}
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
  ~AtWork() { stop_.request_stop(); }

  // Waits until the runs have ended whose steps have all run.
  void finish() {
    while (!flows_.runs({.state = once::RunPhase::running, .limit = 1}).value().empty())
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
  }

  // Waits until every run has ended, or waits for a person because a step of the run is in doubt.
  void recover(const once::Zone& zone, std::size_t runs) {
    while (ended() + in_doubt(zone) < runs)
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
  }

 private:
  std::size_t ended() const {
    return flows_
        .runs({.workflow = kWorkflow, .state = once::RunPhase::completed, .limit = 10'000'000})
        .value()
        .size();
  }

  static std::size_t in_doubt(const once::Zone& zone) {
    for (const once::QueueStatus& queue : zone.status().value().queues)
      if (queue.queue.name == kQueue) return queue.tasks.at(once::State::in_doubt);
    return 0;
  }

  once::Flows flows_;
  once::Worker worker_;
  once::WorkflowRunner runner_;
  std::stop_source stop_;
  std::jthread working_;
  std::jthread running_;
};

void work(const Options& options) {
  once::Zone zone = open(options);
  Effects effects(options);
  say(R"({"ready":true})");
  if (!heard("go")) return;
  const auto begun = SteadyClock::now();
  {
    AtWork at_work(zone, effects, std::stoi(options.at("concurrency")));
    if (options.contains("again")) {  // how many steps are left for it, only the zone knows
      at_work.recover(zone, effects.ids() / kSteps);
    } else {
      while (effects.ran() < effects.ids())
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      at_work.finish();
    }
    std::ostringstream answer;
    answer << R"({"seconds":)" << seconds_since(begun) << "," << effects.json() << "}";
    say(answer.str());
  }
  heard("end");
}

struct Role {
  std::string_view name;
  void (*play)(const Options&);
};
constexpr Role kRoles[] = {
    {"prepare", prepare}, {"publish", publish}, {"work", work}, {"audit", audit}};

}  // namespace

bool is_flow_role(std::string_view name) {
  for (const Role& role : kRoles)
    if (role.name == name) return true;
  return false;
}

void play_flow_role(std::string_view name, const Options& options) {
  for (const Role& role : kRoles)
    if (role.name == name) role.play(options);
}

}  // namespace bench
