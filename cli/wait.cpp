// once wait ID [--queue Q] [--timeout D]: blocks until the task is settled, prints its result.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "cli/commands.h"
#include "cli/json_line.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/values.h"

namespace once::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Duration kLook{100};             // between looks at a task that has no queue yet
constexpr Duration kLongest{60 * 60'000};  // of one wait in the library

struct Options {
  std::string id{};
  std::optional<std::string> queue{};
  std::optional<Duration> timeout{};
};

class Waiting {
 public:
  Waiting(Session& session, const Options& options, Zone zone)
      : session_(session), options_(options), zone_(std::move(zone)) {
    if (options.timeout) deadline_ = Clock::now() + *options.timeout;
  }

  int run() {
    for (;;) {
      auto task = zone_.inspect(options_.id);
      if (!task) return session_.fail(task.error());
      std::vector<std::string> queues;
      if (options_.queue) {
        queues.push_back(*options_.queue);
      } else {
        for (const QueueView& queue : task->queues) queues.push_back(queue.queue);
      }
      const auto next = std::find_if(queues.begin(), queues.end(),
                                     [&](const auto& queue) { return !settled_.contains(queue); });
      if (!queues.empty() && next == queues.end()) return end();
      if (queues.empty()) {
        if (!task->entry.body) {
          return session_.fail(
              {.code = Code::not_found,
               .message = fmt::format("{} was settled long ago, and its result is forgotten with "
                                      "its records (once retention)",
                                      options_.id)});
        }
        if (left().count() <= 0)
          return timed_out("no queue takes its topic yet (once queue add NAME --topic FILTER)");
        std::this_thread::sleep_for(std::min(left(), kLook));
        continue;
      }
      auto outcome = zone_.wait(options_.id, *next, std::min(left(), kLongest));
      if (outcome) {
        settle(*next, *outcome, queues.size() > 1);
      } else if (outcome.error().code != Code::timed_out) {
        return session_.fail(outcome.error());
      } else if (left().count() <= 0) {
        return timed_out(fmt::format("it is not settled in queue {}", *next));
      }
    }
  }

 private:
  Duration left() const {
    if (!deadline_) return Duration::max();
    return std::max(std::chrono::ceil<Duration>(*deadline_ - Clock::now()), Duration{0});
  }

  void settle(const std::string& queue, const Outcome& outcome, bool several) {
    settled_.insert(queue);
    const bool completed = outcome.kind() == Outcome::Kind::completed;
    if (!completed && !failure_) {
      const bool unknown = outcome.kind() == Outcome::Kind::unknown;
      failure_ = Error{.code = unknown ? Code::outcome_unknown : Code::failed,
                       .message = fmt::format("{} will not be completed in queue {}: {}",
                                              options_.id, queue, outcome.why()),
                       .in_doubt = unknown};
    }
    if (session_.json) {
      JsonLine line;
      line.text("id", options_.id).text("queue", queue).text("state", state_of(queue, outcome));
      if (completed) {
        line.body("result", "raw", outcome.result());
      } else {
        line.null("result").text("reason", outcome.why());
      }
      session_.out.line(line.str());
    } else if (completed) {
      if (several) session_.out.write(queue + ": ");
      session_.out.write(outcome.result().text());
      if (!outcome.result().text().ends_with('\n')) session_.out.line("");
    }
    session_.out.flush();
  }

  // An outcome does not tell dead from cancelled; the ledger does.
  std::string state_of(const std::string& queue, const Outcome& outcome) {
    if (auto task = zone_.inspect(options_.id)) {
      for (const QueueView& view : task->queues) {
        if (view.queue == queue) return std::string(to_string(view.state));
      }
    }
    return std::string(
        to_string(outcome.kind() == Outcome::Kind::completed ? State::completed : State::dead));
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
  const Options& options_;
  Zone zone_;
  std::optional<Clock::time_point> deadline_;
  std::set<std::string> settled_;
  std::optional<Error> failure_;
};

int wait(Session& session, const Options& options) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  return Waiting(session, options, std::move(*zone)).run();
}

}  // namespace

void add_wait(CLI::App& root, Session& session) {
  auto* app = root.add_subcommand("wait", "Wait until a task is settled, print its result");
  auto options = std::make_shared<Options>();
  app->add_option("ID", options->id, "The task's id")->required()->type_name("");
  add_text(*app, "--queue", options->queue, "QUEUE",
           "In this queue only; none: in all that take it");
  add_duration(*app, "--timeout", options->timeout, "Give up after so long (never)", Duration{0});
  add_example(
      *app,
      "Exit status: 0 completed, 1 dead or cancelled, 6 no such task, 7 not settled in time.\n"
      "\n"
      "Example:\n"
      "  once wait order-17 --timeout 30s");
  app->callback([&session, options] {
    session.command = [&session, options] { return wait(session, *options); };
  });
}

}  // namespace once::cli
