// The views of the library as JSON, and as text that is read from top to bottom: the task, then
// queue by queue its attempts, steps, what people did to it, and what comes next.
#include "cli/task/story.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/app/json_line.h"
#include "cli/app/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

std::string in_seconds(Duration duration) {
  const auto ms = duration.count();
  return ms < 1000 ? fmt::format("{}ms", ms) : fmt::format("{}s", (ms + 500) / 1000);
}

// What happens next, and what a person can type about it.
std::string next_text(const NextView& next) {
  using Kind = NextView::Kind;
  switch (next.kind) {
    case Kind::starts: return fmt::format("runs in {}", in_seconds(next.in));
    case Kind::waits: return "waits for a worker";
    case Kind::obeys: return fmt::format("waits for a worker, as {} asked", next.by);
    case Kind::offered:
      return fmt::format("offered to {}, which has not started it; the offer ends in {}", next.by,
                         in_seconds(next.in));
    case Kind::runs:
      return fmt::format("running; its lease ends in {} unless renewed", in_seconds(next.in));
    case Kind::stops: return "was asked to stop; cancelled when it has ended";
    case Kind::lease_expired: return "its lease is over; the next worker takes it over";
    case Kind::worker_gone: return "its worker is gone; the next worker takes it over";
    case Kind::retries: return fmt::format("tried again in {}", in_seconds(next.in));
    case Kind::retry_due: return "due: the next worker tries it again";
    case Kind::held: return "held until a person decides: 'once doubt complete', 'retry' or 'drop'";
    case Kind::held_by_step:
      return fmt::format(
          "held until a person decides: 'once doubt complete --step {}', 'retry' or 'drop'",
          next.step);
    case Kind::completed: return "nothing: it is done";
    case Kind::dead: return "nothing: it is a dead letter; 'once dead retry' runs it again";
    case Kind::dead_step:
      return fmt::format(
          "nothing: it is a dead letter, a step of run {0}; if that has failed, 'once flow retry "
          "{0}' runs it again",
          next.run);
    case Kind::dead_for_good:
      return "nothing: it is a dead letter; publish it anew under an id and key of its own";
    case Kind::cancelled: return "nothing: it is cancelled";
    case Kind::duplicate: return "nothing: another task with the same key stands for it";
  }
  return {};
}

std::string json_of(const AttemptView& attempt) {
  return JsonLine{}
      .number("attempt", static_cast<std::uint64_t>(attempt.attempt))
      .text("worker", attempt.worker)
      .number("token", attempt.token)
      .time("started_at", attempt.started_at)
      .time_or_null("ended_at", attempt.ended_at)
      .text("outcome", to_string(attempt.outcome))
      .boolean("in_doubt", attempt.in_doubt)
      .text_or_null("error", attempt.error)
      .text_or_null("stderr", attempt.log)
      .str();
}

std::string json_of(const StepView& step) {
  return JsonLine{}
      .text("step", step.step)
      .text("state", to_string(step.state))
      .text("policy", to_string(step.policy))
      .number("runs", static_cast<std::uint64_t>(step.runs))
      .number("attempt", static_cast<std::uint64_t>(step.attempt))
      .time("started_at", step.started_at)
      .time_or_null("ended_at", step.ended_at)
      .body_or_null("result", "raw", step.result)
      .boolean("result_cut", step.result_cut)
      .number("failed_attempt", static_cast<std::uint64_t>(step.failed))
      .text_or_null("error", step.error)
      .str();
}

std::string json_of(const ActionView& action) {
  return JsonLine{}
      .text("what", to_string(action.kind))
      .time("at", action.at)
      .text("by", action.by)
      .text_or_null("why", action.why)
      .text_or_null("step", action.step)
      .str();
}

std::string json_of(const QueueView& queue);

template <class View>
std::string json_of(const std::vector<View>& views) {
  std::vector<std::string> values;
  for (const View& view : views) values.push_back(json_of(view));
  return json_array(values);
}

std::string json_of(const QueueView& queue) {
  JsonLine line;
  line.text("queue", queue.queue)
      .text("key", queue.key)
      .text("state", to_string(queue.state))
      .text_or_null("reason", queue.reason)
      .json("attempts", json_of(queue.attempts))
      .json("steps", json_of(queue.steps))
      .json("story", json_of(queue.story))
      .body_or_null("result", "raw", queue.result);
  if (queue.result_cut) line.boolean("result_cut", true);
  return line.text("next", next_text(queue.next)).str();
}

// A key of a ledger-only queue has no entry in the log.
bool in_log(const TaskView& task) { return task.entry.sequence != 0; }

// Of a workflow's task: its run and its step. Their headers are Once's own, nobody else can give them.
constexpr std::string_view kOwnHeader = "Once-";
std::string header_of(const LogEntry& entry, const std::string& name) {
  const auto found = entry.headers.find(name);
  return found == entry.headers.end() ? "" : found->second;
}
std::string run_of(const LogEntry& entry) { return header_of(entry, "Once-Run"); }
std::string step_of(const LogEntry& entry) { return header_of(entry, "Once-Step"); }

std::string json_of(const TaskView& task) {
  JsonLine line;
  line.text("id", task.entry.id);
  if (in_log(task)) {
    line.text("topic", task.entry.topic)
        .number("sequence", task.entry.sequence)
        .text("digest", task.entry.digest)
        .time("published_at", task.entry.published_at)
        .time_if("not_before", task.entry.not_before)
        .time_if("expires", task.entry.expires);
    add_content(line, task.entry);
    if (const std::string run = run_of(task.entry); !run.empty())
      line.text("run", run).text("step", step_of(task.entry));
  } else {
    line.null("topic").null("sequence").null("digest").null("published_at");
    line.null("body").null("headers");
  }
  return line.number("duplicates", task.duplicates).json("queues", json_of(task.queues)).str();
}

std::string took(Time from, Time to) {
  return format_duration(std::max<Duration>(to - from, Duration{0}));
}

std::string words_of(const ActionView& action) {
  using Kind = ActionView::Kind;
  const std::string step =
      action.step.empty() ? "" : fmt::format("step {} ", printable(action.step));
  switch (action.kind) {
    case Kind::happened: return step + "happened, a probe says";
    case Kind::did_not_happen: return step + "did not happen, a probe says";
    case Kind::cancel_asked: return "asked to stop";
    case Kind::step_completed: return step + "completed";
    default: return step + std::string(to_string(action.kind));
  }
}

class Story {
 public:
  Story(Output& out, const Style& style) : out_(out), style_(style) {}

  void tell(const TaskView& task) {
    out_.line(style_.bold(printable(task.entry.id)));
    if (in_log(task)) tell(task.entry, task.duplicates);
    for (const QueueView& queue : task.queues) tell(queue);
    if (task.queues.empty()) {
      out_.line("");
      // What no queue takes does not age: a body that is gone was settled in all that did.
      out_.line(task.entry.body ? "unrouted: no queue takes its topic yet; it is kept"
                                : "settled long ago: its records are forgotten (once retention)");
    }
  }

 private:
  std::string body_text(const Body& body) const {
    std::string text = compact(body);
    while (text.ends_with('\n')) text.pop_back();
    return style_.shortened(printable(text), body.text().size());
  }

  std::string result_text(const Body& result, bool was_cut) const {
    return body_text(result) + (was_cut ? " (cut)" : "");
  }

  void row(std::string_view label, std::string_view value) {
    out_.line(fmt::format("  {:<11}{}", label, value));
  }

  void tell(const LogEntry& entry, std::uint64_t duplicates) {
    row("topic", printable(entry.topic));
    row("sequence", fmt::format("#{}", entry.sequence));
    row("published", format_time(entry.published_at));
    if (entry.not_before) row("not before", format_time(*entry.not_before));
    if (entry.expires) row("expires", format_time(*entry.expires));
    row("digest", entry.digest);
    if (duplicates > 0) {
      row("duplicates",
          fmt::format("published {} more with the same content", counted(duplicates, "time")));
    }
    if (const std::string run = run_of(entry); !run.empty()) {
      row("run", printable(run));
      row("step", printable(step_of(entry)));
    }
    for (const auto& [name, value] : entry.headers) {
      if (name.starts_with(kOwnHeader)) continue;
      row("header",
          style_.shortened(fmt::format("{}={}", printable(name), printable(value)), value.size()));
    }
    row("body", entry.body ? body_text(*entry.body) : "(retired)");
  }

  void tell(const QueueView& queue) {
    out_.line("");
    out_.line(fmt::format("{} {}{}", style_.bold("queue " + queue.queue + ":"),
                          style_.state(queue.state),
                          queue.reason.empty() ? "" : ", " + printable(queue.reason)));
    row("key", printable(queue.key));
    tell_dropped(queue.attempts_dropped, "older attempt");
    for (const AttemptView& attempt : queue.attempts) tell(attempt);
    for (const StepView& step : queue.steps) tell(step);
    tell_dropped(queue.actions_dropped, "older action");
    for (const ActionView& action : queue.story) tell(action);
    if (queue.result) row("result", result_text(*queue.result, queue.result_cut));
    row("next", printable(next_text(queue.next)));
  }

  void tell_dropped(std::uint64_t count, std::string_view what) {
    if (count > 0) row("", fmt::format("({} no longer recorded one by one)", counted(count, what)));
  }

  void tell(const AttemptView& attempt) {
    std::string text =
        fmt::format("{}  {}", format_time(attempt.started_at), to_string(attempt.outcome));
    if (attempt.ended_at) text += " after " + took(attempt.started_at, *attempt.ended_at);
    if (attempt.in_doubt) text += ", in doubt";
    text += fmt::format("  ({}, token {})", printable(attempt.worker), attempt.token);
    row(fmt::format("attempt {}", attempt.attempt), text);
    tell_lines("", error_without(attempt.log, attempt.error));
    tell_lines("stderr", last_lines(attempt.log));
  }

  void tell_lines(std::string_view label, std::string_view rest) {
    while (!rest.empty()) {
      const std::size_t newline = rest.find('\n');
      row(std::exchange(label, ""), printable(rest.substr(0, newline)));
      rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    }
  }

  // All of it is in the JSON.
  static std::string last_lines(std::string_view log) {
    constexpr std::size_t kMost = 20;
    std::size_t begin = log.size();
    for (std::size_t lines = 0; lines < kMost && begin != 0; ++lines) {
      const std::size_t newline = log.rfind('\n', begin - 1);
      begin = newline == log.npos ? 0 : newline;
    }
    if (begin == 0) return std::string(log);
    const auto earlier = static_cast<std::uint64_t>(
        std::count(log.begin(), log.begin() + static_cast<std::ptrdiff_t>(begin), '\n') + 1);
    return fmt::format("({}: once inspect --json){}", counted(earlier, "earlier line"),
                       log.substr(begin));
  }

  // The error of a program ends with the end of its log, which is told by itself.
  static std::string_view error_without(std::string_view log, std::string_view error) {
    const std::size_t colon = error.find(": ");
    if (colon == error.npos || log.empty() || !log.ends_with(error.substr(colon + 2))) return error;
    return error.substr(0, colon);
  }

  void tell(const StepView& step) {
    std::string text = fmt::format("{}  {}: ", format_time(step.started_at), printable(step.step));
    switch (step.state) {
      case StepView::State::done:
        text += "done";
        if (step.ended_at) text += " after " + took(step.started_at, *step.ended_at);
        break;
      case StepView::State::failed: text += "failed, to be run again"; break;
      case StepView::State::in_doubt: text += "cut off, in doubt"; break;
      case StepView::State::again: text += "to be run again"; break;
      case StepView::State::running: text += "running"; break;
    }
    text += fmt::format("  (attempt {}", step.attempt);
    if (step.runs > 1)
      text += fmt::format(", begun {}", counted(static_cast<std::uint64_t>(step.runs), "time"));
    if (step.state != StepView::State::done && step.state != StepView::State::failed)
      text += fmt::format(", when cut off: {}", to_string(step.policy));
    row("step", text + ')');
    if (step.failed > 0) {
      row("", fmt::format("failed in attempt {}: {}", step.failed,
                          step.error.empty() ? "no reason was given" : printable(step.error)));
    }
    if (step.result) row("", result_text(*step.result, step.result_cut));
  }

  void tell(const ActionView& action) {
    std::string text = fmt::format("{}  {}", format_time(action.at), words_of(action));
    if (!action.by.empty()) text += " by " + printable(action.by);
    if (!action.why.empty()) text += ": " + printable(action.why);
    row("story", text);
  }

  Output& out_;
  Style style_;
};

}  // namespace

void tell_story(Session& session, const TaskView& task) {
  if (session.json) {
    session.out.line(json_of(task));
  } else {
    Story(session.out, session.style()).tell(task);
  }
}

}  // namespace once::cli
