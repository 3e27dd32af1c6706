#include "cli/demo/count.h"

#include <algorithm>

#include "cli/demo/effects.h"
#include "cli/demo/lines.h"
#include "cli/demo/publishers.h"

namespace once::cli::demo {
namespace {

constexpr std::size_t kCountPage = 500;

// Everything that the zone knows of its tasks, by id.
Result<std::map<std::string, TaskView>> all_tasks(const Zone& zone) {
  std::map<std::string, TaskView> tasks;
  for (std::uint64_t after = 0;;) {
    const auto page = zone.tasks().log(after, kCountPage);
    if (!page) return page.error();
    if (page->empty()) return tasks;
    for (const LogEntry& entry : *page) {
      auto task = zone.tasks().inspect(entry.id);
      if (!task) return task.error();
      tasks.emplace(entry.id, std::move(*task));
    }
    after = page->back().sequence;
  }
}

const QueueView* in_queue(const TaskView& task) {
  return task.queues.empty() ? nullptr : &task.queues.front();
}

// By the audit; of those that lost their worker, how many lost it to a kill.
std::map<std::string, std::uint64_t> reasons_of(const Totals& totals, std::uint64_t killed) {
  std::map<std::string, std::uint64_t> reasons;
  for (std::size_t i = 0; i < totals.reruns.size(); ++i) {
    const auto why = static_cast<Rerun>(i);
    if (why != Rerun::lost && why != Rerun::unexplained)
      reasons[std::string(to_string(why))] = totals.reruns[i];
  }
  const std::uint64_t lost = totals.rerun(Rerun::lost);
  reasons["killed with -9"] = std::min(killed, lost);
  reasons["lease went by"] = lost - std::min(killed, lost);
  std::erase_if(reasons, [](const auto& reason) { return reason.second == 0; });
  return reasons;
}

// An effect may happen again only when the attempt that had it ended without a verdict: an attempt has
// it once, and all but one of them were cut off.
bool explained(const std::vector<std::string>& attempts, const std::set<std::string>& cut_off) {
  const std::set<std::string> different(attempts.begin(), attempts.end());
  const auto ended = std::count_if(different.begin(), different.end(),
                                   [&](const auto& attempt) { return !cut_off.contains(attempt); });
  return different.size() == attempts.size() && ended <= 1;
}

class Counter {
 public:
  Counter(const Setting& setting, const Kills& kills)
      : setting_(setting), kills_(kills), effects_(effects_in(setting.effects())) {
    counted_.effects = effects_.lines;
    counted_.effects_again = effects_.again();
  }

  // What the zone says of itself.
  void add_audit(const Audit& audit) {
    for (const AuditLine& line : audit.lines) totals_.add(line.totals);
    counted_.published = totals_.published;
    counted_.completed = totals_.in(State::completed);
    counted_.at_append = totals_.duplicates_at_append;
    counted_.by_ledger = totals_.duplicates_by_ledger;
    counted_.completed_twice = totals_.completed_twice;
    counted_.unfinished = totals_.published - counted_.completed - totals_.in(State::duplicate);
    for (const State state : kOpen) counted_.open += totals_.in(state);
    counted_.unexplained += totals_.rerun(Rerun::unexplained) + audit.unlisted;
    for (const Discrepancy& found : audit.discrepancies)
      ++(found.kind == Discrepancy::Kind::missing ? counted_.lost : counted_.unexplained);
  }

  // What its records say of one task, against the kills and the effects.
  void add(const TaskView& task) {
    const QueueView* queue = in_queue(task);
    if (queue == nullptr || queue->state == State::duplicate) return;
    for (const AttemptView& attempt : queue->attempts)
      killed_ += attempt.outcome == AttemptOutcome::lost && kills_.workers.contains(attempt.worker)
                     ? 1U
                     : 0U;
    add_effects(*queue);
  }

  // What publishers were told is there must be there, with that sequence.
  void add_receipts(const std::map<std::string, TaskView>& tasks) {
    std::set<std::string> lost;
    for (const std::string& line : Tail(setting_.receipts()).next()) {
      const auto answer = answer_from(line);
      if (!answer) continue;
      const auto found = tasks.find(answer->id);
      if (found == tasks.end() || found->second.entry.sequence != answer->sequence)
        lost.insert(answer->id);
    }
    counted_.lost += lost.size();
  }

  Counted finish() {
    // What is left is of tasks that the zone does not know as run.
    counted_.unexplained += effects_.attempts.size();
    counted_.reruns = reasons_of(totals_, killed_);
    counted_.agents_killed = kills_.workers.size();
    counted_.publishers_killed = kills_.publishers;
    return counted_;
  }

 private:
  void add_effects(const QueueView& queue) {
    std::set<std::string> cut_off;
    for (const AttemptView& attempt : queue.attempts) {
      if (attempt.in_doubt) cut_off.insert(std::to_string(attempt.attempt));
    }
    for (const char* step : kSteps) {
      const auto found = effects_.attempts.find({queue.key, step});
      if (found == effects_.attempts.end()) {
        counted_.effects_missing += queue.state == State::completed ? 1U : 0U;
        continue;
      }
      counted_.unexplained += explained(found->second, cut_off) ? 0U : 1U;
      effects_.attempts.erase(found);
    }
  }

  const Setting& setting_;
  const Kills& kills_;
  Effects effects_;  // those that no task accounts for yet
  Totals totals_;
  std::uint64_t killed_ = 0;  // attempts whose worker was killed
  Counted counted_;
};

}  // namespace

std::uint64_t Counted::all_reruns() const {
  std::uint64_t all = 0;
  for (const auto& [why, times] : reruns) all += times;
  return all;
}

bool Counted::as_promised() const {
  return unexplained == 0 && effects_missing == 0 && completed_twice == 0 && lost == 0 &&
         unfinished == (in_time ? 0 : open);
}

Result<Counted> count(const Setting& setting, const Zone& zone, const Kills& kills,
                      std::uint64_t conflicts) {
  const auto tasks = all_tasks(zone);
  if (!tasks) return tasks.error();
  const auto audit = zone.audit({.by = AuditOptions::Period::all});
  if (!audit) return audit.error();
  Counter counter(setting, kills);
  counter.add_audit(*audit);
  for (const auto& [id, task] : *tasks) counter.add(task);
  counter.add_receipts(*tasks);
  Counted counted = counter.finish();
  counted.conflicts = conflicts;
  return counted;
}

PlainCounted count_plain(const Setting& setting, const PlainQueue& queue) {
  const Effects effects = effects_in(setting.plain_effects());
  PlainCounted counted{.published = queue.published(),
                       .effects = effects.lines,
                       .effects_again = effects.again(),
                       .left = queue.left()};
  std::map<std::string, std::uint64_t> runs;
  for (const std::string& message : queue.acknowledged()) ++runs[PlainQueue::task_of(message)];
  for (const auto& [task, times] : runs) {
    counted.acknowledged += times;
    counted.duplicates_run += times - 1;
  }
  return counted;
}

}  // namespace once::cli::demo
