#include "exec/step_client.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/names.h"
#include "exec/exit_status.h"
#include "exec/program.h"

namespace once::engine {
namespace {

using step::Channel;
using step::Message;
using Kind = Message::Kind;

// What `env`, `timeout` and their like use for what is not the command's.
constexpr int kOwnFailure = 125;
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

constexpr char kKey[] = "ONCE_IDEMPOTENCY_KEY";
constexpr char kName[] = "ONCE_STEP_NAME";

StepExit own_failure(std::string said) { return {kOwnFailure, std::move(said)}; }

int status_of(int lookup_error) {
  return lookup_error == ENOENT || lookup_error == ENOTDIR ? kNotFound : kNotExecutable;
}

int exit_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? kSignalBase + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string end_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? "killed by " + signal_name(WTERMSIG(wait_status))
                                  : "exit " + std::to_string(WEXITSTATUS(wait_status));
}

// The worker's answer to a message; none: it is gone.
std::optional<Message> ask(Channel& worker, const Message& message) {
  if (!worker.send(message)) return std::nullopt;
  return worker.receive();
}

std::string gone_before_it_ran() { return "the worker is gone: nothing was run"; }

}  // namespace

StepExit StepClient::run() {
  if (auto sound = check(); !sound) return own_failure(sound.error().message);
  auto found = find_command(step_.command.front());
  if (found.error != 0)
    return {status_of(found.error), resolve_command(step_.command.front()).error().message};
  path_ = std::move(found.path);
  const char* const socket = std::getenv("ONCE_SOCKET");
  if (socket == nullptr || *socket == '\0')
    return own_failure(
        "a step belongs to a task, and ONCE_SOCKET is not set; nothing was run; only a program "
        "that "
        "a worker runs can run a step");
  Channel worker(step::connect_to(socket), core::kHighestMaxResult);
  Message begin{.kind = Kind::begin};
  begin.name = step_.name;
  begin.policy = step_.probe.empty() ? step_.in_doubt : InDoubt::probe;
  const auto order = ask(worker, begin);
  return order ? obey(worker, *order) : own_failure(gone_before_it_ran());
}

Result<void> StepClient::check() const {
  const auto refused = [](std::string why) {
    return Error{Code::invalid_input, std::move(why) + "; nothing was run"};
  };
  if (auto sound = core::check_step_name(step_.name); !sound) return sound.error();
  if (step_.command.empty()) return refused("a step needs a command");
  if (step_.in_doubt == InDoubt::steps)
    return refused("a step that is cut off is retried, held or probed; `steps` is for queues");
  if (step_.in_doubt == InDoubt::probe && step_.probe.empty())
    return refused("the policy probe needs a probe, which says whether the step happened");
  if (step_.in_doubt && step_.in_doubt != InDoubt::probe && !step_.probe.empty())
    return refused("a probe is for the policy probe, not for " +
                   std::string(to_string(*step_.in_doubt)));
  return {};
}

StepExit StepClient::obey(Channel& worker, const Message& order) {
  switch (order.kind) {
    case Kind::run: return run_command(worker, order);
    case Kind::ask: return ask_probe(worker, order);
    case Kind::remembered: return give_remembered(order);
    case Kind::over:
    case Kind::refused: return own_failure(order.bytes);
    default:
      return own_failure(
          "this `once` and the worker's do not understand each other; nothing was run; use the one "
          "that $ONCE_BIN names");
  }
}

StepExit StepClient::give_remembered(const Message& order) const {
  if (order.cut)
    return own_failure(named() +
                       " is done, but an older Once kept only the first MiB of its output; "
                       "nothing was run and nothing is written. Find out what it gave, "
                       "then give it another name or complete the task by hand.");
  const int error = write_out(order.bytes);
  if (error != 0 && error != EPIPE)
    return own_failure(
        named() + " is done, but its remembered output cannot be written: " + std::strerror(error));
  return {0, {}};
}

StepExit StepClient::run_command(Channel& worker, const Message& order) {
  if (const auto stop = signals_.pending_stop())
    return nothing_happened(worker, kSignalBase + *stop,
                            named() + " was asked to stop before it began; nothing was run");
  const StepProcess::Options options{.path = path_,
                                     .arguments = step_.command,
                                     .variables = environment(order.key),
                                     .limit = order.limit};
  auto end = StepProcess(signals_, options).run();
  if (end.start_error != 0)
    return nothing_happened(worker, status_of(end.start_error),
                            "cannot start '" + step_.command.front() +
                                "': " + std::strerror(end.start_error) + "; nothing was run");
  const int status = exit_of(end.status);
  if (status == 0) return record(worker, end);
  if (WIFSIGNALED(end.status) || is_no_verdict(status))
    return {status, named() + " ended without a verdict (" + end_of(end.status) +
                        "): it is in doubt, and its policy decides what becomes of it"};
  return nothing_happened(worker, status, {}, end_of(end.status));
}

StepExit StepClient::record(Channel& worker, StepProcess::End& end) {
  Message message{.kind = Kind::end};
  message.oversize = end.output.oversize();
  message.bytes = end.output.take();
  const auto answer = ask(worker, message);
  if (!answer || answer->kind != Kind::done)
    return own_failure(
        named() + " ran and was not recorded: " + (answer ? answer->bytes : "the worker is gone"));
  if (end.output_error != 0 && end.output_error != EPIPE)
    return own_failure(named() + " ran and is recorded, but its output cannot be written: " +
                       std::strerror(end.output_error));
  return {0, {}};
}

StepExit StepClient::nothing_happened(Channel& worker, int status, std::string said,
                                      const std::string& why) {
  Message failed{.kind = Kind::fail};
  failed.bytes = why.empty() ? said : why;
  const auto answer = ask(worker, failed);
  if (answer && answer->kind == Kind::done) return {status, std::move(said)};
  if (!said.empty()) said += "; ";
  return {status, said + named() + " did not happen, and that was not recorded: " +
                      (answer ? answer->bytes : "the worker is gone")};
}

StepExit StepClient::ask_probe(Channel& worker, const Message& order) {
  Message answer{.kind = Kind::hold};
  if (step_.probe.empty()) {
    answer.bytes = "the step was cut off, and it has no probe";
  } else {
    const StepProcess::Options options{.path = "/bin/sh",
                                       .arguments = {"/bin/sh", "-c", step_.probe},
                                       .variables = environment(order.key),
                                       .limit = order.limit,
                                       .passes_on = false,
                                       .reads_input = false};
    auto end = StepProcess(signals_, options).run();
    // Whatever it answers after that, it may not have looked to the end.
    if (end.stopped_by)
      return {kSignalBase + *end.stopped_by,
              named() + " was asked to stop while its probe ran; nothing was run"};
    if (end.start_error == 0 && exit_of(end.status) == 0) return happened(worker, end);
    if (end.start_error == 0 && exit_of(end.status) == 1)
      answer.kind = Kind::asked;
    else
      answer.bytes = "its probe does not know: " +
                     (end.start_error == 0 ? end_of(end.status) : std::strerror(end.start_error));
  }
  const auto next = ask(worker, answer);
  return next ? obey(worker, *next) : own_failure(gone_before_it_ran());
}

StepExit StepClient::happened(Channel& worker, StepProcess::End& probe) {
  const std::string output = probe.output.text();
  StepExit recorded = record(worker, probe);
  if (recorded.status != 0) return recorded;
  Message result{.kind = Kind::remembered};
  result.bytes = output;
  return give_remembered(result);
}

std::vector<std::string> StepClient::environment(const std::string& key) const {
  std::vector<std::string> variables;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const auto name = variable.substr(0, variable.find('='));
    if (name != kKey && name != kName) variables.emplace_back(variable);
  }
  variables.push_back(std::string(kKey) + "=" + key);
  variables.push_back(std::string(kName) + "=" + step_.name);
  return variables;
}

}  // namespace once::engine
