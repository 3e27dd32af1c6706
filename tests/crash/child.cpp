#include "crash/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "api/access.h"
#include "api/open_store.h"
#include "flow/runner.h"
#include "publish/publisher.h"
#include "support/faulty_store.h"
#include "support/order_flow.h"
#include "work/worker.h"

extern char** environ;

namespace once::crash {
namespace {

int exit_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void append_line(const std::string& file, const std::string& line) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    std::abort();
  ::close(fd);
}

// A store that is away for a while is waited for.
template <class Call>
auto answered(Call call) {
  while (true) {
    auto answer = call();
    if (answer || !answer.error().retryable) return std::move(answer).value();
  }
}

int work(store::Store& store, const Role& role, engine::Worker::Until until,
         engine::WorkerSettings settings) {
  const auto scheduler = engine::thread_scheduler();
  for (const Queue& queue : answered([&] { return store.queues(); }))
    if (queue.name == role.queue) settings.queue = queue;
  settings.concurrency = static_cast<std::size_t>(role.concurrency);
  settings.name = role.name + "-" + std::to_string(::getpid());
  auto worker = answered([&] { return engine::Worker::make(store, *scheduler, settings); });
  worker->run(until, {}).value();
  return 0;
}

engine::WorkerSettings plain_tasks(const Role& role) {
  return {.handler = [&](const engine::TaskAttempt& task_attempt) -> engine::Report {
    if (role.dies == "before_effect") ::raise(SIGKILL);
    if (role.fails == "yes" && task_attempt.attempt == 1)
      return {.outcome = Outcome::failed("the first attempt fails")};
    if (role.task_ms > 0) ::poll(nullptr, 0, role.task_ms);  // the work that takes time
    append_line(role.effects,
                task_attempt.task.id + " " + std::to_string(task_attempt.attempt) + "\n");
    if (role.dies == "after_effect") ::raise(SIGKILL);
    if (role.result == 0) return {.outcome = Outcome::completed()};
    return {.outcome = Outcome::completed(Body::bytes(large_result(role.result)))};
  }};
}

// The steps of the workflow of order_flow.h.
engine::Report take_step(store::Store& store, const Role& role, const engine::TaskAttempt& a) {
  using testing::StepEnd;
  const testing::StepPlan& step = *testing::order_step(a.step);
  while (testing::hangs(step, a.attempt) && !a.stop.stop_requested()) ::poll(nullptr, 0, 5);
  if (a.stop.stop_requested()) return {.outcome = Outcome::unknown("stopped")};
  const std::string_view input = a.task.body.text();
  const bool retried =
      answered([&] { return store.find(std::string(a.run) + ".retried.2"); }).has_value();
  const StepEnd end = testing::end_of_attempt(step, a.attempt, input, retried);
  if (end == StepEnd::failed) return {.outcome = Outcome::failed("as it should")};
  if (end == StepEnd::dead) return {.outcome = Outcome::dead("the order is bad")};
  append_line(role.effects, a.task.id + " " + std::to_string(a.attempt) + "\n");
  const std::string value = testing::value_of(testing::number_from(step.id, input));
  return {.outcome = Outcome::completed(Body::json(value).value())};
}

// Until no run is active.
int run_flows(store::Store& store, const Role& role) {
  const auto scheduler = engine::thread_scheduler();
  auto runner = answered([&] {
    return engine::FlowRunner::make(store, *scheduler,
                                    {.concurrency = static_cast<std::size_t>(role.concurrency),
                                     .name = "runner-" + std::to_string(::getpid())});
  });
  runner->run(engine::Worker::Until::empty, {}).value();
  return 0;
}

// A handler of three steps.
int step(std::unique_ptr<store::Store> store, const Role& role) {
  Zone zone = detail::Access::zone_on(std::move(store));
  const auto dies = [&](const std::string& where, const std::string& name) {
    if (role.dies == where + ":" + name) ::raise(SIGKILL);
  };
  auto worker = zone.worker(
      role.queue,
      [&](Context& context) {
        for (const std::string name : kSteps) {
          const auto effect = [&] {
            dies("in", name);
            append_line(role.effects, name + " " + std::to_string(context.attempt()) + "\n");
            dies("done", name);
          };
          dies("before", name);
          if (role.policy == "probe")
            context.step(name, effect, [&] { return effects_in(role.effects).contains(name); });
          else
            context.step(name, effect, in_doubt_from(role.policy));
          dies("after", name);
        }
        return Outcome::completed();
      },
      {.name = "stepper-" + std::to_string(::getpid())});
  worker.value().run_until_empty().value();
  return 0;
}

// A person who says that what is in doubt has happened.
int resolve(std::unique_ptr<store::Store> store, const Role& role) {
  Zone zone = detail::Access::zone_on(std::move(store));
  zone.tasks().complete(role.task, role.queue, Body::json("7").value(), {.who = "ann"}).value();
  return 0;
}

// Prints "ID SEQUENCE DUPLICATE" per receipt, in batches, each line only once it has the receipt.
int publish(store::Store& store, const Role& role) {
  const auto scheduler = engine::thread_scheduler();
  engine::Publisher publisher(store, *scheduler);
  constexpr int kBatch = 50;
  for (int from = role.first; from < role.first + role.count; from += kBatch) {
    std::vector<Task> tasks;
    for (int i = from; i < std::min(role.first + role.count, from + kBatch); ++i) {
      const std::string id = "task-" + std::to_string(i);
      tasks.push_back(
          {.topic = "t", .id = id, .body = Body::json("{\"id\":\"" + id + "\"}").value()});
    }
    std::string lines;
    for (const auto& receipt : publisher.publish(std::move(tasks)))
      lines += receipt.value().id + (receipt.value().duplicate ? " duplicate\n" : " new\n");
    append_line(role.effects, lines);
  }
  return 0;
}

// Reads all there is to read, over and over, until it is killed.
int read(store::Store& store) {
  while (true) {
    core::Sequence after{};
    while (true) {
      const auto entries = store.read(after, 500, {}).value();
      if (entries.empty()) break;
      after = entries.back().sequence;
    }
    for (const Queue& queue : store.queues().value()) {
      static_cast<void>(store.counts(queue.name).value());
      static_cast<void>(store.rows({.queue = queue.name}, nullptr, 500).value());
    }
  }
}

}  // namespace

int run_role(const std::vector<std::string>& words) {
  const Role role{.name = words.at(0),
                  .database = words.at(1),
                  .queue = words.at(2),
                  .effects = words.at(3),
                  .faults = words.at(4),
                  .dies = words.at(5),
                  .policy = words.at(6),
                  .fails = words.at(7),
                  .concurrency = std::stoi(words.at(8)),
                  .task_ms = std::stoi(words.at(9)),
                  .first = std::stoi(words.at(10)),
                  .count = std::stoi(words.at(11)),
                  .task = words.at(12),
                  .result = std::stoi(words.at(13))};
  try {
    auto plan = testing::FaultPlan::parse(role.faults);
    if (!plan) return 90;
    auto store = std::make_unique<testing::FaultyStore>(
        answered([&] { return api::open_store(role.database, {}); }), *plan);
    if (role.name == "stepper") return step(std::move(store), role);
    if (role.name == "person") return resolve(std::move(store), role);
    using Until = engine::Worker::Until;
    if (role.name == "worker") return work(*store, role, Until::empty, plain_tasks(role));
    if (role.name == "step_worker")
      return work(*store, role, Until::stopped,
                  {.handler = [&](const engine::TaskAttempt& task_attempt) {
                    return take_step(*store, role, task_attempt);
                  }});
    if (role.name == "runner") return run_flows(*store, role);
    if (role.name == "publisher") return publish(*store, role);
    if (role.name == "reader") return read(*store);
    return 91;
  } catch (const Failure& failure) {
    std::cerr << role.name << ": " << failure.what() << '\n';
    return 92;
  }
}

Child::Child(const Role& role) {
  const std::vector<std::string> words{"/proc/self/exe",
                                       "--child",
                                       role.name,
                                       role.database,
                                       role.queue,
                                       role.effects,
                                       role.faults,
                                       role.dies,
                                       role.policy,
                                       role.fails,
                                       std::to_string(role.concurrency),
                                       std::to_string(role.task_ms),
                                       std::to_string(role.first),
                                       std::to_string(role.count),
                                       role.task,
                                       std::to_string(role.result)};
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  if (::posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) != 0)
    std::abort();
}

Child::~Child() {
  if (pid_ > 0) kill();
}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(status_, other.status_);
  return *this;
}

void Child::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
  wait();
}

int Child::wait() {
  if (pid_ > 0) {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    status_ = exit_status(status);
    pid_ = -1;
  }
  return status_;
}

bool Child::ended() {
  int status = 0;
  if (pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    status_ = exit_status(status);
    pid_ = -1;
  }
  return pid_ < 0;
}

// Quick to make: a handler that takes long renews its lease, and a fault counts the writes.
std::string large_result(int bytes) {
  constexpr std::size_t kPiece = 4096;
  std::string text(static_cast<std::size_t>(bytes), '.');
  for (std::size_t at = 0; at + kPiece <= text.size(); at += kPiece) {
    const std::string number = std::to_string(at);
    text.replace(at, number.size(), number);
  }
  return text;
}

std::map<std::string, int> effects_in(const std::string& file) {
  std::map<std::string, int> effects;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) ++effects[line.substr(0, line.find(' '))];
  return effects;
}

}  // namespace once::crash
