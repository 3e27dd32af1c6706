// Implements the harness with real processes.
#include "program/harness.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "exec/process_table.h"
#include "store/file_descriptor.h"

namespace once::testing {
namespace fs = std::filesystem;

std::string self() { return fs::read_symlink("/proc/self/exe"); }

Command shell(const std::string& script) { return {"/bin/sh", "-c", script, "sh"}; }

// Of these tests and their workers alone: others may run at the same time, and a worker ends what
// earlier attempts of its store left.
std::string store_url() {
  static const std::string run = std::to_string(::getpid());
  ::setenv("PROGRAM_TESTS", run.c_str(), 0);  // a worker has it from its test
  return std::string("sqlite:/tasks/") + std::getenv("PROGRAM_TESTS") + "/once.db";
}

Result<engine::Handler> handler_of(const Command& command, Duration grace) {
  return engine::program_handler(
      {.command = command, .grace = grace, .supervisor = self(), .store = store_url()});
}

Result<engine::Handler> probe_of(const std::string& probe, Duration grace) {
  return engine::program_probe({.command = {"false"},
                                .probe = probe,
                                .grace = grace,
                                .supervisor = self(),
                                .store = store_url()});
}

engine::TaskAttempt task_attempt_of(const Attempt& attempt) {
  engine::TaskAttempt task_attempt{attempt.task};
  task_attempt.sequence = {attempt.sequence};
  task_attempt.zone = "zone";
  task_attempt.queue = "orders";
  task_attempt.key = attempt.task.id;
  task_attempt.token = {attempt.token};
  task_attempt.attempt = attempt.attempt;
  task_attempt.in_doubt = attempt.in_doubt;
  task_attempt.published_at = Time{Duration{1'700'000'000'123}};
  task_attempt.deadline = attempt.deadline;
  task_attempt.lease = attempt.lease;
  task_attempt.inheritable_fd = attempt.inheritable_fd;
  task_attempt.stop = attempt.stop;
  task_attempt.steps = attempt.steps;
  task_attempt.max_result = attempt.max_result;
  task_attempt.run = attempt.run;
  task_attempt.step = attempt.step;
  return task_attempt;
}

engine::Report run(const engine::Handler& handler, const Attempt& attempt) {
  return handler(task_attempt_of(attempt));
}

engine::Report run(const Command& command, const Attempt& attempt) {
  return run(handler_of(command, attempt.grace).value(), attempt);
}

Running::Running(Command command, Attempt attempt)
    : thread_([this, command = std::move(command), attempt = std::move(attempt)]() mutable {
        attempt.stop = stop_.get_token();
        report_ = run(command, attempt);
      }) {}

engine::Report Running::report() {
  if (thread_.joinable()) thread_.join();
  return *report_;
}

bool alive(pid_t pid) {
  const auto all = engine::processes();
  return std::any_of(all.begin(), all.end(), [&](const engine::Process& process) {
    return process.pid == pid && process.state != 'Z';
  });
}

pid_t parent_of(pid_t pid) {
  for (const auto& process : engine::processes())
    if (process.pid == pid) return process.parent;
  return 0;
}

std::string contents(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<int> open_descriptors(pid_t pid) {
  std::vector<int> found;
  std::error_code gone;
  for (fs::directory_iterator it("/proc/" + std::to_string(pid) + "/fd", gone), end;
       !gone && it != end; it.increment(gone))
    found.push_back(std::stoi(it->path().filename()));
  std::sort(found.begin(), found.end());
  return found;
}

Marks::Marks() { ::setenv("MARKS", folder_.path().c_str(), 1); }

std::optional<pid_t> Marks::pid(const std::string& name) const {
  const auto text = contents(folder_ / name);
  if (text.empty() || text.back() != '\n') return std::nullopt;
  return std::atoi(text.c_str());
}

std::vector<pid_t> Marks::pids() const {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    if (!entry.is_regular_file()) continue;
    if (const auto mark = pid(entry.path().filename()); mark && *mark > 0) found.push_back(*mark);
  }
  return found;
}

pid_t Marks::await_pid(const std::string& name) const {
  eventually([&] { return pid(name).has_value(); });
  return pid(name).value_or(0);
}

bool Marks::await_count(std::size_t count) const {
  return eventually([&] { return pids().size() >= count; });
}

WorkerProcess::WorkerProcess(const Marks& marks, int count, Duration lease,
                             const Command& command) {
  Command arguments = {self(), "--worker", marks.path(), std::to_string(count),
                       std::to_string(lease.count())};
  arguments.insert(arguments.end(), command.begin(), command.end());
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  if (::posix_spawn(&pid_, pointers[0], nullptr, nullptr, pointers.data(), ::environ) != 0)
    throw std::runtime_error("the worker could not be started");
}

WorkerProcess::~WorkerProcess() {
  if (pid_ <= 0) return;
  signal(SIGKILL);
  wait();
}

void WorkerProcess::signal(int number) const { ::kill(pid_, number); }

void WorkerProcess::wait() {
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

// --worker FOLDER COUNT LEASE_MS COMMAND...
int worker_main(int argc, char** argv) {
  const fs::path folder = argv[2];
  const int count = std::atoi(argv[3]);
  const Command command(argv + 5, argv + argc);
  const store::FileDescriptor lock(
      ::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ::setenv("TMPDIR", folder.c_str(), 1);  // what outlives a killed worker goes with the marks
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return 1;
  // What a careless application around the worker does; programs must not see it.
  const store::FileDescriptor leaked(::open("/dev/null", O_RDONLY));
  const auto handler = handler_of(command).value();
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      Attempt attempt;
      attempt.task.id = "task-" + std::to_string(i);
      attempt.lease = Duration{std::atoi(argv[4])};
      attempt.inheritable_fd = lock.get();
      const auto report = run(handler, attempt);
      std::ofstream(folder / ("report." + std::to_string(i))) << report.outcome.why() << '.';
    });
  return 0;
}

bool lock_is_free(const Marks& marks) {
  const store::FileDescriptor lock(::open((marks.path() / "lock").c_str(), O_RDWR | O_CLOEXEC));
  return lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace once::testing
