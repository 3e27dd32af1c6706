// once cancel ID..., or by filter: tasks that are not settled, or in doubt.
#include <fmt/format.h>

#include <algorithm>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/task/operator_action.h"

namespace once::cli {
namespace {

// In the order of a task's life: one that goes on while it is looked for is found later.
const std::vector<State> kCancelStates{State::scheduled, State::waiting, State::running,
                                       State::retrying, State::in_doubt};

struct CancelOptions {
  ActionOptions action{};
  std::optional<std::string> state{};
};

Result<Done> cancel_task(Zone& zone, const Target& target, const By& by) {
  auto state = zone.tasks().cancel(target.id, target.queue, by);
  if (!state) return state.error();
  if (*state == State::running) {
    return Done{"asked_to_stop",
                "runs and is asked to stop; it becomes cancelled unless it "
                "completes all the same"};
  }
  return Done{"cancelled", "is cancelled"};
}

int cancel(Session& session, CancelOptions options) {
  OperatorAction action{.verb = "cancel",
                        .outcome = "cancelled",
                        .kind = "unsettled",
                        .refusal = "is settled",
                        .states = kCancelStates,
                        .act = cancel_task};
  if (options.state) {
    const auto state = state_from(*options.state);
    if (!state ||
        std::find(kCancelStates.begin(), kCancelStates.end(), *state) == kCancelStates.end()) {
      return session.usage(
          fmt::format("--state takes scheduled, waiting, running, retrying or in_doubt, not \"{}\"",
                      *options.state));
    }
    if (!options.action.ids.empty()) {
      return session.usage("cancel takes ids or a filter, not both; --queue goes with either");
    }
    options.action.all = true;
    action.states = {*state};
    action.kind = *state == State::in_doubt ? "in doubt" : *options.state;
  }
  return carry_out(session, options.action, action);
}

}  // namespace

void add_cancel(CLI::App& root, Session& session) {
  auto* app = add_command(root, "cancel", "Cancel tasks that are not settled");
  auto options = std::make_shared<CancelOptions>();
  add_action_options(*app, options->action);
  add_text(*app, "--state", options->state, "STATE",
           "Only scheduled, waiting, running, retrying or in_doubt");
  add_example(
      *app,
      "One that runs is asked to stop: its program gets SIGTERM. It becomes cancelled unless\n"
      "it completes all the same.\n"
      "\n"
      "Example:\n"
      "  once cancel order-17 --reason 'ordered by mistake'\n"
      "  once cancel --queue billing --state scheduled --yes");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return cancel(session, *options); };
  });
}

}  // namespace once::cli
