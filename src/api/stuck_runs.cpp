#include "api/stuck_runs.h"

#include <algorithm>
#include <set>

#include "core/names.h"
#include "core/words.h"
#include "encoding/flow_input.h"
#include "encoding/flow_state.h"
#include "engine/flow_book.h"
#include "engine/task_row.h"

namespace once::inline v1 {
namespace {

constexpr std::size_t kPage = 1000;
constexpr std::size_t kPageAlone = 20'000;  // a store may have to read all for each
constexpr std::size_t kNamed = 3;
constexpr Duration kLongEnough{std::chrono::minutes{10}};  // somebody may be at it until then

class StuckRuns {
 public:
  explicit StuckRuns(const Zone::Impl& zone) : zone_(zone), book_(*zone.store, *zone.scheduler) {}

  Result<void> look() {
    auto queues = zone_.store->queues();
    if (!queues) return queues.error();
    queues_ = std::move(*queues);
    for (const State state : {State::scheduled, State::waiting, State::running, State::retrying,
                              State::in_doubt, State::dead})
      if (auto read = each_row(core::kFlowQueue, state, kPage,
                               [&](const store::Row& row) { return note_event(row); });
          !read)
        return read.error();
    return each_row(core::kRunsLedger, State::waiting, kPageAlone,
                    [&](const store::Row& row) { return look_at(row); });
  }

  std::size_t looked() const { return looked_; }
  const std::vector<std::string>& stuck() const { return stuck_; }
  const std::vector<std::string>& without_queue() const { return without_queue_; }
  const std::string& why_without() const { return why_without_; }

 private:
  template <class Look>
  Result<void> each_row(std::string_view queue, State state, std::size_t page_size, Look look) {
    const bool there = std::any_of(queues_.begin(), queues_.end(),
                                   [&](const Queue& each) { return each.name == queue; });
    std::optional<store::Row> last;
    while (there) {
      auto page = zone_.store->rows({.queue = std::string(queue), .state = state},
                                    last ? &*last : nullptr, page_size);
      if (!page) return page.error();
      for (const store::Row& row : page->rows)
        if (Result<void> looked = look(row); !looked) return looked.error();
      if (!page->more || page->rows.empty()) break;
      last = std::move(page->rows.back());
    }
    return {};
  }

  // Its run's id is what comes before the first dot. A dead event is a finding of its own.
  Result<void> note_event(const store::Row& row) {
    open_.insert(row.entry.id.substr(0, row.entry.id.find('.')));
    return {};
  }

  Result<void> look_at(const store::Row& row) {
    ++looked_;
    if (!row.stored || !row.stored->record.result ||
        zone_.store->now() - row.stored->stamp < kLongEnough)
      return {};
    auto state = encoding::decode_state(row.stored->record.result->text());
    if (!state) return state.error();
    auto definition = book_.definition(state->workflow, state->version);
    if (!definition) return definition.error();
    state = book_.with_judged_outputs(**definition, std::move(*state));
    if (!state) return state.error();
    if (open_.contains(row.key)) return look_for_queues(**definition, *state);
    auto moves = moved_by_steps(**definition, *state);
    if (!moves) return moves.error();
    if (!*moves) stuck_.push_back(row.key);
    return {};
  }

  Result<bool> moved_by_steps(const core::FlowDefinition& definition, const core::RunState& state) {
    const core::RunStanding standing = core::stand(definition, state, encoding::judge());
    for (std::size_t i = 0; i < definition.steps.size(); ++i) {
      const core::FlowStep& step = definition.steps[i];
      if (standing.steps[i].status != StepStatus::active) continue;
      if (step.kind == core::FlowStep::Kind::signal || step.kind == core::FlowStep::Kind::approval)
        return true;
      if (step.kind != core::FlowStep::Kind::task) continue;
      auto open = is_open(core::step_id(state.run, step.id));
      if (!open || *open) return open;
    }
    return false;
  }

  // The event that is to begin the step comes again and again, until there is a queue for it.
  Result<void> look_for_queues(const core::FlowDefinition& definition,
                               const core::RunState& state) {
    const core::RunStanding standing = core::stand(definition, state, encoding::judge());
    for (std::size_t i = 0; i < definition.steps.size(); ++i) {
      const core::FlowStep& step = definition.steps[i];
      if (step.kind != core::FlowStep::Kind::task || standing.steps[i].status != StepStatus::active)
        continue;
      const auto queue = engine::queue_of(step, queues_);
      if (queue) continue;
      const auto entry = zone_.store->find(core::step_id(state.run, step.id));
      if (!entry) return entry.error();
      if (*entry) continue;
      without_queue_.push_back(state.run);
      if (why_without_.empty()) why_without_ = "step '" + step.id + "': " + queue.error().message;
      return {};
    }
    return {};
  }

  // One that no queue takes is open as well, and one that is held in doubt waits for a person.
  Result<bool> is_open(const std::string& task) {
    auto entry = zone_.store->find(task);
    if (!entry) return entry.error();
    if (!*entry) return false;
    auto found = engine::step_row(*zone_.store, **entry, queues_);
    if (!found) return found.error();
    if (!*found || !(*found)->row.stored || (*found)->row.order) return true;
    const core::Record& record = (*found)->row.stored->record;
    return !core::over(record.state) || record.reply_due;
  }

  const Zone::Impl& zone_;
  engine::FlowBook book_;
  std::vector<Queue> queues_;
  std::set<std::string, std::less<>> open_;  // runs of which an event is not handled yet
  std::size_t looked_ = 0;
  std::vector<std::string> stuck_;
  std::vector<std::string> without_queue_;
  std::string why_without_;  // of the first
};

std::string named(const std::vector<std::string>& runs) {
  std::string text = core::counted(runs.size(), "run") + " (";
  for (std::size_t i = 0; i < std::min(kNamed, runs.size()); ++i)
    text += (i > 0 ? ", " : "") + runs[i];
  return text + (runs.size() > kNamed ? ", ...)" : ")");
}

}  // namespace

Result<void> look_for_stuck_runs(const Zone::Impl& zone, Diagnosis& diagnosis) {
  StuckRuns runs(zone);
  if (auto looked = runs.look(); !looked) return looked.error();
  diagnosis.checked.push_back("runs of workflows: " + core::counted(runs.looked(), "run") +
                              " that go on looked at");
  if (!runs.without_queue().empty())
    diagnosis.findings.push_back(
        {.code = "run_without_queue",
         .severity = Severity::warning,
         .about = "runs of workflows",
         .what =
             named(runs.without_queue()) + " with a step that has no queue: " + runs.why_without(),
         .harm = "the step is not begun, and its run waits without end",
         .fix = "once queue add; or add a version of the workflow that names the right queue, "
                "cancel the run and start it anew"});
  if (runs.stuck().empty()) return {};
  diagnosis.findings.push_back(
      {.code = "stuck_run",
       .severity = Severity::warning,
       .about = "runs of workflows",
       .what = named(runs.stuck()) +
               " that nothing will move: no event or timer of it waits, and no task of its steps "
               "is open",
       .harm = "what is left of the run is never done; a worker of an older version of once that "
               "ran a step forgets to say so",
       .fix = "once flow show RUN; upgrade all workers of the zone, then cancel the run (once flow "
              "cancel RUN) and start it anew"});
  return {};
}

}  // namespace once::inline v1
