// Ids are resolved one by one through their story; a filter is resolved as a whole, and asked about
// before anything is done.
#include "cli/task/operator_action.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "cli/app/options.h"
#include "cli/flow/flow.h"
#include "shapes/queue_definition.h"
#include "shapes/task_json.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

bool fits(const OperatorAction& action, State state) {
  return std::find(action.states.begin(), action.states.end(), state) != action.states.end();
}

constexpr std::string_view kUnrouted = "no queue takes its topic";

std::string where_it_stands(const TaskView& task) {
  if (task.queues.empty()) {
    return std::string(task.entry.body ? kUnrouted : "it was settled long ago");
  }
  std::vector<std::string> places;
  for (const QueueView& queue : task.queues) {
    places.push_back(fmt::format("{} in queue {}", to_string(queue.state), queue.queue));
  }
  return fmt::format("{}", fmt::join(places, ", "));
}

// What is done to runs instead; who drops one that failed closes it.
std::string_view flow_command_for(std::string_view verb) {
  if (verb == "drop") return "cancel";
  return verb == "cancel" || verb == "retry" ? verb : "show";
}

class Doing {
 public:
  Doing(Session& session, const ActionOptions& options, const OperatorAction& action, Zone zone,
        std::vector<Queue> queues)
      : session_(session),
        options_(options),
        action_(action),
        zone_(std::move(zone)),
        queues_(std::move(queues)),
        by_{.who = options.by.value_or(""), .why = options.reason.value_or("")} {}

  int by_ids() {
    std::set<std::string> seen;
    for (const std::string& id : options_.ids) {
      if (!seen.insert(id).second) continue;
      auto task = where_fitting(zone_, id, options_.filter.queue, action_);
      if (!task) {
        Error error = task.error();
        error.message += "; nothing was done";
        failed(error, {id, options_.filter.queue.value_or("")});
        continue;
      }
      for (const QueueView& queue : task->queues) act(target(id, queue.queue));
    }
    return status_;
  }

  int by_filter() {
    auto items = find_tasks(zone_, options_.filter, action_.states);
    if (!items) return session_.fail(items.error());
    if (!options_.dry_run && !options_.yes) {
      if (const auto refused = ask(items->size())) return *refused;
    }
    if (items->empty()) session_.hint(fmt::format("no {} match", tasks()));
    for (const ListItem& item : *items) act(target(item.id, item.queue));
    return status_;
  }

 private:
  Target target(const std::string& id, const std::string& queue) const {
    const auto definition = find_queue(queues_, queue);
    return {id, queue, definition && definition->ledger};
  }

  std::string task_word() const {
    std::string kind = action_.kind;
    std::replace(kind.begin(), kind.end(), ' ', '-');
    return kind + " task";
  }
  std::string tasks() const { return task_word() + 's'; }

  // None: go on.
  std::optional<int> ask(std::size_t count) {
    const std::string found =
        fmt::format("{} {}", counted(count, task_word()), count == 1 ? "matches" : "match");
    if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDERR_FILENO) != 1) {
      return session_.usage(
          fmt::format("{}; nothing was done: add --yes to {} what matches, or --dry-run to see it",
                      found, action_.verb));
    }
    if (count == 0) return {};
    fmt::print(stderr, "{}; {} {}? [y/N] ", found, action_.verb, count == 1 ? "it" : "them");
    std::string answer;
    std::getline(std::cin, answer);
    if (answer == "y" || answer == "Y" || answer == "yes") return {};
    return session_.fail({.code = Code::failed, .message = "nothing was done"});
  }

  void act(const Target& target) {
    if (session_.out.closed()) return;  // nobody would learn what was done
    if (action_.check) {
      if (auto right = action_.check(zone_, target); !right) return failed(right.error(), target);
    }
    if (options_.dry_run) {
      tell(target, {action_.outcome,
                    action_.foreseen.empty() ? "would be " + action_.outcome : action_.foreseen});
      return;
    }
    auto done = action_.act(zone_, target, by_);
    if (done) {
      tell(target, *done);
    } else {
      failed(done.error(), target);
    }
    session_.out.flush();
  }

  void tell(const Target& target, const Done& done) {
    if (session_.json) {
      session_.out.line(action_json(target.id, target.queue, done.outcome, options_.dry_run));
    } else {
      session_.say(
          fmt::format("{} in queue {} {}", printable(target.id), target.queue, done.words));
    }
  }

  void failed(const Error& error, const Target& target) {
    JsonLine about;
    about.text("id", target.id).text_or_null("queue", target.queue);
    const int status = session_.fail(error, about);
    if (status_ == kDone) status_ = status;
  }

  Session& session_;
  const ActionOptions& options_;
  const OperatorAction& action_;
  Zone zone_;
  const std::vector<Queue> queues_;
  const By by_;
  int status_ = kDone;
};

}  // namespace

void add_action_options(CLI::App& app, ActionOptions& options) {
  add_words(app, "ID", options.ids, "The tasks' ids; none: those that the filter finds");
  add_filter_options(app, options.filter, "all");
  add_flag(app, "--all", options.all, "Without a filter: every one");
  add_flag(app, "--yes", options.yes, "Do not ask before a filter's tasks are touched");
  add_flag(app, "--dry-run", options.dry_run, "Say what would be done, and do nothing");
  add_text(app, "--reason", options.reason, "TEXT", "Why; becomes part of the task's story");
  add_text(app, "--by", options.by, "NAME", "Who; becomes part of the story (user@host)");
}

Result<TaskView> where_fitting(const Zone& zone, const std::string& id,
                               const std::optional<std::string>& queue,
                               const OperatorAction& action) {
  auto task = zone.tasks().inspect(id);
  if (is_run(zone, id, task)) {
    return Error{
        .code = Code::wrong_state,
        .message = fmt::format("{0} is a run of a workflow, not a task (once flow {1} {0})", id,
                               flow_command_for(action.verb))};
  }
  if (!task) return task.error();
  auto& queues = task->queues;
  if (queue) {
    std::erase_if(queues, [&](const QueueView& view) { return view.queue != *queue; });
    if (queues.empty()) {
      return Error{.code = Code::not_found,
                   .message = fmt::format("queue {} does not hold {}", *queue, id)};
    }
  }
  const std::string elsewhere = where_it_stands(*task);
  std::erase_if(queues, [&](const QueueView& view) { return !fits(action, view.state); });
  if (queues.empty()) {
    const bool nowhere = elsewhere == kUnrouted;
    return Error{.code = Code::wrong_state,
                 .message = fmt::format("{} {}: {}", id,
                                        nowhere ? "is in no queue" : action.refusal, elsewhere)};
  }
  return task;
}

int carry_out(Session& session, const ActionOptions& options, const OperatorAction& action) {
  const bool filtered = options.filter.beyond_queue() || options.all;
  if (!options.ids.empty() && filtered) {
    return session.usage(
        fmt::format("{} takes ids or a filter, not both; --queue goes with either", action.verb));
  }
  if (options.ids.empty() && !filtered && !options.filter.queue) {
    return session.usage(
        fmt::format("{} needs ids, a filter such as --queue or --error, or --all; nothing was done",
                    action.verb));
  }
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  auto queues = zone->queues().list();
  if (!queues) return session.fail(queues.error());
  if (options.filter.queue && !find_queue(*queues, *options.filter.queue)) {
    return session.fail(no_such_queue(*options.filter.queue));
  }
  Doing doing(session, options, action, std::move(*zone), std::move(*queues));
  return options.ids.empty() ? doing.by_filter() : doing.by_ids();
}

}  // namespace once::cli
