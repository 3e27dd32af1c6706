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
    if (!row.stored || !row.stored->record.result || open_.contains(row.key) ||
        zone_.store->now() - row.stored->stamp < kLongEnough)
      return {};
    auto state = encoding::decode_state(row.stored->record.result->text());
    if (!state) return state.error();
    auto definition = book_.definition(state->workflow, state->version);
    if (!definition) return definition.error();
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

  // One that no queue takes is open as well.
  Result<bool> is_open(const std::string& task) {
    auto entry = zone_.store->find(task);
    if (!entry) return entry.error();
    if (!*entry) return false;
    bool taken = false;
    for (const Queue& queue : queues_) {
      auto row = engine::row_of(*zone_.store, **entry, queue);
      if (!row) return row.error();
      if (!*row) continue;
      taken = true;
      const auto& stored = (*row)->stored;
      if (!stored || !core::settled(stored->record.state) || stored->record.reply_due) return true;
      if ((*row)->order) return true;
    }
    return !taken;
  }

  const Zone::Impl& zone_;
  engine::FlowBook book_;
  std::vector<Queue> queues_;
  std::set<std::string, std::less<>> open_;  // runs of which an event is not handled yet
  std::size_t looked_ = 0;
  std::vector<std::string> stuck_;
};

}  // namespace

Result<void> look_for_stuck_runs(const Zone::Impl& zone, Diagnosis& diagnosis) {
  StuckRuns runs(zone);
  if (auto looked = runs.look(); !looked) return looked.error();
  diagnosis.checked.push_back("runs of workflows: " + core::counted(runs.looked(), "run") +
                              " that go on looked at");
  if (runs.stuck().empty()) return {};
  std::string named;
  for (std::size_t i = 0; i < std::min(kNamed, runs.stuck().size()); ++i)
    named += (i > 0 ? ", " : "") + runs.stuck()[i];
  if (runs.stuck().size() > kNamed) named += ", ...";
  diagnosis.findings.push_back(
      {.code = "stuck_run",
       .severity = Severity::warning,
       .about = "runs of workflows",
       .what = core::counted(runs.stuck().size(), "run") + " (" + named +
               ") that nothing will move: no event or timer of it waits, and no task of its steps "
               "is open",
       .harm = "what is left of the run is never done; a worker of an older version of once that "
               "ran a step forgets to say so",
       .fix = "once flow show RUN; upgrade all workers of the zone, then cancel the run (once flow "
              "cancel RUN) and start it anew"});
  return {};
}

}  // namespace once::inline v1
