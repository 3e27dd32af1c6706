#include "work/settler.h"

namespace once::engine {

Settler::Settled Settler::settle(Flights flights, const Swapper& first) {
  std::vector<RunningTask*> all;
  for (const auto& flight : flights) all.push_back(flight.get());
  keeper_.unwatch(all);

  Settled settled;
  const auto fenced = [&](const RunningTask& flight) {
    settled.fenced.push_back(flight.task.id);
    meter_.fenced();
  };
  std::vector<Intent> intents;
  std::vector<std::size_t> of;
  for (std::size_t i = 0; i < flights.size(); ++i) {
    RunningTask& flight = *flights[i];
    if (flight.stopped == Stopped::lost) {
      fenced(flight);
      continue;
    }
    if (flight.stopped == Stopped::settled) {
      meter_.settled(flight, flight.stored.record);
      continue;
    }
    intents.push_back({.at = flight.address,
                       .known = flight.stored,
                       .command = command(flight),
                       .handle = flight.handle});
    of.push_back(i);
  }
  auto written = scribe_.write(std::move(intents), first);
  for (std::size_t k = 0; k < of.size(); ++k) {
    if (written[k]) {
      const RunningTask& flight = *flights[of[k]];
      if (written[k]->decision.verdict == core::Verdict::fenced)
        fenced(flight);
      else
        meter_.settled(flight, written[k]->stored->record);
      continue;
    }
    settled.error = written[k].error();
    settled.unwritten.push_back(std::move(flights[of[k]]));
  }
  return settled;
}

core::Command Settler::command(const RunningTask& flight) {
  if (!flight.report) return core::Release{.nonce = flight.nonce};
  const Report& report = *flight.report;
  if (report.never_started)
    return core::Release{
        .nonce = flight.nonce, .error = report.never_started->message, .log = report.log};
  if (flight.given_up)
    return core::Doubt{.nonce = flight.nonce,
                       .ending = core::Ending::unknown,
                       .error = *flight.given_up,
                       .jitter = scheduler_.random(),
                       .log = report.log};
  const Outcome& outcome = report.outcome;
  if (outcome.kind() == Outcome::Kind::completed) {
    core::Complete complete{.nonce = flight.nonce,
                            .result = outcome.result(),
                            .oversize = report.oversize,
                            .log = report.log};
    if (flight.probed) complete.probed_by = flight.stored.record.attempts.back().worker;
    return complete;
  }
  const bool verdict = outcome.kind() == Outcome::Kind::dead;
  if (flight.stopped == Stopped::interrupted && !verdict)
    return core::Release{
        .nonce = flight.nonce, .started = true, .error = outcome.why(), .log = report.log};
  if (flight.stopped == Stopped::timed_out && !verdict)
    return core::Doubt{.nonce = flight.nonce,
                       .ending = core::Ending::timed_out,
                       .error = outcome.why(),
                       .jitter = scheduler_.random(),
                       .log = report.log};
  if (outcome.kind() == Outcome::Kind::unknown)
    return core::Doubt{.nonce = flight.nonce,
                       .ending = core::Ending::unknown,
                       .error = outcome.why(),
                       .jitter = scheduler_.random(),
                       .log = report.log};
  return core::Fail{.nonce = flight.nonce,
                    .error = outcome.why(),
                    .retry_in = outcome.retry_in(),
                    .final = outcome.kind() == Outcome::Kind::dead,
                    .jitter = scheduler_.random(),
                    .log = report.log};
}

}  // namespace once::engine
