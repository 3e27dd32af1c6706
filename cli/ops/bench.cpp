// once bench: the workload W1 on a store of its own, with durability on, and the same as bare SQL or
// bare JetStream beside it: 36-character ids, 256-byte JSON, 5 % of the ids published twice, a handler that only
// counts. Every run also proves that each id ran exactly once.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <unordered_map>

#include "cli/app/commands.h"
#include "cli/app/login.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "cli/app/signals.h"
#include "cli/app/temp_folder.h"
#include "shapes/json_line.h"
#include "tooling/bare_store_baseline.h"

namespace once::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kBenchBatch = 500;
constexpr int kInFlight = 512;
constexpr int kPublishers = 256;
constexpr std::array kQueues{"backlog", "single", "sequential", "latency"};

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

double percentile(std::vector<double>& values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(part * static_cast<double>(values.size())))];
}

class Workload {
 public:
  explicit Workload(std::uint64_t seed) : random_(seed) {
    body_ = R"({"order":{"id":"7f9c","lines":[{"sku":"A-1","count":3}],"total":12.5},"note":")";
    body_ += std::string(256 - body_.size() - 2, 'x') + "\"}";
  }

  std::string id() {
    const std::uint64_t high = random_();
    const std::uint64_t low = random_();
    return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32U, (high >> 16U) & 0xFFFFU,
                       high & 0xFFFFU, low >> 48U, low & 0xFFFFFFFFFFFFU);
  }
  // `count` ids, and 5 % of them again 100 to 1,000 places later.
  std::vector<std::string> ids(std::size_t count) {
    std::vector<std::string> out;
    out.reserve(count + count / 20 + 1);
    std::multimap<std::size_t, std::string> again;  // before which of the ids
    for (std::size_t i = 0; i < count; ++i) {
      for (; !again.empty() && again.begin()->first == i; again.erase(again.begin()))
        out.push_back(std::move(again.begin()->second));
      out.push_back(id());
      if (i % 20 == 0) again.emplace(i + 100 + random_() % 901, out.back());
    }
    for (auto& [place, id] : again) out.push_back(std::move(id));
    return out;
  }
  const std::string& body() const { return body_; }
  Task task(std::string topic, std::string id) const {
    return {.topic = std::move(topic), .id = std::move(id), .body = Body::json(body_).value()};
  }

 private:
  std::mt19937_64 random_;
  std::string body_;
};

class Bench {
 public:
  Bench(Session& session, Zone& zone, std::string url, BareStoreBaseline& bare, std::size_t tasks)
      : session_(session), zone_(zone), url_(std::move(url)), bare_(bare), tasks_(tasks) {}

  void run() {
    publish_batch();
    backlog();
    publish_single();
    one_at_a_time();
    latency();
    report("duplicates_run", static_cast<double>(twice_), "tasks");
    report("missing", static_cast<double>(missing_), "tasks");
  }
  bool exact() const { return twice_ == 0 && missing_ == 0; }

 private:
  void report(std::string_view measure, double value, std::string_view unit) {
    session_.out.line(session_.json ? JsonLine{}
                                          .text("measure", measure)
                                          .json("value", fmt::format("{:.6g}", value))
                                          .text("unit", unit)
                                          .str()
                                    : fmt::format("{:<28}{:>14.6g}  {}", measure, value, unit));
    session_.out.flush();
  }
  // Reported before the baseline is run, so that whoever reads along can tell the two apart.
  template <class Bare>
  void report(std::string_view measure, double value, std::string_view unit, Bare bare) {
    report(measure, value, unit);
    report(fmt::format("ratio_{}", measure), value / bare(), fmt::format("of {}", bare_.name()));
  }

  void add_queue(const std::string& name) {
    zone_.queues().add({.name = name, .topic = name}).value();
  }

  // In batches; answers ids per second.
  double publish_bare(const std::vector<std::string>& ids) {
    const auto start = SteadyClock::now();
    const std::span all(ids);
    for (std::size_t from = 0; from < ids.size(); from += kBenchBatch)
      bare_.publish(all.subspan(from, std::min(kBenchBatch, ids.size() - from)), workload_.body())
          .value();
    return static_cast<double>(ids.size()) / seconds_since(start);
  }

  // Answers how many seconds it took.
  double work_bare(std::size_t count, std::size_t batch) {
    const auto start = SteadyClock::now();
    for (std::size_t done = 0; done < count; done += batch)
      bare_.work(std::min(batch, count - done)).value();
    return seconds_since(start);
  }

  void publish_batch() {
    add_queue("backlog");
    ids_ = workload_.ids(tasks_);
    const auto start = SteadyClock::now();
    for (std::size_t from = 0; from < ids_.size(); from += kBenchBatch) {
      std::vector<Task> batch;
      for (std::size_t i = from; i < std::min(ids_.size(), from + kBenchBatch); ++i)
        batch.push_back(workload_.task("backlog", ids_[i]));
      for (const auto& receipt : zone_.publish_batch(std::move(batch)))
        duplicates_ += receipt.value().duplicate ? 1U : 0U;
    }
    const double once = static_cast<double>(ids_.size()) / seconds_since(start);
    report("publish_batch", once, "ids/s", [&] { return publish_bare(ids_); });
  }

  void backlog() {
    std::unordered_map<std::string, std::atomic<int>> runs;
    for (const std::string& id : ids_) runs.try_emplace(id, 0);
    const auto start = SteadyClock::now();
    auto worker = zone_
                      .worker("backlog",
                              [&](Context& context) {
                                ++runs.find(context.task().id)->second;
                                return Outcome::completed();
                              },
                              {.concurrency = kInFlight})
                      .value();
    worker.run_until_empty().value();
    const double once = static_cast<double>(tasks_) / seconds_since(start);
    for (const auto& [id, count] : runs) {
      twice_ += count > 1 ? 1U : 0U;
      missing_ += count == 0 ? 1U : 0U;
    }
    report("backlog", once, "tasks/s",
           [&] { return static_cast<double>(tasks_) / work_bare(tasks_, kBenchBatch); });
  }

  // Many threads, each publishing one task at a time.
  void publish_single() {
    add_queue("single");
    const std::vector<std::string> ids = workload_.ids(tasks_ / 2);
    std::atomic<std::size_t> next = 0;
    const auto start = SteadyClock::now();
    {
      std::vector<std::jthread> publishers;
      for (int p = 0; p < kPublishers; ++p)
        publishers.emplace_back([&] {
          for (std::size_t i = next++; i < ids.size(); i = next++)
            zone_.publish(workload_.task("single", ids[i])).value();
        });
    }
    const double once = static_cast<double>(ids.size()) / seconds_since(start);
    report("publish_single", once, "ids/s", [&] { return publish_bare(ids); });
  }

  // A backlog worked off by one handler: claim, run, record, and only then the next.
  void one_at_a_time() {
    add_queue("sequential");
    const std::size_t count = std::clamp<std::size_t>(tasks_ / 20, 100, 2000);
    const std::vector<std::string> ids = workload_.ids(count);
    for (const std::string& id : ids) zone_.publish(workload_.task("sequential", id)).value();
    publish_bare(ids);
    std::size_t runs = 0;
    auto worker =
        zone_.worker("sequential", [&](Context&) { return ++runs, Outcome::completed(); }).value();
    const auto start = SteadyClock::now();
    worker.run_until_empty().value();
    const double once = seconds_since(start) * 1000 / static_cast<double>(count);
    if (runs != count) (runs > count ? twice_ : missing_) += 1;
    report("sequential", once, "ms/task",
           [&] { return work_bare(count, 1) * 1000 / static_cast<double>(count); });
  }

  // 200 a second, published through one opening of the store and worked on through another, as by
  // two processes.
  void latency() {
    add_queue("latency");
    const std::size_t count = std::clamp<std::size_t>(tasks_ / 50, 50, 1000);
    std::vector<SteadyClock::time_point> published(count);
    std::vector<double> start_ms;
    std::vector<double> recorded_ms;
    auto other =
        Zone::open(url_, {.create = false, .nats = with_environment(session_.nats)}).value();
    std::vector<double> started(count);
    std::atomic<std::size_t> begun = 0;
    std::stop_source stop;
    auto worker = other
                      .worker("latency",
                              [&](Context& context) {
                                const std::size_t i = std::stoul(context.task().id.substr(36));
                                started[i] = seconds_since(published[i]) * 1000;
                                begun = i + 1;
                                begun.notify_one();
                                return Outcome::completed();
                              })
                      .value();
    std::jthread working([&] { worker.run(stop.get_token()).value(); });
    auto tick = SteadyClock::now();
    for (std::size_t i = 0; i < count; ++i) {
      tick += std::chrono::milliseconds{5};
      std::this_thread::sleep_until(tick);
      const std::string id = workload_.id() + std::to_string(i);
      published[i] = SteadyClock::now();
      zone_.publish(workload_.task("latency", id)).value();
      begun.wait(i);  // asking sooner would only be in the way
      // Without a pause the question would have the core that the answer needs.
      while (!completed(id)) std::this_thread::sleep_for(std::chrono::microseconds{20});
      recorded_ms.push_back(seconds_since(published[i]) * 1000);
      start_ms.push_back(started[i]);
    }
    stop.request_stop();
    working.join();
    report("latency_start_p50", percentile(start_ms, 0.5), "ms");
    report("latency_start_p99", percentile(start_ms, 0.99), "ms");
    report("latency_recorded_p50", percentile(recorded_ms, 0.5), "ms");
    report("latency_recorded_p99", percentile(recorded_ms, 0.99), "ms");
  }

  bool completed(const std::string& id) const {
    const std::vector<QueueView> queues = zone_.tasks().inspect(id).value().queues;
    return !queues.empty() && queues[0].state == State::completed;
  }

  Session& session_;
  Zone& zone_;
  const std::string url_;
  BareStoreBaseline& bare_;
  const std::size_t tasks_;
  Workload workload_{20'240'601};
  std::vector<std::string> ids_;
  std::uint64_t duplicates_ = 0;
  std::uint64_t twice_ = 0;
  std::uint64_t missing_ = 0;
};

// Ends the process on SIGINT and SIGTERM, and leaves nothing behind.
class Interruption {
 public:
  Interruption(Signals& signals, std::function<void()> clear)
      : signals_(signals), thread_([this, clear = std::move(clear)](std::stop_token ended) {
          while (!ended.stop_requested()) {
            if (!signals_.wait()) continue;
            clear();
            complain("interrupted; what was measured is not complete");
            ::_exit(kFailed);
          }
        }) {}
  ~Interruption() {
    thread_.request_stop();
    signals_.wake();
  }

 private:
  Signals& signals_;
  std::jthread thread_;  // last: it uses the others
};

// A zone that bench made goes again, but not when somebody has begun to use it meanwhile.
Result<void> clear(BareStoreBaseline& bare, const Zone& zone) {
  const auto queues = zone.queues().list();
  const bool ours = queues && std::all_of(queues->begin(), queues->end(), [](const Queue& queue) {
                      return std::find(kQueues.begin(), kQueues.end(), queue.name) != kQueues.end();
                    });
  return bare.clear(ours);
}

int measure(Session& session, Signals& signals, const std::string& url, std::size_t tasks,
            const std::function<void()>& clear_files) {
  const OpenOptions options{.nats = with_environment(session.nats)};
  auto bare = BareStoreBaseline::open(url, options);
  if (!bare) return session.fail(bare.error());
  auto zone = Zone::open(url, options);
  if (!zone) {
    static_cast<void>((*bare)->clear(false));
    return session.fail(zone.error());
  }
  auto entries = zone->tasks().log(0, 1);
  if (!entries || !entries->empty()) {
    static_cast<void>((*bare)->clear(false));
    if (!entries) return session.fail(entries.error());
    return session.usage("the store " + url + " holds tasks; bench needs one that is empty");
  }
  const Interruption interruption(signals, [&] {
    static_cast<void>(clear(**bare, *zone));
    clear_files();
  });
  std::optional<Error> failed;
  try {
    Bench run(session, *zone, url, **bare, tasks);
    run.run();
    if (!run.exact())
      failed = {.code = Code::failed,
                .message = "some task did not run exactly once: this is a bug"};
  } catch (const Failure& failure) {
    failed = failure.error();
  }
  if (auto cleared = clear(**bare, *zone); !cleared && !failed) failed = cleared.error();
  return failed ? session.fail(*failed) : kDone;
}

// Measures a store of one's own choice as it is, but never one that somebody uses.
int bench(Session& session, std::size_t tasks) {
  Signals signals;
  if (!session.store.empty()) return measure(session, signals, session.url(), tasks, [] {});
  const TempFolder folder("once-bench");
  if (folder.path().empty())
    return session.fail({.code = Code::failed,
                         .message = "the current folder cannot be written to; bench makes its "
                                    "files there, so go to the disk you want to measure"});
  return measure(session, signals, folder.path() + "/bench.db", tasks, [&] { folder.remove(); });
}

}  // namespace

void add_bench(CLI::App& root, Session& session) {
  auto* app = add_command(root, "bench", "Measure this machine, durability on");
  auto tasks = std::make_shared<std::optional<std::uint64_t>>();
  add_number(*app, "--tasks", *tasks, "How many tasks (50000)", 100, 100'000'000);
  add_example(
      *app,
      "Runs in a temporary folder here, or in an empty store given with --store; on a NATS\n"
      "server in a zone of its own, which is removed afterwards if it was not there. Each\n"
      "ratio_... is to bare SQL on the same disk, or bare JetStream on the same server.\n"
      "\n"
      "Examples:\n"
      "  once bench --tasks 100000\n"
      "  once bench --store nats://localhost/bench");
  when_given(*app, [&session, tasks] {
    session.command = [&session, tasks] {
      return bench(session, static_cast<std::size_t>(tasks->value_or(50'000)));
    };
  });
}

}  // namespace once::cli
