#include "core/retention.h"

#include <algorithm>

namespace once::core {

Forget may_forget(Stage stage, StoreTime since, std::span<const Standing> standings,
                  const Retention& ages, StoreTime now) {
  // A queue that still waits for the task, and a person who still has to look at it, keep it.
  for (const Standing& standing : standings) {
    if (standing.state != State::completed && standing.state != State::cancelled &&
        standing.state != State::duplicate)
      return Forget::nothing;
    since = std::max(since, standing.since);
  }
  const Duration age = now - since;
  switch (stage) {
    case Stage::whole:
      return !standings.empty() && age >= ages.bodies ? Forget::body : Forget::nothing;
    case Stage::body_retired: return age >= ages.records ? Forget::records : Forget::nothing;
    case Stage::records_dropped: return age >= ages.ids ? Forget::id : Forget::nothing;
  }
  return Forget::nothing;
}

bool may_forget_alone(const Standing& standing, const Retention& ages, StoreTime now) {
  const bool done = standing.state == State::completed || standing.state == State::cancelled;
  return done && now - standing.since >= ages.records;
}

}  // namespace once::core
