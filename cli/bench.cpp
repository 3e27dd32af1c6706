// once bench: the workload W1 on a store of its own, with durability on, and the same as bare SQL
// beside it: 36-character ids, 256-byte JSON, 5 % of the ids published twice, a handler that only
// counts. Every run also proves that each id ran exactly once.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>
#include <unordered_map>

#include "cli/bare_sql.h"
#include "cli/commands.h"
#include "cli/json_line.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "once/zone.h"

namespace once::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kBatch = 256;
constexpr int kInFlight = 256;
constexpr int kPublishers = 256;

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
    std::vector<std::pair<std::size_t, std::size_t>> again;  // place, of which
    for (std::size_t i = 0; i < count; ++i) {
      out.push_back(id());
      if (i % 20 == 0) again.emplace_back(i + 100 + random_() % 901, i);
    }
    std::sort(again.rbegin(), again.rend());
    for (const auto& [place, which] : again) {
      const std::string twice = out[which];
      out.insert(out.begin() + static_cast<std::ptrdiff_t>(std::min(place, out.size())), twice);
    }
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
  Bench(Session& session, Zone zone, std::string url, std::string bare_path, std::size_t tasks)
      : session_(session),
        zone_(std::move(zone)),
        url_(std::move(url)),
        bare_(bare_path),
        tasks_(tasks) {}

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
  void report(std::string_view measure, double value, double bare, std::string_view unit) {
    report(measure, value, unit);
    report(fmt::format("ratio_{}", measure), value / bare, "of bare SQL");
  }

  Queue queue(const std::string& name) {
    Queue queue{.name = name, .topic = name};
    zone_.add(queue).value();
    return queue;
  }

  void publish_batch() {
    queue("backlog");
    ids_ = workload_.ids(tasks_);
    auto start = SteadyClock::now();
    for (std::size_t from = 0; from < ids_.size(); from += kBatch) {
      std::vector<Task> batch;
      for (std::size_t i = from; i < std::min(ids_.size(), from + kBatch); ++i)
        batch.push_back(workload_.task("backlog", ids_[i]));
      for (const auto& receipt : zone_.publish_batch(std::move(batch)))
        duplicates_ += receipt.value().duplicate ? 1U : 0U;
    }
    const double once = static_cast<double>(ids_.size()) / seconds_since(start);
    start = SteadyClock::now();
    for (std::size_t from = 0; from < ids_.size(); from += kBatch)
      bare_.publish(&ids_[from], std::min(kBatch, ids_.size() - from), workload_.body());
    report("publish_batch", once, static_cast<double>(ids_.size()) / seconds_since(start), "ids/s");
  }

  void backlog() {
    std::unordered_map<std::string, std::atomic<int>> runs;
    for (const std::string& id : ids_) runs.try_emplace(id, 0);
    auto start = SteadyClock::now();
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
    start = SteadyClock::now();
    for (std::size_t from = 1; from <= tasks_; from += kBatch) {
      const std::size_t count = std::min(kBatch, tasks_ - from + 1);
      bare_.claim(from, count);
      bare_.complete(from, count);
    }
    report("backlog", once, static_cast<double>(tasks_) / seconds_since(start), "tasks/s");
  }

  // Many threads, each publishing one task at a time.
  void publish_single() {
    queue("single");
    const std::vector<std::string> ids = workload_.ids(tasks_ / 2);
    std::atomic<std::size_t> next = 0;
    auto start = SteadyClock::now();
    {
      std::vector<std::jthread> publishers;
      for (int p = 0; p < kPublishers; ++p)
        publishers.emplace_back([&] {
          for (std::size_t i = next++; i < ids.size(); i = next++)
            zone_.publish(workload_.task("single", ids[i])).value();
        });
    }
    const double once = static_cast<double>(ids.size()) / seconds_since(start);
    start = SteadyClock::now();
    for (std::size_t from = 0; from < ids.size(); from += kBatch)
      bare_.publish(&ids[from], std::min(kBatch, ids.size() - from), workload_.body());
    report("publish_single", once, static_cast<double>(ids.size()) / seconds_since(start), "ids/s");
  }

  // A backlog worked off by one handler: claim, run, record, and only then the next.
  void one_at_a_time() {
    queue("sequential");
    const std::size_t count = std::clamp<std::size_t>(tasks_ / 20, 100, 2000);
    for (const std::string& id : workload_.ids(count))
      zone_.publish(workload_.task("sequential", id)).value();
    std::size_t runs = 0;
    auto worker =
        zone_.worker("sequential", [&](Context&) { return ++runs, Outcome::completed(); }).value();
    auto start = SteadyClock::now();
    worker.run_until_empty().value();
    const double once = seconds_since(start) * 1000 / static_cast<double>(count);
    if (runs != count) (runs > count ? twice_ : missing_) += 1;
    start = SteadyClock::now();
    for (std::size_t i = 0; i < count; ++i) {
      bare_.claim(10'000'000 + i, 1);
      bare_.complete(10'000'000 + i, 1);
    }
    report("sequential", once, seconds_since(start) * 1000 / static_cast<double>(count), "ms/task");
  }

  // 200 a second, published through one opening of the store and worked on through another, as by
  // two processes.
  void latency() {
    queue("latency");
    const std::size_t count = std::clamp<std::size_t>(tasks_ / 50, 50, 1000);
    std::vector<SteadyClock::time_point> published(count);
    std::vector<double> start_ms;
    std::vector<double> recorded_ms;
    auto other = Zone::open(url_).value();
    std::vector<double> started(count);
    std::stop_source stop;
    auto worker = other
                      .worker("latency",
                              [&](Context& context) {
                                const std::size_t i = std::stoul(context.task().id.substr(36));
                                started[i] = seconds_since(published[i]) * 1000;
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
      while (!completed(id)) {
      }
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
    const std::vector<QueueView> queues = zone_.inspect(id).value().queues;
    return !queues.empty() && queues[0].state == State::completed;
  }

  Session& session_;
  Zone zone_;
  const std::string url_;
  BareSql bare_;
  const std::size_t tasks_;
  Workload workload_{20'240'601};
  std::vector<std::string> ids_;
  std::uint64_t duplicates_ = 0;
  std::uint64_t twice_ = 0;
  std::uint64_t missing_ = 0;
};

// Removed with what is in it.
class Folder {
 public:
  Folder() {
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "once-bench.XXXXXX";
};

// Ends the process on SIGINT and SIGTERM without leaving the folder behind. What runs still writes
// there, so removing takes as often as it takes.
class Interruption {
 public:
  explicit Interruption(const std::string& folder)
      : thread_([this, folder](std::stop_token ended) {
          while (!ended.stop_requested()) {
            if (!signals_.wait()) continue;
            std::error_code error;
            for (int i = 0; i < 100 && std::filesystem::exists(folder, error); ++i) {
              std::filesystem::remove_all(folder, error);
            }
            complain("interrupted; what was measured is not complete");
            ::_exit(kFailed);
          }
        }) {}
  ~Interruption() {
    thread_.request_stop();
    signals_.wake();
  }

 private:
  Signals signals_;
  std::jthread thread_;  // last: it uses the others
};

int bench(Session& session, std::size_t tasks) {
  const Folder folder;
  if (folder.path().empty())
    return session.fail({.code = Code::failed,
                         .message = "the current folder cannot be written to; bench makes its "
                                    "files there, so go to the disk you want to measure"});
  const Interruption interruption(folder.path());
  // A store of one's own choice is measured as it is, but never one that somebody uses.
  const bool own = session.store.empty();
  const std::string url = own ? folder.path() + "/bench.db" : session.url();
  auto zone = Zone::open(url);
  if (!zone) return session.fail(zone.error());
  auto entries = zone->log(0, 1);
  if (!entries) return session.fail(entries.error());
  if (!entries->empty())
    return session.usage("the store " + url + " holds tasks; bench needs one that is empty");
  try {
    Bench run(session, std::move(*zone), url, folder.path() + "/bare.db", tasks);
    run.run();
    if (!run.exact())
      return session.fail(
          {.code = Code::failed, .message = "some task did not run exactly once: this is a bug"});
  } catch (const Failure& failure) {
    return session.fail(failure.error());
  } catch (const std::runtime_error& failure) {
    return session.fail({.code = Code::failed, .message = failure.what()});
  }
  return kDone;
}

}  // namespace

void add_bench(CLI::App& root, Session& session) {
  auto* app = root.add_subcommand("bench", "Measure this machine, durability on");
  auto tasks = std::make_shared<std::optional<std::uint64_t>>();
  add_number(*app, "--tasks", *tasks, "How many tasks (50000)", 100, 100'000'000);
  add_example(*app,
              "Runs in a temporary folder here, or in an empty store given with --store. Each\n"
              "ratio_... is to bare SQL that does the same on the same disk.\n"
              "\n"
              "Example:\n"
              "  once bench --tasks 100000");
  app->callback([&session, tasks] {
    session.command = [&session, tasks] {
      return bench(session, static_cast<std::size_t>(tasks->value_or(50'000)));
    };
  });
}

}  // namespace once::cli
