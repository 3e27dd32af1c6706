// A task as text that is read from top to bottom: the task, then queue by queue its attempts, steps,
// what people did to it, and what comes next.
#include "cli/task/story.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "shapes/json_line.h"
#include "shapes/task_json.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

// Once writes these headers itself, for the task of a workflow. No publisher can set them.
constexpr std::string_view kOwnHeader = "Once-";

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
    session.out.line(task_json(task));
  } else {
    Story(session.out, session.style()).tell(task);
  }
}

}  // namespace once::cli
