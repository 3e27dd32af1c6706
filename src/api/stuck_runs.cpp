#include "api/stuck_runs.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/names.h"
#include "core/words.h"
#include "flow/definition/input.h"
#include "flow/definition/state.h"
#include "flow/run_store.h"
#include "work/task_row.h"

namespace once::inline v1 {
namespace {

constexpr std::size_t kPage = 1000;
constexpr std::size_t kPageAlone = 20'000;  // a store may have to read all for each
constexpr std::size_t kNamed = 3;
constexpr std::uint32_t kAgainAndAgain = 3;  // attempts at an event

class StuckRuns {
 public:
  explicit StuckRuns(const Zone::Impl& zone) : zone_(zone), book_(*zone.store, *zone.scheduler) {}

  Result<void> look() {
    auto queues = zone_.store->queues();
    if (!queues) return queues.error();
    queues_ = std::move(*queues);
    if (auto noted = note_events(); !noted) return noted.error();
    if (auto read = each_row(core::kRunsLedger, State::waiting, kPageAlone,
                             [&](const store::Row& row) { return look_at(row); });
        !read)
      return read.error();
    return sort_out();
  }

  // Runs with the same trouble, and what it is in the first of them.
  struct Group {
    std::vector<std::string> runs{};
    std::string why{};
    void add(const std::string& run, const std::string& because = {}) {
      if (runs.empty()) why = because;
      runs.push_back(run);
    }
  };
  std::size_t looked() const { return looked_; }
  const Group& stuck() const { return stuck_; }
  const Group& hopeless() const { return hopeless_; }
  const Group& without_queue() const { return without_queue_; }
  const Group& failing() const { return failing_; }

 private:
  struct Suspect {
    std::string run{};
    core::Revision revision{};
    std::string why{};
  };

  Result<void> note_events() {
    for (const State state : {State::scheduled, State::waiting, State::running, State::retrying,
                              State::in_doubt, State::dead})
      if (auto read = each_row(core::kFlowQueue, state, kPage,
                               [&](const store::Row& row) { return note_event(row); });
          !read)
        return read.error();
    return {};
  }

  // An event may have come between the look at events and the look at its run. Then it is open now, or
  // the run's record has changed.
  Result<void> sort_out() {
    if (suspects_.empty()) return {};
    if (auto noted = note_events(); !noted) return noted.error();
    for (const Suspect& suspect : suspects_) {
      const store::Address at{.queue = std::string(core::kRunsLedger), .key = suspect.run};
      const auto stored = std::move(zone_.store->get(std::span(&at, 1)).front());
      if (!stored) return stored.error();
      if (open_.contains(suspect.run) || !*stored || (*stored)->revision != suspect.revision)
        continue;
      (suspect.why.empty() ? stuck_ : hopeless_).add(suspect.run, suspect.why);
    }
    return {};
  }

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
    std::string run = row.entry.id.substr(0, row.entry.id.find('.'));
    if (row.stored && row.stored->record.state != State::dead &&
        row.stored->record.claims >= kAgainAndAgain && !row.stored->record.error.empty())
      errors_.emplace(run, row.stored->record.error);
    open_.insert(std::move(run));
    return {};
  }

  Result<void> look_at(const store::Row& row) {
    ++looked_;
    if (!row.stored || !row.stored->record.result) return {};
    auto state = encoding::decode_state(row.stored->record.result->text());
    if (!state) return state.error();
    auto definition = book_.definition(state->workflow, state->version);
    if (!definition && definition.error().code == Code::store_unavailable)
      return definition.error();
    if (!definition) {
      failing_.add(row.key, definition.error().message);
      return {};
    }
    state = book_.with_judged_outputs(**definition, std::move(*state));
    if (!state) return state.error();
    if (open_.contains(row.key)) return look_at_events(**definition, *state);
    Suspect suspect{.run = row.key, .revision = row.stored->revision};
    auto moves = moved_by_steps(**definition, *state, suspect.why);
    if (!moves) return moves.error();
    if (!*moves) suspects_.push_back(std::move(suspect));
    return {};
  }

  Result<void> look_at_events(const core::FlowDefinition& definition, const core::RunState& state) {
    const auto error = errors_.find(state.run);
    auto waits = looks_for_queues(definition, state);
    if (!waits) return waits.error();
    if (!*waits && error != errors_.end()) failing_.add(state.run, error->second);
    return {};
  }

  // `why`: what keeps a step from running again.
  Result<bool> moved_by_steps(const core::FlowDefinition& definition, const core::RunState& state,
                              std::string& why) {
    const core::RunStanding standing = core::stand(definition, state, encoding::judge());
    for (std::size_t i = 0; i < definition.steps.size(); ++i) {
      const core::FlowStep& step = definition.steps[i];
      if (standing.steps[i].status != StepStatus::active) continue;
      if (step.kind == core::FlowStep::Kind::signal || step.kind == core::FlowStep::Kind::approval)
        return true;
      if (step.kind != core::FlowStep::Kind::task) continue;
      const std::string task = core::step_id(state.run, step.id);
      auto open = is_open(task);
      if (!open || *open) return open;
      const auto voided = core::voided_try(state, step.id);
      if (!voided || !why.empty()) continue;
      auto failed = engine::failed_task(*zone_.store, task, voided->n, queues_);
      if (!failed) return failed.error();
      if (!failed->why_never.empty()) why = "step '" + step.id + "': " + failed->why_never;
    }
    return false;
  }

  // The event that is to begin the step comes again and again, until there is a queue for it.
  Result<bool> looks_for_queues(const core::FlowDefinition& definition,
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
      without_queue_.add(state.run, "step '" + step.id + "': " + queue.error().message);
      return true;
    }
    return false;
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
  engine::RunStore book_;
  std::vector<Queue> queues_;
  std::set<std::string, std::less<>> open_;  // runs of which an event is not handled yet
  std::size_t looked_ = 0;
  std::map<std::string, std::string, std::less<>> errors_;  // of events that fail, by run
  std::vector<Suspect> suspects_;
  Group stuck_, hopeless_, without_queue_, failing_;
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
  const auto find = [&](std::string code, const StuckRuns::Group& group, const std::string& what,
                        std::string harm, std::string fix) {
    if (group.runs.empty()) return;
    diagnosis.findings.push_back(
        {.code = std::move(code),
         .severity = Severity::warning,
         .about = "runs of workflows",
         .what = named(group.runs) + what + (group.why.empty() ? "" : ": " + group.why),
         .harm = std::move(harm),
         .fix = std::move(fix)});
  };
  find(
      "run_without_queue", runs.without_queue(), " with a step that has no queue",
      "the step is not begun, and its run waits without end",
      "once queue add; or add a version of the workflow that names the right queue, cancel the run "
      "and start it anew");
  find("run_event_fails", runs.failing(), " with an event that runners fail to handle",
       "the run stands still until an attempt at the event succeeds",
       "mend what the error names; once list --queue once-flow --state retrying shows the events");
  find("hopeless_run", runs.hopeless(), " that was retried and cannot go on",
       "what is left of the run is never done",
       "close the run (once flow cancel RUN), and start another (once flow start --unique)");
  find(
      "stuck_run", runs.stuck(),
      " that nothing will move: no event or timer of it waits, and no task of its steps is open",
      "what is left of the run is never done; a worker of an older version of once that ran a step "
      "forgets to say so",
      "once flow show RUN; upgrade all workers of the zone, then cancel the run (once flow cancel "
      "RUN) and start it anew");
  return {};
}

}  // namespace once::inline v1
