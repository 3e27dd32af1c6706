// Runs a workflow of three steps many times, in tenths, and says what each tenth took: whether a run costs the
// same when many have been. Starters, a runner and a worker share one process, whose memory is told, too.
// Beside it, as a baseline: plain tasks through the same zone and worker.
//
//   once_flow URL RUNS
//   once_flow ROLE --NAME VALUE ...
//
// One JSON line per tenth, one for the plain tasks, and last one that says whether every step ran once. With a
// role, the program is a peer of bench/flow instead.
#include <sys/resource.h>

#include <memory>
#include <thread>

#include "roles.h"
#include "three_steps.h"

namespace {

using namespace once;
using namespace bench;

constexpr int kTenths = 10;
constexpr int kStarters = 16;

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

long peak_mib() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss / 1024;
}

// How often each step of each run was handled, by its place.
class StepCounts {
 public:
  explicit StepCounts(int runs) : counts_(static_cast<std::size_t>(runs) * kSteps) {}

  void add(std::string_view topic, const Body& body) {
    ++handled_;
    const auto run = body.at("id");
    if (!run || topic.size() != 3) return;  // a plain task
    const auto step = static_cast<std::size_t>(topic[2] - 'a');
    ++counts_[static_cast<std::size_t>(std::stoul(std::string(*run))) * kSteps + step];
    if (step == kSteps - 1) ++last_steps_;
  }

  int handled() const { return handled_; }
  int last_steps() const { return last_steps_; }
  std::size_t with(bool (*fits)(int)) const {
    std::size_t found = 0;
    for (const auto& count : counts_)
      if (fits(count)) ++found;
    return found;
  }

 private:
  std::vector<std::atomic<int>> counts_;
  std::atomic<int> handled_{0};
  std::atomic<int> last_steps_{0};
};

void wait_until(const std::atomic<bool>& stopped, const auto& done) {
  while (!done() && !stopped) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void start_runs(Flows& flows, int from, int to) {
  std::atomic<int> next{from};
  std::vector<std::jthread> starters;
  for (int i = 0; i < kStarters; ++i)
    starters.emplace_back([&] {
      for (int run = next++; run < to; run = next++)
        flows.start(kWorkflow, input_of(std::to_string(run))).value();
    });
}

double plain_tasks_per_s(Zone& zone, const StepCounts& counts, const std::atomic<bool>& stopped,
                         int tasks) {
  const int before = counts.handled();
  const auto begun = SteadyClock::now();
  constexpr int kBatch = 256;
  for (int from = 0; from < tasks; from += kBatch) {
    std::vector<Task> batch;
    for (int i = from; i < std::min(from + kBatch, tasks); ++i)
      batch.push_back({.topic = "s.plain", .id = "plain-" + std::to_string(i)});
    for (const auto& receipt : zone.publish_batch(std::move(batch))) receipt.value();
  }
  wait_until(stopped, [&] { return counts.handled() - before >= tasks; });
  return tasks / seconds_since(begun);
}

int measure(const std::string& url, int runs) {
  Zone zone = Zone::open(url).value();
  add_three_steps(zone);
  Flows flows = zone.flows();

  StepCounts counts(runs);
  Worker worker = zone.worker(kQueue,
                              [&](Context& context) {
                                counts.add(context.task().topic, context.task().body);
                                return Outcome::completed(Body::json("1").value());
                              },
                              {.concurrency = 16})
                      .value();
  WorkflowRunner runner = flows.runner().value();
  std::atomic<bool> stopped{false};
  std::stop_source stop;
  const auto drive = [&](auto& driven) {
    if (const auto ended = driven.run(stop.get_token()); !ended) {
      std::cerr << "once_flow: " << ended.error().message << '\n';
      stopped = true;
    }
  };
  std::jthread worker_thread([&] { drive(worker); });
  std::jthread runner_thread([&] { drive(runner); });

  for (int tenth = 0; tenth < kTenths && !stopped; ++tenth) {
    const int from = runs / kTenths * tenth;
    const int to = from + runs / kTenths;
    const double cpu = cpu_seconds();
    const auto begun = SteadyClock::now();
    start_runs(flows, from, to);
    wait_until(stopped, [&] { return counts.last_steps() >= to; });
    std::cout << "{\"tenth\":" << tenth + 1 << ",\"runs\":" << to - from
              << ",\"seconds\":" << seconds_since(begun)
              << ",\"cpu_seconds\":" << cpu_seconds() - cpu << ",\"peak_mib\":" << peak_mib() << "}"
              << std::endl;
  }
  const double plain = plain_tasks_per_s(zone, counts, stopped, std::max(runs / 4, 1000));
  std::cout << "{\"plain_tasks_per_s\":" << plain << "}" << std::endl;
  stop.request_stop();
  worker_thread.join();
  runner_thread.join();
  std::cout << "{\"never\":" << counts.with([](int count) { return count == 0; })
            << ",\"twice\":" << counts.with([](int count) { return count > 1; }) << "}"
            << std::endl;
  return stopped ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1 && is_flow_role(argv[1])) {
      play_flow_role(argv[1], options_of(argc, argv));
      return 0;
    }
    const int runs = argc == 3 ? std::atoi(argv[2]) / kTenths * kTenths : 0;
    if (runs < kTenths) {
      std::cerr << "usage: once_flow URL RUNS, at least 10\n";
      return 2;
    }
    return measure(argv[1], runs);
  } catch (const std::exception& failure) {
    std::cerr << "once_flow: " << failure.what() << '\n';
    return 1;
  }
}
