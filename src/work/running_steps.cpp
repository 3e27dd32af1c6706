#include "work/running_steps.h"

#include "core/names.h"
#include "core/utf8.h"
#include "core/words.h"

namespace once::engine {
namespace {

using core::quoted;

constexpr Duration kStepRetryDelay{100};                // between two tries
constexpr Duration kGiveUp = std::chrono::seconds{10};  // a worker that is ending stops trying

Steps::BeginResult refused(Error error) {
  return {.kind = Steps::BeginResult::Kind::refused, .error = std::move(error)};
}

Error invalid(std::string message) {
  return {.code = Code::invalid_input, .message = std::move(message)};
}

Error over(const WriteResult& written, const core::Nonce& mine) {
  const core::Record* const record = written.stored ? &written.stored->record : nullptr;
  if (!record || record->nonce != mine || record->state == State::completed)
    return {.code = Code::fenced,
            .message = "the task is not this worker's any more: this attempt is over"};
  if (record->state == State::in_doubt)
    return {.code = Code::wrong_state,
            .message = "the task is held in doubt until a person decides: " + record->reason};
  return {.code = Code::wrong_state, .message = "the task was cancelled: this attempt is over"};
}

}  // namespace

RunningSteps::RunningSteps(LeaseKeeper& keeper, Scheduler& scheduler, RunningTask& running,
                           std::string worker, std::function<bool()> ending)
    : keeper_(keeper),
      scheduler_(scheduler),
      running_(running),
      worker_(std::move(worker)),
      ending_(std::move(ending)) {}

Steps::BeginResult RunningSteps::begin(std::string_view name, std::optional<InDoubt> policy,
                                       bool asked) {
  if (auto ok = core::check_step_name(name); !ok) return refused(ok.error());
  if (const auto why = keeper_.given_up(running_))
    return {.kind = BeginResult::Kind::over,
            .error = Error{.code = Code::outcome_unknown, .message = *why, .in_doubt = true}};
  {
    const std::lock_guard lock(mutex_);
    if (used_.contains(name) != asked)
      return refused(invalid(asked ? "step " + quoted(name) + " was not asked about"
                                   : "step " + quoted(name) +
                                         " was used before in this attempt; nothing was run: give "
                                         "each step a name of its own"));
    used_.emplace(name);
  }
  const Moment deadline = keeper_.lease_end(running_);
  auto written =
      write(core::StepBegin{.nonce = running_.nonce,
                            .name = std::string(name),
                            .policy = core::step_policy(keeper_.policy(running_), policy),
                            .asked = asked},
            [&] { return scheduler_.now() >= deadline || running_.stop.stop_requested(); });
  if (!written) {
    const std::lock_guard lock(mutex_);
    used_.erase(std::string(name));
    Error error = written.error();
    error.message = "step " + quoted(name) + " was not run: " + error.message;
    return refused(std::move(error));
  }
  switch (written->decision.verdict) {
    case core::Verdict::step_begun:
    case core::Verdict::already_done: return {.kind = BeginResult::Kind::run};
    case core::Verdict::step_remembered: {
      const core::Step* step = core::find_step(written->stored->record, name);
      return {.kind = BeginResult::Kind::remembered,
              .result = step->result,
              .result_cut = step->result_cut};
    }
    case core::Verdict::step_in_doubt: return {.kind = BeginResult::Kind::ask};
    case core::Verdict::step_refused:
      return refused(invalid("a task can have at most " + std::to_string(core::kMostSteps) +
                             " steps; step " + quoted(name) + " was not run"));
    default: return {.kind = BeginResult::Kind::over, .error = over(*written, running_.nonce)};
  }
}

Result<void> RunningSteps::end(std::string_view name, Body result, std::uint64_t oversize) {
  const core::StepEnd end{.nonce = running_.nonce,
                          .name = std::string(name),
                          .result = std::move(result),
                          .oversize = oversize};
  return settle(end, name);
}

Result<void> RunningSteps::fail(std::string_view name, std::string_view why) {
  return settle(core::StepFail{.nonce = running_.nonce,
                               .name = std::string(name),
                               .error = core::excerpt(core::readable(why), core::kOldErrorKept)},
                name);
}

Error RunningSteps::hold(std::string_view name, std::string why) {
  auto written = insist(core::StepHold{
      .nonce = running_.nonce, .name = std::string(name), .by = worker_, .why = std::move(why)});
  return written ? over(*written, running_.nonce) : written.error();
}

Result<void> RunningSteps::settle(const core::Command& command, std::string_view name) {
  auto written = insist(command);
  if (!written) {
    Error error = written.error();
    error.message = "step " + quoted(name) +
                    " has run and could not be recorded: it is in doubt (" + error.message + ")";
    error.in_doubt = true;
    return error;
  }
  switch (written->decision.verdict) {
    case core::Verdict::step_recorded:
    case core::Verdict::already_done: return {};
    case core::Verdict::step_refused:
      return invalid("step " + quoted(name) + " has not begun in this attempt");
    default: return over(*written, running_.nonce);
  }
}

Result<WriteResult> RunningSteps::insist(const core::Command& command) {
  std::optional<Moment> late;
  auto written = write(command, [&] {
    if (!ending_()) return false;
    if (!late) late = scheduler_.now() + kGiveUp;
    return scheduler_.now() >= *late;
  });
  // It is unknown how far the attempt came. So the handler's report must not be recorded.
  if (!written) keeper_.give_up(running_, written.error().message);
  return written;
}

Result<WriteResult> RunningSteps::write(const core::Command& command,
                                        const std::function<bool()>& give_up) {
  while (true) {
    auto written = keeper_.write(running_, command);
    if (written || !written.error().retryable || give_up()) return written;
    pause();
  }
}

void RunningSteps::pause() {
  const auto mutex = scheduler_.mutex();
  const auto condition = mutex->condition();
  const std::lock_guard lock(*mutex);
  condition->wait(scheduler_.now() + kStepRetryDelay);
}

}  // namespace once::engine
