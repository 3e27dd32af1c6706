// once wait ID [--queue Q] [--timeout D]: blocks until the task is settled in every queue that takes
// it, and prints its results.
#include "cli/task/wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/flow/flow.h"
#include "shapes/queue_definition.h"
#include "shapes/task_json.h"
#include "shapes/values.h"

namespace once::cli {
namespace {

using WaitClock = std::chrono::steady_clock;
constexpr Duration kLook{100};                 // between looks at a task that has no queue yet
constexpr Duration kWaitAway{500};             // and at a store that cannot be reached
constexpr Duration kLongestWait{60 * 60'000};  // of one wait in the library

class WaitForTask {
 public:
  WaitForTask(Session& session, const WaitOptions& options, Zone zone)
      : session_(session), options_(options), zone_(std::move(zone)) {
    if (options.timeout) deadline_ = WaitClock::now() + *options.timeout;
  }

  int run() {
    for (;;) {
      auto task = zone_.tasks().inspect(options_.id);
      if (!task && away(task.error()) && left().count() > 0) {
        std::this_thread::sleep_for(std::min(left(), kWaitAway));
        continue;
      }
      if (is_run(zone_, options_.id, task)) {
        return session_.fail(
            {.code = Code::not_found,
             .message = fmt::format("{0} is a run of a workflow, not a task; once flow wait {0} "
                                    "waits for it",
                                    options_.id)});
      }
      if (!task) return session_.fail(task.error());
      if (task->entry.sequence == 0) {
        return session_.fail(
            {.code = Code::not_found,
             .message = fmt::format("{} is a key of a ledger-only queue, not a task that "
                                    "could be waited for (once inspect)",
                                    options_.id)});
      }
      auto queues = queues_of(*task);
      if (!queues) return session_.fail(queues.error());
      const auto next = std::find_if(queues->begin(), queues->end(),
                                     [&](const auto& queue) { return !settled_.contains(queue); });
      if (!queues->empty() && next == queues->end()) return end();
      if (queues->empty()) {
        if (!task->entry.body) return forgotten();
        if (left().count() <= 0) {
          return timed_out("no queue takes its topic yet (once queue add NAME --topic FILTER)");
        }
        std::this_thread::sleep_for(std::min(left(), kLook));
        continue;
      }
      auto outcome = zone_.tasks().wait(options_.id, *next, std::min(left(), kLongestWait));
      if (outcome) {
        settle(*next, *outcome, queues->size() > 1);
      } else if (away(outcome.error()) && left().count() > 0) {
        std::this_thread::sleep_for(std::min(left(), kWaitAway));
      } else if (outcome.error().code != Code::timed_out) {
        return session_.fail(outcome.error());
      } else if (left().count() <= 0) {
        return timed_out(fmt::format("it is not settled in queue {}", *next));
      }
    }
  }

 private:
  // A ledger-only queue may know the id as a key of its own: that is another matter.
  Result<std::vector<std::string>> queues_of(const TaskView& task) const {
    std::vector<std::string> names;
    if (options_.queue) return std::vector{*options_.queue};
    auto queues = zone_.queues().list();
    if (!queues) return queues.error();
    for (const QueueView& view : task.queues) {
      const auto queue = find_queue(*queues, view.queue);
      if (queue && !queue->ledger) names.push_back(view.queue);
    }
    return names;
  }

  Duration left() const {
    if (!deadline_) return Duration::max();
    return std::max(std::chrono::ceil<Duration>(*deadline_ - WaitClock::now()), Duration{0});
  }

  void settle(const std::string& queue, const Outcome& outcome, bool several) {
    settled_.insert(queue);
    const bool completed = outcome.kind() == Outcome::Kind::completed;
    if (!completed && !failure_) failure_ = failure_of(queue, outcome);
    if (session_.json) {
      session_.out.line(result_json(options_.id, queue, state_of(queue, outcome), outcome));
    } else if (completed) {
      if (several) session_.out.write(queue + ": ");
      session_.out.write(outcome.result().text());
      if (!outcome.result().text().ends_with('\n')) session_.out.line("");
    }
    session_.out.flush();
  }

  Error failure_of(const std::string& queue, const Outcome& outcome) const {
    const std::string why = outcome.why().empty() ? "" : ": " + outcome.why();
    if (outcome.kind() != Outcome::Kind::unknown) {
      return {.code = Code::failed,
              .message = fmt::format("{0} will not be completed in queue {1}{2}; once inspect {0} "
                                     "tells its story",
                                     options_.id, queue, why)};
    }
    return {.code = Code::outcome_unknown,
            .message = fmt::format(
                "{0} is in doubt in queue {1}{2}; whether it happened is for a person to say: once "
                "doubt show {0}, then once doubt complete, retry or drop {0}",
                options_.id, queue, why),
            .in_doubt = true};
  }

  // An outcome does not tell dead from cancelled; the ledger does.
  std::string state_of(const std::string& queue, const Outcome& outcome) {
    if (auto task = zone_.tasks().inspect(options_.id)) {
      for (const QueueView& view : task->queues) {
        if (view.queue == queue) return std::string(to_string(view.state));
      }
    }
    return std::string(
        to_string(outcome.kind() == Outcome::Kind::completed ? State::completed : State::dead));
  }

  int forgotten() {
    return session_.fail(
        {.code = Code::not_found,
         .message = fmt::format("{} was settled long ago, and its result is forgotten with its "
                                "records (once retention)",
                                options_.id)});
  }

  int timed_out(std::string_view why) {
    return session_.fail(
        {.code = Code::timed_out,
         .message = fmt::format("{} is still under way after {}: {}; waiting again is safe",
                                options_.id, format_duration(*options_.timeout), why),
         .retryable = true});
  }

  int end() { return failure_ ? session_.fail(*failure_) : kDone; }

  Session& session_;
  const WaitOptions& options_;
  Zone zone_;
  std::optional<WaitClock::time_point> deadline_;
  std::set<std::string> settled_;
  std::optional<Error> failure_;
};

int wait(Session& session, const WaitOptions& options) {
  auto zone = session.open(Missing::refuse, Stays::longer);
  if (!zone) return session.fail(zone.error());
  return wait_until_settled(session, std::move(*zone), options);
}

}  // namespace

int wait_until_settled(Session& session, Zone zone, const WaitOptions& options) {
  return WaitForTask(session, options, std::move(zone)).run();
}

void add_wait(CLI::App& root, Session& session) {
  auto* app = add_command(root, "wait", "Wait until a task is settled, print its result");
  auto options = std::make_shared<WaitOptions>();
  add_needed(*app, "ID", options->id, "The task's id");
  add_text(*app, "--queue", options->queue, "QUEUE",
           "In this queue only; none: in all that take it");
  add_duration(*app, "--timeout", options->timeout, "Give up after so long (never)", Duration{0});
  add_example(*app,
              "Exit status: 0 completed, 1 dead or cancelled, 6 no such task, 7 in doubt or not\n"
              "settled in time.\n"
              "\n"
              "Example:\n"
              "  once wait order-17 --timeout 30s");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return wait(session, *options); };
  });
}

}  // namespace once::cli
