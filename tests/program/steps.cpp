#include "program/steps.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

#include "tooling/step.h"

namespace once::testing {

engine::Steps::BeginResult FakeSteps::begin(std::string_view name, std::optional<InDoubt> policy,
                                            bool asked) {
  std::string call = "begin " + std::string(name);
  if (policy) call += " " + std::string(to_string(*policy));
  wait_and_note("begin", call + (asked ? " asked" : ""));
  const std::lock_guard lock(mutex_);
  return asked ? BeginResult{} : answer_;
}

Result<void> FakeSteps::end(std::string_view name, Body result, std::uint64_t oversize) {
  auto recorded = record("end " + std::string(name) +
                         (oversize > 0 ? " " + std::to_string(oversize) : std::string()));
  const std::lock_guard lock(mutex_);
  if (recorded) results_[std::string(name)] = result.text();
  return recorded;
}

Result<void> FakeSteps::fail(std::string_view name, std::string_view why) {
  why_ = why;
  return record("fail " + std::string(name));
}

Error FakeSteps::hold(std::string_view name, std::string why) {
  wait_and_note("hold", "hold " + std::string(name) + ": " + why);
  return Error{Code::wrong_state, "the task is held"};
}

void FakeSteps::answer(Kind kind, Body result, bool cut) {
  const std::lock_guard lock(mutex_);
  answer_ = {.kind = kind, .result = std::move(result), .result_cut = cut};
  if (kind == Kind::over) answer_.error = Error{Code::fenced, "the task was taken over"};
  if (kind == Kind::refused) answer_.error = Error{Code::invalid_input, "used before"};
}

void FakeSteps::block(const std::string& call) {
  const std::lock_guard lock(mutex_);
  blocked_.insert(call);
}

void FakeSteps::unblock() {
  const std::lock_guard lock(mutex_);
  blocked_.clear();
  unblocked_.notify_all();
}

bool FakeSteps::is_blocked() const {
  const std::lock_guard lock(mutex_);
  return waiting_ > 0;
}

std::vector<std::string> FakeSteps::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

std::string FakeSteps::result(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = results_.find(name);
  return found != results_.end() ? found->second : "none";
}

Result<void> FakeSteps::record(std::string call) {
  wait_and_note(call.substr(0, call.find(' ')), call);
  const std::lock_guard lock(mutex_);
  if (refuses_) return Error{Code::fenced, "the task was taken over"};
  return {};
}

void FakeSteps::wait_and_note(const std::string& kind, const std::string& call) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  unblocked_.wait(lock, [&] { return !blocked_.contains(kind); });
  --waiting_;
  calls_.push_back(call);
}

Command stepping(const std::string& script) {
  return shell("export STEP=\"$ONCE_BIN --step\"; step() { $STEP \"$@\"; }\n" + script);
}

int step_main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // as the command does
  StepCommand step;
  step.name = argc > 2 ? argv[2] : "";
  int at = 3;
  for (; at + 1 < argc && std::strcmp(argv[at], "--") != 0; at += 2) {
    if (std::strcmp(argv[at], "--in-doubt") == 0) step.in_doubt = in_doubt_from(argv[at + 1]);
    if (std::strcmp(argv[at], "--probe") == 0) step.probe = argv[at + 1];
  }
  if (at < argc) step.command.assign(argv + at + 1, argv + argc);
  const StepExit exit = run_step(step);
  if (!exit.said.empty()) ::dprintf(STDERR_FILENO, "once: %s\n", exit.said.c_str());
  return exit.status;
}

}  // namespace once::testing
