// once inspect ID: a task's whole story.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/json_line.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/values.h"

namespace once::cli {
namespace {

std::string json_of(const AttemptView& attempt) {
  JsonLine line;
  line.number("attempt", static_cast<std::uint64_t>(attempt.attempt))
      .text("worker", attempt.worker)
      .number("token", attempt.token)
      .time("started_at", attempt.started_at);
  if (attempt.ended_at) {
    line.time("ended_at", *attempt.ended_at);
  } else {
    line.null("ended_at");
  }
  return line.text("outcome", attempt.outcome)
      .boolean("in_doubt", attempt.in_doubt)
      .text_or_null("error", attempt.error)
      .str();
}

std::string json_of(const QueueView& queue) {
  JsonLine line;
  std::vector<std::string> attempts;
  for (const AttemptView& attempt : queue.attempts) attempts.push_back(json_of(attempt));
  line.text("queue", queue.queue)
      .text("key", queue.key)
      .text("state", to_string(queue.state))
      .text_or_null("reason", queue.reason)
      .json("attempts", json_array(attempts))
      .json("steps", "[]");
  if (queue.result) {
    line.body("result", "raw", *queue.result);
  } else {
    line.null("result");
  }
  if (queue.result_cut) line.boolean("result_cut", true);
  return line.text_or_null("next", queue.next).str();
}

std::string json_of(const TaskView& task) {
  std::vector<std::string> queues;
  for (const QueueView& queue : task.queues) queues.push_back(json_of(queue));
  return JsonLine{}
      .text("id", task.entry.id)
      .text("topic", task.entry.topic)
      .number("sequence", task.entry.sequence)
      .text("digest", task.entry.digest)
      .time("published_at", task.entry.published_at)
      .number("duplicates", task.duplicates)
      .json("queues", json_array(queues))
      .str();
}

std::string body_text(const Body& body) {
  std::string text = compact(body);
  while (text.ends_with('\n')) text.pop_back();
  return printable(text);
}

class Story {
 public:
  Story(Output& out, const Style& style) : out_(out), style_(style) {}

  void tell(const TaskView& task) {
    out_.line(style_.bold(printable(task.entry.id)));
    row("topic", printable(task.entry.topic));
    row("sequence", fmt::format("#{}", task.entry.sequence));
    row("published", format_time(task.entry.published_at));
    row("digest", task.entry.digest);
    if (task.duplicates > 0) {
      row("duplicates",
          fmt::format("published {} more with the same content", counted(task.duplicates, "time")));
    }
    for (const auto& [name, value] : task.entry.headers) {
      row("header", fmt::format("{}={}", printable(name), printable(value)));
    }
    row("body", task.entry.body ? body_text(*task.entry.body) : "(retired)");
    for (const QueueView& queue : task.queues) tell(queue);
    if (task.queues.empty()) {
      out_.line("");
      // What no queue takes does not age: a body that is gone was settled in all that did.
      out_.line(task.entry.body ? "unrouted: no queue takes its topic yet; it is kept"
                                : "settled long ago: its records are forgotten (once retention)");
    }
  }

 private:
  void row(std::string_view label, std::string_view value) {
    out_.line(fmt::format("  {:<11}{}", label, value));
  }

  void tell(const QueueView& queue) {
    out_.line("");
    out_.line(fmt::format("{} {}{}", style_.bold("queue " + queue.queue + ":"),
                          style_.state(queue.state),
                          queue.reason.empty() ? "" : ", " + printable(queue.reason)));
    row("key", printable(queue.key));
    if (queue.attempts_dropped > 0) {
      row("", fmt::format("({} no longer recorded one by one)",
                          counted(queue.attempts_dropped, "older attempt")));
    }
    for (const AttemptView& attempt : queue.attempts) tell(attempt);
    if (queue.result) {
      row("result", body_text(*queue.result) + (queue.result_cut ? " (cut)" : ""));
    }
    if (!queue.next.empty()) row("next", printable(queue.next));
  }

  void tell(const AttemptView& attempt) {
    std::string text =
        fmt::format("{}  {}", format_time(attempt.started_at), printable(attempt.outcome));
    if (attempt.ended_at) {
      const Duration took = *attempt.ended_at - attempt.started_at;
      text += fmt::format(" after {}", format_duration(std::max(took, Duration{0})));
    }
    if (attempt.in_doubt) text += ", in doubt";
    text += fmt::format("  ({}, token {})", printable(attempt.worker), attempt.token);
    row(fmt::format("attempt {}", attempt.attempt), text);
    std::string_view rest = attempt.error;
    while (!rest.empty()) {
      const std::size_t newline = rest.find('\n');
      row("", printable(rest.substr(0, newline)));
      rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    }
  }

  Output& out_;
  Style style_;
};

int inspect(Session& session, const std::string& id) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  auto task = zone->inspect(id);
  if (!task) return session.fail(task.error());
  if (session.json) {
    session.out.line(json_of(*task));
  } else {
    Story(session.out, session.style()).tell(*task);
  }
  return kDone;
}

}  // namespace

void add_inspect(CLI::App& root, Session& session) {
  auto* app = root.add_subcommand("inspect", "Tell a task's whole story");
  auto id = std::make_shared<std::string>();
  app->add_option("ID", *id, "The task's id")->required()->type_name("");
  add_example(*app, "Example:\n  once inspect order-17");
  app->callback(
      [&session, id] { session.command = [&session, id] { return inspect(session, *id); }; });
}

}  // namespace once::cli
