#include "core/audit.h"

#include <algorithm>
#include <numeric>

namespace once::inline v1 {

void Histogram::add(Duration took) {
  took = std::max(took, Duration{0});  // the wall clock may have been set back
  const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), took);
  ++counts[static_cast<std::size_t>(bound - kBounds.begin())];
  sum += took;
}

void Histogram::add(const Histogram& other) {
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  sum += other.sum;
}

std::uint64_t Histogram::count() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::uint64_t Totals::all_reruns() const {
  return std::accumulate(reruns.begin(), reruns.end(), std::uint64_t{0});
}

void Totals::add(const Totals& other) {
  published += other.published;
  for (std::size_t i = 0; i < states.size(); ++i) states[i] += other.states[i];
  duplicates_at_append += other.duplicates_at_append;
  duplicates_by_ledger += other.duplicates_by_ledger;
  attempts += other.attempts;
  for (std::size_t i = 0; i < reruns.size(); ++i) reruns[i] += other.reruns[i];
  completed_twice += other.completed_twice;
  to_start.add(other.to_start);
  to_record.add(other.to_record);
}

std::string_view to_string(Rerun why) {
  switch (why) {
    case Rerun::failed: return "failed";
    case Rerun::lost: return "lost";
    case Rerun::timed_out: return "timed_out";
    case Rerun::unknown: return "unknown";
    case Rerun::interrupted: return "interrupted";
    case Rerun::asked: return "asked";
    case Rerun::older: return "older";
    case Rerun::unexplained: return "unexplained";
  }
  return "?";
}

std::string_view to_string(Discrepancy::Kind kind) {
  switch (kind) {
    case Discrepancy::Kind::missing: return "missing";
    case Discrepancy::Kind::overlooked: return "overlooked";
    case Discrepancy::Kind::stray: return "stray";
    case Discrepancy::Kind::inconsistent: return "inconsistent";
    case Discrepancy::Kind::damaged: return "damaged";
  }
  return "?";
}

}  // namespace once::inline v1

namespace once::core {
namespace {

constexpr Duration kHour = std::chrono::hours{1};

bool has_action(const Record& record, OperatorAction::Act act) {
  return record.actions > record.story.size() ||
         std::any_of(record.story.begin(), record.story.end(),
                     [&](const OperatorAction& action) { return action.act == act; });
}

// Whether the handler began. It did not if the claim was given back or only asked the probe.
bool began(const Attempt& attempt) {
  return attempt.ending != Ending::released && !attempt.probing;
}

Rerun why_after(const Record& record, const Attempt& before) {
  switch (before.ending) {
    case Ending::failed: return Rerun::failed;
    case Ending::lost: return Rerun::lost;
    case Ending::timed_out: return Rerun::timed_out;
    case Ending::unknown: return Rerun::unknown;
    case Ending::interrupted: return Rerun::interrupted;
    case Ending::dead:
    case Ending::completed:  // a step was held, so the task was in doubt until a person decided
      if (has_action(record, OperatorAction::Act::retried) ||
          has_action(record, OperatorAction::Act::step_completed))
        return Rerun::asked;
      break;
    case Ending::running:
    case Ending::released: break;
  }
  return Rerun::unexplained;
}

void count_attempts(const Record& record, Totals& into) {
  std::uint64_t dropped =
      record.claims > record.attempts.size() ? record.claims - record.attempts.size() : 0;
  into.attempts += dropped;
  if (dropped > 1) into.reruns[static_cast<std::size_t>(Rerun::older)] += dropped - 1;
  const Attempt* before = nullptr;
  std::uint64_t completions = 0;
  for (const Attempt& attempt : record.attempts) {
    if (!began(attempt)) continue;
    ++into.attempts;
    if (attempt.ending == Ending::completed) ++completions;
    if (before) {
      const Rerun why = why_after(record, *before);
      ++into.reruns[static_cast<std::size_t>(why)];
      // The task was held in doubt, and a person ordered it to run again. So it was not completed.
      if (before->ending == Ending::completed && why == Rerun::asked) --completions;
    } else if (dropped > 0) {
      ++into.reruns[static_cast<std::size_t>(Rerun::older)];
    }
    before = &attempt;
  }
  if (completions > 1) into.completed_twice += completions - 1;
}

void measure(const AccountedTask& task, Totals& into) {
  const auto& attempts = task.record->attempts;
  if (!task.ready || attempts.empty()) return;
  if (attempts.front().number == 1) into.to_start.add(attempts.front().started_at - *task.ready);
  const Attempt& last = attempts.back();
  if (task.state == State::completed && last.ending == Ending::completed && last.ended_at)
    into.to_record.add(*last.ended_at - *task.ready);
}

std::string contradiction(const Record& record) {
  const auto name = [](const Attempt& attempt) {
    return "attempt " + std::to_string(attempt.number);
  };
  const Attempt* before = nullptr;
  bool completed = false;
  for (const Attempt& attempt : record.attempts) {
    const bool last = &attempt == &record.attempts.back();
    if (attempt.ending == Ending::running && !(last && record.state == State::running))
      return name(attempt) + " has no end, though it is " +
             (last ? std::string(to_string(record.state)) : "not the last one");
    if (began(attempt)) {
      if (before && why_after(record, *before) == Rerun::unexplained)
        return name(attempt) + " began though " + name(*before) + " ended as " +
               std::string(to_string(before->ending));
      before = &attempt;
    }
    completed = completed || attempt.ending == Ending::completed;
  }
  if (record.attempts.size() > record.claims) return "it has more attempts than claims";
  if (record.state == State::running && !record.offer && !record.attempts.empty() &&
      record.attempts.back().ending != Ending::running)
    return "it is running, though its last attempt has ended";
  // Only a held step or a person changes a completed attempt's task, and both leave an action.
  if (record.state != State::completed && record.actions == 0 && !record.attempts.empty() &&
      record.attempts.back().ending == Ending::completed)
    return "it is " + std::string(to_string(record.state)) +
           ", though its last attempt completed, and nothing says why";
  if (record.state == State::completed && !completed && record.claims == record.attempts.size() &&
      !has_action(record, OperatorAction::Act::completed) &&
      !has_action(record, OperatorAction::Act::happened))
    return "it is completed, and nothing says by whom";
  return {};
}

}  // namespace

std::int64_t hour_of(Time time) {
  return std::chrono::floor<std::chrono::hours>(time).time_since_epoch().count();
}

Time begin_of_hour(std::int64_t hour) { return Time{kHour * hour}; }

std::string account(const AccountedTask& task, Totals& into) {
  ++into.published;
  ++into.states[static_cast<std::size_t>(task.state)];
  if (!task.record) return {};
  const Record& record = *task.record;
  if (record.state == State::duplicate ||
      (record.state == State::dead && record.reason.starts_with(kConflictingKey)))
    ++into.duplicates_by_ledger;
  count_attempts(record, into);
  measure(task, into);
  return contradiction(record);
}

std::string contradiction(const Record& record, const RecordNote& noted) {
  const auto differs = [](std::string_view what, auto inside, auto outside) {
    return "its record says " + std::string(what) + " " + inside +
           ", and the ledger's own column " + outside;
  };
  if (record.state != noted.state)
    return differs("that it is", std::string(to_string(record.state)),
                   std::string(to_string(noted.state)));
  if (record.member != noted.member)
    return differs("worker number", std::to_string(record.member.value),
                   std::to_string(noted.member.value));
  if (record.sequence && noted.sequence && record.sequence != noted.sequence)
    return "its record is about #" + std::to_string(record.sequence.value) +
           " and is filed under #" + std::to_string(noted.sequence.value);
  for (const Attempt& attempt : record.attempts)
    if (attempt.token.value > noted.revision.value)
      return "attempt " + std::to_string(attempt.number) + " has token " +
             std::to_string(attempt.token.value) + ", which is after the record's revision " +
             std::to_string(noted.revision.value);
  if (noted.digest && record.sequence && record.digest != *noted.digest)
    return "its record was made for other content than the log has";
  return {};
}

std::string contradiction(Stage stage, bool has_body, bool has_records) {
  switch (stage) {
    case Stage::whole: return has_body ? "" : "its body is gone, though nothing took it";
    case Stage::body_retired:
      return has_body ? "its body is there, though the log says that retention took it" : "";
    case Stage::records_dropped:
      if (has_body) return "its body is there, though the log says that retention took it";
      return has_records ? "its records are there, though the log says that retention took them"
                         : "";
  }
  return "its stage is " + std::to_string(static_cast<int>(stage)) + ", which is none";
}

std::string contradiction(const Totals& totals) {
  const std::uint64_t in_a_state =
      std::accumulate(totals.states.begin(), totals.states.end(), std::uint64_t{0});
  if (in_a_state != totals.published)
    return std::to_string(totals.published) + " tasks, of which " + std::to_string(in_a_state) +
           " are in a state";
  if (totals.all_reruns() > totals.attempts)
    return std::to_string(totals.all_reruns()) + " re-runs in " + std::to_string(totals.attempts) +
           " attempts";
  return {};
}

void Past::take_records(std::uint64_t number, Time published, const AccountedTask& task) {
  if (records.contains(number)) return;
  records.add(number);
  account(task, hours[hour_of(published)]);
}

void Past::take_id(std::uint64_t number, Time published, std::uint64_t duplicates) {
  if (ids.contains(number)) return;
  ids.add(number);
  if (duplicates > 0) hours[hour_of(published)].duplicates_at_append += duplicates;
}

}  // namespace once::core
