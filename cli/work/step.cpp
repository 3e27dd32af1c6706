// once step NAME [options] -- CMD ARGS...: runs a command once for the task whose program calls it.
#include "tooling/step.h"

#include <fmt/format.h>

#include <cstdlib>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "shapes/values.h"

namespace once::cli {
namespace {

struct StepOptions {
  std::string name{};
  std::optional<std::string> in_doubt{};
  std::optional<std::string> probe{};
};

int failed(std::string_view why) {
  complain(why);
  return kStepFailed;
}

// Standard output is the program's alone, with --json too.
int step(Session& session, const StepOptions& options) {
  if (session.program.empty()) {
    return failed(
        "step needs `--` and the program to run: once step NAME [options] -- CMD ARGS...");
  }
  StepCommand command{.name = options.name, .command = session.program};
  if (options.in_doubt) {
    command.in_doubt = in_doubt_from(*options.in_doubt);
    if (!command.in_doubt || command.in_doubt == InDoubt::steps) {
      return failed(
          fmt::format("--in-doubt takes retry, hold or probe, not \"{}\"; nothing was run",
                      printable(*options.in_doubt)));
    }
  }
  if (options.probe) {
    if (options.probe->empty()) return failed("--probe is empty; nothing was run");
    command.probe = *options.probe;
  }
  if (command.in_doubt == InDoubt::probe && !options.probe) {
    return failed(
        "--in-doubt probe needs --probe CMD, which says whether the step happened; nothing was "
        "run");
  }
  if (command.in_doubt && command.in_doubt != InDoubt::probe && options.probe) {
    return failed(fmt::format("--probe is for --in-doubt probe, not for {}; nothing was run",
                              to_string(*command.in_doubt)));
  }
  const StepExit exit = run_step(command);
  if (exit.said.empty()) return exit.status;
  const bool alone = exit.status == kStepFailed && std::getenv("ONCE_SOCKET") == nullptr;
  complain(alone ? exit.said + ". Use `once step` in a program that `once work` runs" : exit.said);
  return exit.status;
}

}  // namespace

void add_step(CLI::App& root, Session& session) {
  auto* app = add_command(root, "step", "Run a command once per task, inside a program of `work`");
  auto options = std::make_shared<StepOptions>();
  add_needed(*app, "NAME", options->name, "The step's name, another one for each step of a task");
  add_text(*app, "--in-doubt", options->in_doubt, "POLICY",
           "What becomes of it when it is cut off: retry, hold or probe (the queue's)");
  add_text(*app, "--probe", options->probe, "CMD",
           "Says whether it happened: exit 0 yes, with its output; 1 no; any other: hold");
  add_example(
      *app,
      "Passes the command's output and exit status on, and remembers the output when it\n"
      "exits 0: a later attempt of the task prints that and runs nothing. That it begins is\n"
      "recorded before it runs, so that a step which is cut off is known to be in doubt.\n"
      "Exit 74, 129 to 192 and a signal are no verdict: in doubt too.\n"
      "\n"
      "The command has the program's standard input, standard error and environment, with\n"
      "ONCE_STEP_NAME and an ONCE_IDEMPOTENCY_KEY of the step's own. --probe is run by\n"
      "/bin/sh -c with the same environment and no input.\n"
      "\n"
      "Exit status: the command's; 125 the step was not run or not recorded (the task was\n"
      "taken over, is held, the worker is gone, usage), 126 not executable, 127 not found.\n"
      "\n"
      "Example:\n"
      "  # in a program that `once work` runs\n"
      "  once step charge --in-doubt hold -- ./charge --currency EUR\n"
      "  once step push --probe 'git fetch -q || exit 2; git log origin/main | grep \"$ONCE_ID\"' "
      "\\\n"
      "    -- git push");
  when_given(*app, [&session, options] {
    session.command = [&session, options] {
      try {
        return step(session, *options);
      } catch (const std::exception& error) {
        return failed(error.what());
      }
    };
  });
}

}  // namespace once::cli
