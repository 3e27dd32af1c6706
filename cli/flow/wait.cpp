// once flow wait RUN [--timeout D]: blocks until the run has ended.
#include "cli/flow/wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "cli/app/options.h"
#include "cli/flow/flow.h"
#include "cli/flow/print.h"
#include "shapes/json_line.h"
#include "shapes/values.h"

namespace once::cli {
namespace {

struct FlowWaitOptions {
  std::string run{};
  std::optional<Duration> timeout{};
};

// Why no run goes on, as far as that can be seen; empty: runners are at work.
std::string what_holds_runs(const Zone& zone) {
  const auto status = zone.status();
  if (!status) return {};
  for (const QueueStatus& queue : status->queues) {
    if (queue.queue.name != kEventsQueue) continue;
    if (queue.queue.paused) {
      return fmt::format("runs are paused: once queue resume {}", kEventsQueue);
    }
    if (queue.workers == 0) return "no runner is at work: once flow work";
  }
  return {};
}

class WaitForRun {
 public:
  WaitForRun(Session& session, const Zone& zone, const std::string& run,
             std::optional<Duration> limit)
      : session_(session), zone_(zone), flows_(zone.flows()), run_(run), limit_(limit) {
    if (limit) deadline_ = Clock::now() + *limit;
  }

  int run() {
    Duration longest = kUnsaid;
    for (;;) {
      const auto ended = flows_.wait(run_, std::min(left(), longest));
      if (ended) return tell(*ended);
      const bool in_time = left().count() > 0;
      if (in_time && away(ended.error())) {
        std::this_thread::sleep_for(std::min(left(), kAway));
      } else if (ended.error().code != Code::timed_out) {
        return fail(ended.error());
      } else if (!in_time) {
        return timed_out();
      } else if (std::exchange(longest, kLongest) == kUnsaid) {
        if (const std::string why = what_holds_runs(zone_); !why.empty()) session_.hint(why);
      }
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Duration kAway{500};             // between looks at a store that is away
  static constexpr Duration kUnsaid{1'000};         // then a person hears why nothing happens
  static constexpr Duration kLongest{60 * 60'000};  // of one wait in the library

  Duration left() const {
    if (!deadline_) return Duration::max();
    return std::max(std::chrono::ceil<Duration>(*deadline_ - Clock::now()), Duration{0});
  }

  int fail(const Error& error) { return session_.fail(error, JsonLine{}.text("run", run_)); }

  int tell(const RunView& run) {
    if (!session_.quiet || session_.json) print_run(session_, run);
    if (run.info.state == RunPhase::completed) return kDone;
    Error ended = end_of(run.info);
    ended.message += way_on(flows_, run.info);
    return fail(ended);
  }

  int timed_out() {
    const auto run = flows_.show(run_);
    const std::string why = what_holds_runs(zone_);
    return fail(
        {.code = Code::timed_out,
         .message = fmt::format(
             "run {0} is still under way after {1}{2}; {3}; once flow wait {0} waits for it", run_,
             format_duration(*limit_),
             run && !run->info.waits_for.empty() ? ", at " + run->info.waits_for : "",
             why.empty() ? "it goes on" : why),
         .retryable = true});
  }

  Session& session_;
  const Zone& zone_;
  const Flows flows_;
  const std::string& run_;
  const std::optional<Duration> limit_;
  std::optional<Clock::time_point> deadline_;
};

int wait(Session& session, const FlowWaitOptions& options) {
  auto zone = session.open(Missing::refuse, Stays::longer);
  if (!zone) return session.fail(zone.error());
  return wait_for_run(session, *zone, options.run, options.timeout);
}

}  // namespace

int wait_for_run(Session& session, const Zone& zone, const std::string& run,
                 std::optional<Duration> limit) {
  return WaitForRun(session, zone, run, limit).run();
}

// One that ran out of time failed too, but for good: only how it ended tells.
std::string way_on(const Flows& flows, const RunInfo& run) {
  if (run.state != RunPhase::failed) return {};
  const auto events = flows.events(run.run);
  if (!events) return {};
  const auto ended = std::find_if(events->rbegin(), events->rend(), [](const RunEvent& event) {
    return event.kind == RunEvent::Kind::ended;
  });
  if (ended == events->rend() || ended->outcome != FlowOutcome::failed) return {};
  return fmt::format("; once flow retry {} lets it go on if the failed step can run again",
                     run.run);
}

void add_flow_wait(CLI::App& flow, Session& session) {
  auto* app = add_command(flow, "wait", "Wait until a run has ended, then as once flow show");
  auto options = std::make_shared<FlowWaitOptions>();
  add_needed(*app, "RUN", options->run, "The run, as once flow start named it");
  add_duration(*app, "--timeout", options->timeout, "Give up after so long (never)", Duration{0});
  add_example(*app,
              "Exit status: 0 completed, 1 failed or cancelled, 6 no such run, 7 not ended in\n"
              "time. With -q it says no more than that.\n"
              "\n"
              "Example:\n"
              "  once flow wait RUN --timeout 1m");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return wait(session, *options); };
  });
}

}  // namespace once::cli
