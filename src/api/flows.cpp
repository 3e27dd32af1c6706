// Implements once::Flows: definitions, starts, what people do to runs, and the runner. run_view.cpp
// has the views.
#include "once/flows.h"

#include "api/access.h"
#include "api/flows_state.h"
#include "core/words.h"
#include "flow/runner.h"
#include "work/task_row.h"

namespace once::inline v1 {
namespace {

using core::quoted;

Error not_added(const core::FlowDefinition& definition, const std::string& why) {
  return {.code = Code::invalid_input,
          .message = "workflow " + quoted(definition.name) + ": " + why + "; nothing was added"};
}

// Whether the step's task will find its queue; a hint when there is none as yet.
Result<void> check_queue_of(const core::FlowDefinition& definition, const core::FlowStep& step,
                            const std::vector<Queue>& queues, std::vector<FlowHint>& hints) {
  const auto queue = engine::queue_of(step, queues);
  if (queue) return {};
  const std::string why = "step " + quoted(step.id) + ": " + queue.error().message;
  if (queue.error().code != Code::not_found) return not_added(definition, why);
  hints.push_back({.text = why,
                   .reason = Reason::no_queue_for_step,
                   .facts = {{"step", step.id}, {"topic", step.topic}, {"queue", step.queue}}});
  return {};
}

// A key must not be forgotten before its time.
Result<void> fits_retention(store::Store& store, const core::FlowDefinition& definition,
                            const std::string& what_was_done) {
  const auto ages = store.retention();
  if (!ages) return ages.error();
  if (definition.key_ttl <= ages->records) return {};
  return Error{
      .code = Code::invalid_input,
      .message = "workflow " + quoted(definition.name) + ": key_ttl " +
                 duration_text(definition.key_ttl) + " is longer than the zone keeps records (" +
                 duration_text(ages->records) + "); " + what_was_done + ": keep records as long",
      .reason = Reason::key_outlives_records,
      .facts = {{"workflow", definition.name}, {"key_ttl", duration_text(definition.key_ttl)}}};
}

std::string detail_of(const core::FlowStep& step) {
  switch (step.kind) {
    case core::FlowStep::Kind::task: return step.topic;
    case core::FlowStep::Kind::sleep: return duration_text(step.sleep);
    case core::FlowStep::Kind::signal: return step.signal;
    case core::FlowStep::Kind::approval: return step.message;
  }
  return {};
}

FlowAdded told_of(const encoding::ParsedDefinition& parsed) {
  FlowAdded told{.workflow = parsed.definition.name,
                 .version = parsed.definition.version,
                 .added = false,
                 .steps = parsed.definition.steps.size()};
  for (const std::string& hint : parsed.hints) told.hints.push_back({.text = hint});
  return told;
}

By named(const By& by) { return {.who = by.who.empty() ? this_person() : by.who, .why = by.why}; }

}  // namespace

std::string_view to_string(RunEvent::Kind kind) {
  switch (kind) {
    case RunEvent::Kind::started: return "started";
    case RunEvent::Kind::task: return "task";
    case RunEvent::Kind::step: return "step";
    case RunEvent::Kind::signal: return "signal";
    case RunEvent::Kind::rate_retry: return "rate_retry";
    case RunEvent::Kind::admit: return "admit";
    case RunEvent::Kind::retried: return "retried";
    case RunEvent::Kind::ended: return "ended";
  }
  return "?";
}

Flows Zone::flows() const {
  return detail::Access::make<Flows>(std::make_unique<detail::FlowsState>(state_));
}

Flows::Flows(std::unique_ptr<detail::FlowsState> state) : state_(std::move(state)) {}
Flows::Flows(Flows&&) noexcept = default;
Flows& Flows::operator=(Flows&&) noexcept = default;
Flows::~Flows() = default;

Result<FlowAdded> Flows::check(std::string_view json) {
  auto parsed = encoding::parse_definition(json);
  if (!parsed) return parsed.error();
  return told_of(*parsed);
}

Result<FlowAdded> Flows::add(std::string_view json) {
  auto parsed = encoding::parse_definition(json);
  if (!parsed) return parsed.error();
  const core::FlowDefinition& definition = parsed->definition;
  FlowAdded answer = told_of(*parsed);
  const auto queues = state_->zone->store->queues();
  if (!queues) return queues.error();
  for (const core::FlowStep& step : definition.steps) {
    if (step.kind != core::FlowStep::Kind::task) continue;
    auto ok = check_queue_of(definition, step, *queues, answer.hints);
    if (!ok) return ok.error();
  }
  if (auto ok = fits_retention(*state_->zone->store, definition, "nothing was added"); !ok)
    return ok.error();
  if (auto made = state_->run_store.make_event_queue(); !made) return made.error();
  auto added = state_->run_store.add(*parsed);
  if (!added) return added.error();
  // Another process may have shortened the retention meanwhile. Each of the two looks after its
  // write, so at least one sees the conflict.
  if (auto ok = fits_retention(*state_->zone->store, definition, "it was added all the same");
      !ok) {
    Error error = ok.error();
    error.in_doubt = true;
    return error;
  }
  answer.added = *added;
  return answer;
}

Result<FlowAdded> Flows::add(const Workflow& workflow) {
  const auto json = workflow.json();
  if (!json) return json.error();
  return add(*json);
}

Result<void> Flows::remove(std::string_view name, std::uint32_t version) {
  return state_->run_store.remove(name, version);
}

Result<std::vector<FlowInfo>> Flows::list() const {
  auto all = state_->run_store.definitions();
  if (!all) return all.error();
  std::vector<FlowInfo> answer;
  for (const engine::FlowDefinitionRef& each : *all)
    answer.push_back({.workflow = each->name,
                      .version = each->version,
                      .steps = each->steps.size(),
                      .idempotency_key = each->key,
                      .key_format = each->key_format});
  return answer;
}

Result<FlowView> Flows::definition(std::string_view name, std::uint32_t version) const {
  auto known =
      version > 0 ? state_->run_store.definition(name, version) : state_->run_store.newest(name);
  if (!known) return known.error();
  const core::FlowDefinition& definition = **known;
  auto json = state_->run_store.json_of(definition);
  if (!json) return json.error();
  FlowView view{.workflow = definition.name, .version = definition.version};
  view.json = std::move(*json);
  for (const core::FlowStep& step : definition.steps) {
    FlowView::Step& drawn = view.steps.emplace_back();
    drawn = {.step = step.id, .kind = step.kind, .detail = detail_of(step)};
    for (const std::size_t needed : step.depends_on)
      drawn.depends_on.push_back(definition.steps[needed].id);
    if (step.on_failure) drawn.on_failure = definition.steps[*step.on_failure].id;
  }
  return view;
}

Result<Started> Flows::start(std::string_view name, const Body& input, StartOptions options) {
  auto started = state_->starter.start({.workflow = std::string(name),
                                        .version = options.version,
                                        .input = input,
                                        .unique = options.unique});
  if (!started) return started.error();
  return Started{
      .run = std::move(started->run), .duplicate = started->duplicate, .version = started->version};
}

Result<SignalResult> Flows::signal(std::string_view run, std::string_view name, const Body& body,
                                   std::string_view id, const By& by) {
  return state_->control.signal(run, name, body, id, named(by));
}

Result<Approved> Flows::approve(std::string_view run, std::string_view step, bool yes,
                                const By& by) {
  return state_->control.approve(run, step, yes, named(by));
}

Result<void> Flows::cancel(std::string_view run, const By& by) {
  return state_->control.cancel(run, named(by));
}

Result<std::vector<std::string>> Flows::retry(std::string_view run, const By& by) {
  return state_->control.retry(run, named(by));
}

struct detail::RunnerState {
  std::shared_ptr<detail::ZoneState> zone;  // keeps it open
  std::unique_ptr<engine::FlowRunner> runner;
};

Result<WorkflowRunner> Flows::runner(RunnerOptions options) {
  constexpr int kMost = 1024;
  if (options.concurrency < 1 || options.concurrency > kMost)
    return Error{.code = Code::invalid_input,
                 .message = "the concurrency of a runner is 1 to " + std::to_string(kMost)};
  auto made = engine::FlowRunner::make(
      *state_->zone->store, *state_->zone->scheduler,
      {.concurrency = static_cast<std::size_t>(options.concurrency),
       .name = options.name.empty() ? default_worker_name() : std::move(options.name),
       .on_store = std::move(options.on_store)});
  if (!made) return made.error();
  return detail::Access::make<WorkflowRunner>(std::unique_ptr<detail::RunnerState>(
      new detail::RunnerState{state_->zone, std::move(*made)}));
}

WorkflowRunner::WorkflowRunner(std::unique_ptr<detail::RunnerState> state)
    : state_(std::move(state)) {}
WorkflowRunner::WorkflowRunner(WorkflowRunner&&) noexcept = default;
WorkflowRunner& WorkflowRunner::operator=(WorkflowRunner&&) noexcept = default;
WorkflowRunner::~WorkflowRunner() = default;

Result<void> WorkflowRunner::run(std::stop_token stop) {
  return state_->runner->run(engine::Worker::Until::stopped, std::move(stop));
}

Result<void> WorkflowRunner::run_until_empty(std::stop_token stop) {
  return state_->runner->run(engine::Worker::Until::empty, std::move(stop));
}

Result<bool> WorkflowRunner::run_one() { return state_->runner->run_one(); }

void WorkflowRunner::interrupt() { state_->runner->interrupt(); }

WorkerMetrics WorkflowRunner::metrics() const { return state_->runner->metrics(); }

}  // namespace once::inline v1
