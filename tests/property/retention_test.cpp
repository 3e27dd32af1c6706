// However the queues stand and whatever the clock says: nothing that somebody still waits for or has
// to look at is forgotten, and nothing before its time or out of order.
#include "core/retention.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace once::core {
namespace {

const std::vector<State> kDone{State::completed, State::cancelled, State::duplicate};
const std::vector<State> kNotDone{State::scheduled, State::waiting,  State::running,
                                  State::retrying,  State::in_doubt, State::dead};

StoreTime any_time() { return StoreTime{Duration{*rc::gen::inRange(0, 100)}}; }

Retention any_ages() {
  const auto any_age = [] { return Duration{*rc::gen::inRange(0, 50)}; };
  return {.bodies = any_age(), .records = any_age(), .ids = any_age()};
}

std::vector<Standing> any_done() {
  std::vector<Standing> standings(*rc::gen::inRange<std::size_t>(0, 4));
  for (Standing& standing : standings) standing = Standing{*rc::gen::elementOf(kDone), any_time()};
  return standings;
}

RC_GTEST_PROP(Retention, NeverForgetsWhatIsNotDone, ()) {
  const Stage stage = *rc::gen::element(Stage::whole, Stage::body_retired);
  std::vector<Standing> standings = any_done();
  const auto place = *rc::gen::inRange<std::size_t>(0, standings.size() + 1);
  standings.insert(standings.begin() + static_cast<std::ptrdiff_t>(place),
                   Standing{*rc::gen::elementOf(kNotDone), any_time()});
  RC_ASSERT(may_forget(stage, any_time(), standings, any_ages(), any_time()) == Forget::nothing);
}

RC_GTEST_PROP(Retention, NeverForgetsWhatIsUnrouted, ()) {
  RC_ASSERT(may_forget(Stage::whole, any_time(), {}, any_ages(), any_time()) == Forget::nothing);
}

RC_GTEST_PROP(Retention, ForgetsTheNextThingInOrderAndAtItsTime, ()) {
  struct Order {
    Stage stage;
    Forget next;
    Duration Retention::*age;
  };
  const Order order =
      *rc::gen::element(Order{Stage::whole, Forget::body, &Retention::bodies},
                        Order{Stage::body_retired, Forget::records, &Retention::records},
                        Order{Stage::records_dropped, Forget::id, &Retention::ids});
  std::vector<Standing> standings = any_done();
  if (order.stage == Stage::records_dropped) standings.clear();
  if (order.stage == Stage::whole) standings.push_back({State::completed, any_time()});
  const StoreTime since = any_time();
  const Retention ages = any_ages();
  StoreTime last_change = since;
  for (const Standing& standing : standings) last_change = std::max(last_change, standing.since);
  const StoreTime due = last_change + ages.*order.age;

  if (due > last_change)
    RC_ASSERT(may_forget(order.stage, since, standings, ages, due - Duration{1}) ==
              Forget::nothing);
  RC_ASSERT(may_forget(order.stage, since, standings, ages, due) == order.next);
  RC_ASSERT(may_forget(order.stage, since, standings, ages,
                       due + Duration{*rc::gen::inRange(0, 999)}) == order.next);
}

}  // namespace
}  // namespace once::core
