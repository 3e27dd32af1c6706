// The agent does what a real one does: a few steps, each some work and then an effect outside, here a
// line in a file. The steps are durable, so whoever takes the task over goes on after the last one
// that was recorded.
#include "cli/demo/agent.h"

#include <fmt/format.h>

#include <cstdlib>
#include <thread>

#include "cli/app/session.h"
#include "cli/demo/child.h"
#include "cli/demo/lines.h"
#include "cli/demo/plain.h"
#include "tooling/step.h"

namespace once::cli::demo {
namespace {

constexpr int kUsageExit = 2;
constexpr Duration kIdle{50};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Steps differ, but one step takes as long each time it is run.
Duration length_of(const std::string& task, std::string_view step, Duration work) {
  std::uint32_t mixed = 2166136261U;
  for (const char c : task + std::string(step))
    mixed = (mixed ^ static_cast<unsigned>(c)) * 16777619U;
  const auto percent = static_cast<Duration::rep>(60 + mixed % 81);
  return work * percent / static_cast<Duration::rep>(100 * kSteps.size());
}

// What each of them is told: where the run's files are, which worker it belongs to, how long a task
// takes.
struct Part {
  Setting setting{};
  std::string worker{};
  std::string task = variable("ONCE_KEY");
  std::string attempt = variable("ONCE_ATTEMPT");

  void tell(std::string_view what, std::string_view step = "-") const {
    append_line(setting.events(), fmt::format("{} {} {} {} {}", what, worker, task, attempt, step));
  }
};

std::vector<std::string> command(const Setting& setting, std::string part,
                                 const std::string& worker) {
  return {setting.self, std::move(part), setting.folder, worker,
          std::to_string(setting.work.count())};
}

int agent(const Part& part) {
  part.tell("begin");
  for (const char* step : kSteps) {
    std::vector<std::string> effect = command(part.setting, "--demo-effect", part.worker);
    effect.emplace_back(step);
    const StepExit done =
        run_step({.name = step, .command = std::move(effect), .in_doubt = InDoubt::retry});
    if (!done.said.empty()) complain(done.said);
    if (done.status != 0) return done.status;
  }
  part.tell("end");
  return 0;
}

// The effect is a line in the file.
int work_and_write(const Part& part, const std::string& step, const std::string& file) {
  std::this_thread::sleep_for(length_of(part.task, step, part.setting.work));
  const std::string line = fmt::format("{} {} {} {}", part.task, step, part.attempt, part.worker);
  return append_line(file, line) ? 0 : 1;
}

int effect(const Part& part, const std::string& step) {
  part.tell("step", step);
  return work_and_write(part, step, part.setting.effects());
}

// The same work on the plain queue: no steps, and the acknowledgement at the end.
int plain_agent(Part part) {
  for (PlainQueue queue(part.setting);;) {
    const auto message = queue.lease();
    if (!message) {
      std::this_thread::sleep_for(kIdle);
      continue;
    }
    part.task = PlainQueue::task_of(*message);
    part.attempt = message->substr(0, message->find(' '));
    for (const char* step : kSteps) {
      if (work_and_write(part, step, part.setting.plain_effects()) != 0) return 1;
    }
    queue.acknowledge(*message);
  }
}

}  // namespace

bool is_part(std::string_view argument) { return argument.starts_with("--demo-"); }

std::vector<std::string> agent_program(const Setting& setting, const std::string& worker) {
  return command(setting, "--demo-agent", worker);
}

int part_main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments[0] == "--demo-child") return child_main(argc, argv);
  if (arguments.size() < 4) return kUsageExit;
  Part part{.worker = arguments[2]};
  part.setting.self = variable("ONCE_BIN");
  part.setting.folder = arguments[1];
  part.setting.work = Duration{std::atoll(arguments[3].c_str())};
  if (arguments[0] == "--demo-agent") return agent(part);
  if (arguments[0] == "--demo-plain") return plain_agent(part);
  if (arguments[0] == "--demo-effect" && arguments.size() == 5) return effect(part, arguments[4]);
  return kUsageExit;
}

}  // namespace once::cli::demo
