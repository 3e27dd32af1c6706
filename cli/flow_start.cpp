// once flow start NAME[@VERSION] [INPUT] [--unique] [--wait[=D]]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "cli/flow.h"
#include "cli/flow_print.h"
#include "cli/input.h"
#include "cli/json_line.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/values.h"

namespace once::cli {
namespace {

struct Options {
  std::string workflow{};
  std::optional<std::string> input{};
  bool unique = false;
  std::optional<std::optional<Duration>> wait{};  // given, and for how long
};

struct Wanted {
  std::string name{};
  std::uint32_t version{};  // zero: the newest
};

Result<Wanted> wanted_from(const std::string& text) {
  const std::size_t at = text.find('@');
  if (at == std::string::npos) return Wanted{.name = text};
  const auto version = parse_number(std::string_view(text).substr(at + 1));
  if (!version || *version == 0 || *version > std::numeric_limits<std::uint32_t>::max()) {
    return Error{.code = Code::invalid_input,
                 .message = fmt::format("a version is a whole number from 1, as in payment@3, not "
                                        "\"{}\"; nothing was started",
                                        text.substr(at + 1))};
  }
  return Wanted{.name = text.substr(0, at), .version = static_cast<std::uint32_t>(*version)};
}

Error not_started(Error error) {
  if (!error.in_doubt && error.message.find("nothing was") == std::string::npos) {
    error.message += "; nothing was started";
  }
  return error;
}

std::string for_people(const Flows& flows, const Started& started) {
  if (!started.duplicate) return fmt::format("run {} started", started.run);
  const auto run = flows.show(started.run);
  return fmt::format("run {} has this key{} (duplicate); --unique starts another", started.run,
                     run ? fmt::format(" since {} and is {}", format_time(run->info.started_at),
                                       to_string(run->info.state))
                         : "");
}

// Until a run has ended, or time is up.
class WaitForRun {
 public:
  WaitForRun(Session& session, const Flows& flows, const std::string& run,
             std::optional<Duration> limit)
      : session_(session), flows_(flows), run_(run), limit_(limit) {
    if (limit) deadline_ = Clock::now() + *limit;
  }

  int run() {
    for (;;) {
      const auto ended = flows_.wait(run_, std::min(left(), kLongest));
      if (ended) return tell(*ended);
      const bool in_time = left().count() > 0;
      if (in_time && away(ended.error())) {
        std::this_thread::sleep_for(std::min(left(), kAway));
      } else if (ended.error().code != Code::timed_out) {
        return session_.fail(ended.error());
      } else if (!in_time) {
        return timed_out();
      }
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Duration kAway{500};             // between looks at a store that is away
  static constexpr Duration kLongest{60 * 60'000};  // of one wait in the library

  Duration left() const {
    if (!deadline_) return kLongest;
    return std::max(std::chrono::ceil<Duration>(*deadline_ - Clock::now()), Duration{0});
  }

  int tell(const RunView& run) {
    print_run(session_, run);
    if (run.info.state == RunPhase::completed) return kDone;
    return session_.fail(
        {.code = Code::failed,
         .message = fmt::format(
             "run {} {} {}{}", run_, run.info.state == RunPhase::cancelled ? "is" : "has",
             to_string(run.info.state), run.info.error.empty() ? "" : ": " + run.info.error)});
  }

  int timed_out() {
    const auto run = flows_.show(run_);
    return session_.fail(
        {.code = Code::timed_out,
         .message =
             fmt::format("run {0} is still under way after {1}{2}; it goes on: once flow "
                         "show {0} --watch waits for it",
                         run_, format_duration(*limit_),
                         run && !run->info.waits_for.empty() ? ", at " + run->info.waits_for : ""),
         .retryable = true});
  }

  Session& session_;
  const Flows& flows_;
  const std::string& run_;
  const std::optional<Duration> limit_;
  std::optional<Clock::time_point> deadline_;
};

int start(Session& session, const Options& options) {
  const auto wanted = wanted_from(options.workflow);
  if (!wanted) return session.fail(wanted.error());
  const auto input = body_from(options.input, false);
  if (!input) return session.fail(not_started(input.error()));
  auto zone = session.open(Missing::refuse, options.wait ? Stays::longer : Stays::briefly);
  if (!zone) return session.fail(zone.error());
  Flows flows = zone->flows();
  const auto started =
      flows.start(wanted->name, *input, {.version = wanted->version, .unique = options.unique});
  if (!started) return session.fail(not_started(started.error()));
  session.out.line(
      session.json
          ? JsonLine{}.text("run", started->run).boolean("duplicate", started->duplicate).str()
          : for_people(flows, *started));
  if (!options.wait) return kDone;
  session.out.flush();
  return WaitForRun(session, flows, started->run, *options.wait).run();
}

}  // namespace

void add_flow_start(CLI::App& flow, Session& session) {
  auto* app = add_command(flow, "start", "Start a run of a workflow, once per key of its input");
  auto options = std::make_shared<Options>();
  add_needed(*app, "WORKFLOW", options->workflow, "NAME, or NAME@VERSION; without: the newest");
  add_text(*app, "INPUT", options->input, "",
           "JSON text, @FILE, or - for standard input; none: null");
  add_flag(*app, "--unique", options->unique, "A run of its own, whatever its key");
  add_optional_duration(*app, "--wait", options->wait,
                        "Wait until it has ended, then as once flow show; --wait=D: at most D");
  add_example(*app,
              "A duplicate is the run that the key has already. The same key with another input\n"
              "is a conflict: exit status 3, and what differs is said. With --wait: 0 completed,\n"
              "1 failed or cancelled, 7 not ended in time.\n"
              "\n"
              "Example:\n"
              "  once flow start payment '{\"order\":{\"id\":17,\"total\":500}}'\n"
              "  once flow start payment@2 @order.json --wait=1m");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return start(session, *options); };
  });
}

}  // namespace once::cli
