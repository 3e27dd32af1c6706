#include "core/record.h"

namespace once::core {

std::string_view to_string(Ending ending) {
  switch (ending) {
    case Ending::running: return "running";
    case Ending::completed: return "completed";
    case Ending::failed: return "failed";
    case Ending::dead: return "dead";
    case Ending::lost: return "lost";
    case Ending::timed_out: return "timed_out";
    case Ending::unknown: return "unknown";
    case Ending::interrupted: return "interrupted";
    case Ending::released: return "released";
  }
  return "?";
}

bool without_verdict(Ending ending) {
  return ending == Ending::lost || ending == Ending::timed_out || ending == Ending::unknown ||
         ending == Ending::interrupted;
}

bool settled(State state) {
  switch (state) {
    case State::scheduled:
    case State::waiting:
    case State::running:
    case State::retrying: return false;
    case State::in_doubt:
    case State::completed:
    case State::dead:
    case State::cancelled:
    case State::duplicate: return true;
  }
  return false;
}

std::optional<Duration> look_again(const Record& record) {
  switch (record.state) {
    case State::waiting: return Duration{0};
    case State::running: return record.lease;
    case State::retrying: return record.delay;
    default: return std::nullopt;
  }
}

Token token_of(const Record& record, Revision revision) {
  if (!record.attempts.empty() && record.attempts.back().token) return record.attempts.back().token;
  return Token{revision.value};
}

}  // namespace once::core
