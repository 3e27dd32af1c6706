#include "shapes/task_json.h"

#include <fmt/format.h>

namespace once::cli {
namespace {

std::string in_seconds(Duration duration) {
  const auto ms = duration.count();
  return ms < 1000 ? fmt::format("{}ms", ms) : fmt::format("{}s", (ms + 500) / 1000);
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
      .number("claims", queue.claims)
      .json("attempts", json_of(queue.attempts))
      .json("steps", json_of(queue.steps))
      .json("story", json_of(queue.story))
      .body_or_null("result", "raw", queue.result);
  if (queue.result_cut) line.boolean("result_cut", true);
  return line.text("next", next_text(queue.next)).str();
}

std::string header_of(const LogEntry& entry, const std::string& name) {
  const auto found = entry.headers.find(name);
  return found == entry.headers.end() ? "" : found->second;
}
}  // namespace

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

bool in_log(const TaskView& task) { return task.entry.sequence != 0; }

std::string run_of(const LogEntry& entry) { return header_of(entry, "Once-Run"); }
std::string step_of(const LogEntry& entry) { return header_of(entry, "Once-Step"); }

JsonLine& add_receipt(JsonLine& line, const Receipt& receipt) {
  return line.text("id", receipt.id)
      .number("sequence", receipt.sequence)
      .boolean("duplicate", receipt.duplicate)
      .text("digest", receipt.digest);
}

std::string steps_json(const std::vector<StepView>& steps) { return json_of(steps); }

std::string task_json(const TaskView& task) {
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

std::string entry_json(const LogEntry& entry) {
  JsonLine line;
  line.number("sequence", entry.sequence).text("id", entry.id).text("topic", entry.topic);
  return add_content(line, entry)
      .time("published_at", entry.published_at)
      .text("digest", entry.digest)
      .time_if("not_before", entry.not_before)
      .time_if("expires", entry.expires)
      .str();
}

Schedule schedule_of(const Zone& zone, const ListItem& item) {
  if (item.state != State::scheduled || item.sequence == 0) return {};
  auto entries = zone.tasks().log(item.sequence - 1, 1);
  if (!entries || entries->empty() || entries->front().sequence != item.sequence) return {};
  return {entries->front().not_before, entries->front().expires};
}

std::string item_json(const ListItem& item, const Schedule& schedule) {
  JsonLine line;
  line.text("id", item.id).text("queue", item.queue).text("key", item.key);
  if (item.sequence > 0) {
    line.number("sequence", item.sequence).text("topic", item.topic);
  } else {
    line.null("sequence").null("topic");
  }
  return line.text("state", to_string(item.state))
      .number("attempts", static_cast<std::uint64_t>(item.attempts))
      .text_or_null("error", item.error)
      .time("since", item.since)
      .time_if("not_before", schedule.not_before)
      .time_if("expires", schedule.expires)
      .str();
}

std::string result_json(std::string_view id, std::string_view queue, std::string_view state,
                        const Outcome& outcome) {
  JsonLine line;
  line.text("id", id).text("queue", queue).text("state", state);
  if (outcome.kind() == Outcome::Kind::completed) {
    line.body("result", "raw", outcome.result());
  } else {
    line.null("result").text("reason", outcome.why());
  }
  return line.str();
}

std::string action_json(std::string_view id, std::string_view queue, std::string_view outcome,
                        bool dry_run) {
  JsonLine line;
  line.text("id", id).text("queue", queue).text("outcome", outcome);
  if (dry_run) line.boolean("dry_run", true);
  return line.str();
}

}  // namespace once::cli
