#include "core/retention.h"

#include <algorithm>

namespace once::core {

namespace {

// Settled for good: it owes no reply and needs no decision of a person.
bool done(const Standing& standing) {
  const State state = standing.state;
  return !standing.owes &&
         (state == State::completed || state == State::cancelled || state == State::duplicate);
}

Duration age_of(Stage stage, const Retention& ages) {
  switch (stage) {
    case Stage::whole: return ages.bodies;
    case Stage::body_retired: return ages.records;
    case Stage::records_dropped: break;
  }
  return ages.ids;
}

// A timestamp may be slightly ahead of the caller's clock. Then the age is zero.
Duration age(StoreTime since, StoreTime now) { return std::max(now - since, Duration{0}); }

}  // namespace

bool old_enough(Stage stage, StoreTime since, const Retention& ages, StoreTime now) {
  return age(since, now) >= age_of(stage, ages);
}

Forget may_forget(Stage stage, StoreTime since, std::span<const Standing> standings,
                  const Retention& ages, StoreTime now) {
  // A task is kept while one of its queues has not finished it, or a person must decide.
  for (const Standing& standing : standings) {
    if (!done(standing)) return Forget::nothing;
    since = std::max(since, standing.since);
  }
  if (!old_enough(stage, since, ages, now)) return Forget::nothing;
  switch (stage) {
    case Stage::whole: return standings.empty() ? Forget::nothing : Forget::body;
    case Stage::body_retired: return Forget::records;
    case Stage::records_dropped: return Forget::id;
  }
  return Forget::nothing;
}

bool may_forget_ledger_only(const Standing& standing, const Retention& ages, StoreTime now) {
  return done(standing) && age(standing.since, now) >= ages.records;
}

bool may_forget_outside(const Standing& standing, bool entry_gone, const Retention& ages,
                        StoreTime now) {
  return entry_gone && done(standing) &&
         age(standing.since, now) >= ages.bodies + ages.records + ages.ids;
}

}  // namespace once::core
