#include "api/stuck_runs.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/findings.h"
#include "core/names.h"
#include "core/words.h"
#include "flow/definition/input.h"
#include "flow/run_store.h"
#include "work/task_row.h"

namespace once::inline v1 {
namespace {

constexpr std::size_t kRunPage = 1000;
constexpr std::size_t kMostFailed = 10'000;  // runs that are looked at for failed ones
constexpr std::size_t kNamed = 3;
constexpr std::uint32_t kAgainAndAgain = 3;  // attempts at an event

class StuckRuns {
 public:
  explicit StuckRuns(const detail::ZoneState& zone)
      : zone_(zone), run_store_(*zone.store, *zone.scheduler) {}

  Result<void> look() {
    auto queues = zone_.store->queues();
    if (!queues) return queues.error();
    queues_ = std::move(*queues);
    if (auto noted = note_events(); !noted) return noted.error();
    const auto read = run_store_.each_run(
        engine::RunStore::Which::open,
        [&](const engine::KnownRun& known) -> Result<bool> {
          if (core::end_of(known.state) != nullptr) return true;
          if (auto looked = look_at(known); !looked) return looked.error();
          return true;
        },
        [](const std::string&, const Error&) {});
    if (!read) return read.error();
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
      if (auto read = note_events(state); !read) return read.error();
    return {};
  }

  // An event may have come between the look at events and the look at its run. Then it is open now, or
  // the run's record has changed.
  Result<void> sort_out() {
    if (suspects_.empty()) return {};
    if (auto noted = note_events(); !noted) return noted.error();
    for (const Suspect& suspect : suspects_) {
      const auto run = run_store_.run(suspect.run);
      if (!run) return run.error();
      if (open_.contains(suspect.run) || !*run || (*run)->revision != suspect.revision) continue;
      (suspect.why.empty() ? stuck_ : hopeless_).add(suspect.run, suspect.why);
    }
    return {};
  }

  Result<void> note_events(State state) {
    const bool there = std::any_of(queues_.begin(), queues_.end(),
                                   [](const Queue& each) { return each.name == core::kFlowQueue; });
    std::optional<store::Row> last;
    while (there) {
      auto page = zone_.store->rows({.queue = std::string(core::kFlowQueue), .state = state},
                                    last ? &*last : nullptr, kRunPage);
      if (!page) return page.error();
      for (const store::Row& row : page->rows) note_event(row);
      if (!page->more || page->rows.empty()) break;
      last = std::move(page->rows.back());
    }
    return {};
  }

  // Its run's id is what comes before the first dot. A dead event is a finding of its own.
  void note_event(const store::Row& row) {
    std::string run = row.entry.id.substr(0, row.entry.id.find('.'));
    if (row.stored && row.stored->record.state != State::dead &&
        row.stored->record.claims >= kAgainAndAgain && !row.stored->record.error.empty())
      errors_.emplace(run, row.stored->record.error);
    open_.insert(std::move(run));
  }

  Result<void> look_at(const engine::KnownRun& known) {
    ++looked_;
    const std::string& run = known.state.run;
    auto definition = run_store_.definition(known.state.workflow, known.state.version);
    if (!definition && definition.error().code == Code::store_unavailable)
      return definition.error();
    if (!definition) {
      failing_.add(run, definition.error().message);
      return {};
    }
    const auto state = run_store_.with_judged_outputs(**definition, known.state);
    if (!state && state.error().code == Code::store_unavailable) return state.error();
    if (!state) {
      failing_.add(run, state.error().message);
      return {};
    }
    if (open_.contains(run)) return look_at_events(**definition, *state);
    Suspect suspect{.run = run, .revision = known.revision};
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

  const detail::ZoneState& zone_;
  engine::RunStore run_store_;
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

Result<void> look_for_failed_runs(const detail::ZoneState& zone, Diagnosis& diagnosis) {
  engine::RunStore run_store(*zone.store, *zone.scheduler);
  std::vector<std::string> failed, unreadable;
  std::string why_unreadable;
  std::size_t looked = 0;
  const auto read = run_store.each_run(
      engine::RunStore::Which::open,
      [&](const engine::KnownRun& known) -> Result<bool> {
        if (core::end_of(known.state) != nullptr) failed.push_back(known.state.run);
        return ++looked < kMostFailed;
      },
      [&](const std::string& run, const Error& why) {
        if (unreadable.empty()) why_unreadable = why.message;
        unreadable.push_back(run);
      });
  if (!read) return read.error();
  if (!unreadable.empty())
    diagnosis.findings.push_back(
        core::finding("unreadable_run", Severity::warning, "runs of workflows",
                      {{"runs", named(unreadable)}, {"why", why_unreadable}}));
  if (failed.empty()) return {};
  diagnosis.findings.push_back(
      core::finding("failed_runs", Severity::note, "runs of workflows", {{"runs", named(failed)}}));
  return {};
}

Result<void> look_for_stuck_runs(const detail::ZoneState& zone, Diagnosis& diagnosis) {
  StuckRuns runs(zone);
  if (auto looked = runs.look(); !looked) return looked.error();
  diagnosis.checked.push_back("runs of workflows: " + core::counted(runs.looked(), "run") +
                              " that go on looked at");
  const auto find = [&](std::string_view code, const StuckRuns::Group& group) {
    if (group.runs.empty()) return;
    diagnosis.findings.push_back(core::finding(code, Severity::warning, "runs of workflows",
                                               {{"runs", named(group.runs)}, {"why", group.why}}));
  };
  find("run_without_queue", runs.without_queue());
  find("run_event_fails", runs.failing());
  find("hopeless_run", runs.hopeless());
  find("stuck_run", runs.stuck());
  return {};
}

}  // namespace once::inline v1
