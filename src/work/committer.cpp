#include "work/committer.h"

#include <utility>

namespace once::engine {

Committer::Commit Committer::commit(RunningTasks ended, std::optional<IntakeRequest> claims) {
  const bool claims_alone = ended.empty();
  std::vector<RunningTask*> all;
  for (const auto& running : ended) all.push_back(running.get());
  keeper_.unwatch(all);

  FinishResult result;
  RunningTasks writing;
  std::vector<Intent> intents;
  for (auto& running : ended) {
    if (running->stopped == Stopped::lost) {
      note_fenced(*running, result);
    } else if (running->stopped == Stopped::settled) {
      counters_.settled(*running, running->stored.record);
    } else {
      intents.push_back({.at = running->address,
                         .known = running->stored,
                         .command = command(*running),
                         .handle = running->handle});
      writing.push_back(std::move(running));
    }
  }
  Commit commit(writer_.begin(std::move(intents)));
  commit.writing_ = std::move(writing);
  commit.result_ = std::move(result);
  const auto records = commit.batch_.swaps();
  if (!claims || (records.empty() && !claims_alone)) return commit;
  auto both = intake_.commit(records, std::move(*claims));
  writer_.answered(commit.batch_, std::move(both.swapped));
  commit.claimed = std::move(both.taken);
  return commit;
}

Committer::FinishResult Committer::finish(Commit commit) {
  FinishResult result = std::move(commit.result_);
  auto written = writer_.finish(std::move(commit.batch_));
  for (std::size_t i = 0; i < written.size(); ++i) {
    std::unique_ptr<RunningTask>& running = commit.writing_[i];
    if (!written[i]) {
      result.error = written[i].error();
      result.unwritten.push_back(std::move(running));
    } else if (written[i]->decision.verdict == core::Verdict::fenced) {
      note_fenced(*running, result);
    } else {
      counters_.settled(*running, written[i]->stored->record);
    }
  }
  return result;
}

void Committer::note_fenced(const RunningTask& running, FinishResult& result) {
  result.fenced.push_back(running.task.id);
  counters_.fenced();
}

core::Command Committer::command(const RunningTask& running) {
  if (!running.report) return core::Release{.nonce = running.nonce};
  const Report& report = *running.report;
  if (report.never_started)
    return core::Release{
        .nonce = running.nonce, .error = report.never_started->message, .log = report.log};
  if (running.given_up)
    return core::Doubt{.nonce = running.nonce,
                       .ending = core::Ending::unknown,
                       .error = *running.given_up,
                       .jitter = scheduler_.random(),
                       .log = report.log};
  const Outcome& outcome = report.outcome;
  if (outcome.kind() == Outcome::Kind::completed) {
    core::Complete complete{.nonce = running.nonce,
                            .result = outcome.result(),
                            .oversize = report.oversize,
                            .log = report.log};
    if (running.probed) complete.probed_by = running.stored.record.attempts.back().worker;
    return complete;
  }
  const bool verdict = outcome.kind() == Outcome::Kind::dead;
  if (running.stopped == Stopped::interrupted && !verdict)
    return core::Release{
        .nonce = running.nonce, .started = true, .error = outcome.why(), .log = report.log};
  if (running.stopped == Stopped::timed_out && !verdict)
    return core::Doubt{.nonce = running.nonce,
                       .ending = core::Ending::timed_out,
                       .error = outcome.why(),
                       .jitter = scheduler_.random(),
                       .log = report.log};
  if (outcome.kind() == Outcome::Kind::unknown)
    return core::Doubt{.nonce = running.nonce,
                       .ending = core::Ending::unknown,
                       .error = outcome.why(),
                       .jitter = scheduler_.random(),
                       .log = report.log};
  return core::Fail{.nonce = running.nonce,
                    .error = outcome.why(),
                    .retry_in = outcome.retry_in(),
                    .final = outcome.kind() == Outcome::Kind::dead,
                    .jitter = scheduler_.random(),
                    .log = report.log};
}

}  // namespace once::engine
