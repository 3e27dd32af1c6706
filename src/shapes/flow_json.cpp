#include "shapes/flow_json.h"

#include "shapes/json_line.h"
#include "shapes/step_look.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

std::string_view outcome_of(const RunEvent& event) {
  return event.outcome ? to_string(*event.outcome) : std::string_view{};
}

std::string step_json(const RunStep& step) {
  const bool failed = step.status == StepStatus::failed;
  JsonLine line;
  line.text("step", step.step)
      .text("kind", to_string(step.kind))
      .text("state", look_of(step).word)
      .number("attempts", static_cast<std::uint64_t>(step.attempts))
      .text_or_null("task", step.task)
      .text_or_null("queue", step.queue)
      .body_or_null("output", "raw", step.output)
      .text_or_null("error", failed ? step.why : "")
      .text_or_null("why", failed ? "" : why_of(step));
  if (step.sequence > 0) {
    line.number("sequence", step.sequence);
  } else {
    line.null("sequence");
  }
  return line.time_or_null("at", step.at).time_or_null("until", step.until).str();
}

JsonLine& add_head(JsonLine& line, const RunInfo& run) {
  return line.text("run", run.run)
      .text("workflow", run.workflow)
      .number("version", run.version)
      .text("state", to_string(run.state))
      .number("steps_done", run.steps_done);
}
JsonLine& add_times(JsonLine& line, const RunInfo& run) {
  return line.time("started_at", run.started_at)
      .time_or_null("ended_at", run.ended_at)
      .text_or_null("waits_for", run.waits_for)
      .text_or_null("error", run.error);
}
JsonLine& add_key(JsonLine& line, const RunInfo& run) {
  return run.key ? line.text("key", *run.key) : line.null("key");
}

}  // namespace

std::string flow_added_json(const FlowAdded& added) {
  return JsonLine{}
      .text("workflow", added.workflow)
      .number("version", added.version)
      .boolean("added", added.added)
      .number("steps", added.steps)
      .str();
}

std::string flow_info_json(const FlowInfo& flow) {
  return JsonLine{}
      .text("workflow", flow.workflow)
      .number("version", flow.version)
      .number("steps", flow.steps)
      .text_or_null("idempotency_key", flow.idempotency_key)
      .text_or_null("key_format", flow.idempotency_key.empty() ? "" : to_string(flow.key_format))
      .str();
}

std::string run_started_json(const Started& started) {
  return JsonLine{}
      .text("run", started.run)
      .boolean("duplicate", started.duplicate)
      .number("version", started.version)
      .str();
}

std::string run_json(const RunView& run) {
  std::vector<std::string> steps;
  for (const RunStep& step : run.steps) steps.push_back(step_json(step));
  JsonLine line;
  add_key(add_times(add_head(line, run.info), run.info), run.info);
  return line.number("round", run.round)
      .boolean("closed", run.closed)
      .number("sequence", run.sequence)
      .body("input", "raw", run.input)
      .body_or_null("output", "raw", run.output)
      .json("steps", json_array(steps))
      .str();
}

std::string run_json(const RunInfo& run) {
  JsonLine line;
  return add_key(add_times(add_head(line, run).number("steps", run.steps), run), run).str();
}

std::string event_json(const RunEvent& event) {
  return JsonLine{}
      .number("sequence", event.sequence)
      .time("at", event.at)
      .text("event", to_string(event.kind))
      .text("id", event.id)
      .text_or_null("step", event.step)
      .text_or_null("signal", event.signal)
      .number("n", event.n)
      .text_or_null("outcome", outcome_of(event))
      .body_or_null("value", "raw", event.value)
      .text_or_null("error", event.error)
      .text_or_null("by", event.by.who)
      .text_or_null("why", event.by.why)
      .str();
}

std::string signal_json(std::string_view run, std::string_view name, std::string_view id,
                        const SignalResult& sent) {
  JsonLine line;
  line.text("run", run)
      .text("signal", name)
      .text("id", id)
      .text("result", sent.counts ? "counts" : "another_counts")
      .boolean("duplicate", sent.receipt.duplicate);
  if (sent.counts) {
    line.number("sequence", sent.receipt.sequence);
  } else {
    line.null("sequence");
  }
  return line.text("counts", sent.first.id)
      .json("first", JsonLine{}
                         .text("id", sent.first.id)
                         .number("sequence", sent.first.sequence)
                         .time("at", sent.first.at)
                         .text_or_null("by", sent.first.by)
                         .str())
      .str();
}

std::string approved_json(std::string_view run, std::string_view step, const Approved& verdict) {
  return JsonLine{}
      .text("run", run)
      .text("step", step)
      .text("outcome", verdict.approved ? "approved" : "rejected")
      .boolean("duplicate", verdict.duplicate)
      .text_or_null("by", verdict.by)
      .time("at", verdict.at)
      .number("sequence", verdict.sequence)
      .str();
}

std::string_view cancel_outcome(RunPhase before) {
  if (before == RunPhase::cancelled) return "cancelled";
  return before == RunPhase::failed ? "closed" : "asked";
}

std::string run_cancelled_json(std::string_view run, RunPhase before) {
  return JsonLine{}.text("run", run).text("outcome", cancel_outcome(before)).str();
}

std::string run_retried_json(std::string_view run, std::uint32_t round,
                             const std::vector<std::string>& steps) {
  std::vector<std::string> names;
  for (const std::string& step : steps) names.push_back(json_string(step));
  return JsonLine{}.text("run", run).number("round", round).json("steps", json_array(names)).str();
}

}  // namespace once::cli
