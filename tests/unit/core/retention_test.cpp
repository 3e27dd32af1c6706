// Bodies, then records, then ids: each only after the one before, and nothing that somebody still
// waits for or has to look at.
#include "core/retention.h"

#include <gtest/gtest.h>

#include <ostream>

#include "unit/core/examples.h"

namespace once::core {

void PrintTo(Forget forget, std::ostream* out) {
  switch (forget) {
    case Forget::nothing: *out << "nothing"; return;
    case Forget::body: *out << "the body"; return;
    case Forget::records: *out << "the records"; return;
    case Forget::id: *out << "the id"; return;
  }
}

namespace {

using namespace examples;

constexpr Duration days(int count) { return std::chrono::hours{24 * count}; }
constexpr StoreTime on_day(int day) { return StoreTime{days(day)}; }

const Retention kAges{.bodies = days(7), .records = days(30), .ids = days(90)};

TEST(Retention, GoesFromBodyToRecordsToId) {
  struct Row {
    const char* what;
    Stage stage;
    StoreTime since;  // in this stage
    std::vector<Standing> standings;
    StoreTime now;
    Forget forget;
  };
  const Standing done_on_day_10{State::completed, on_day(10)};
  const Standing done_on_day_20{State::completed, on_day(20)};
  const Row rows[] = {
      {"the body, before its age",
       Stage::whole,
       on_day(0),
       {done_on_day_10},
       on_day(17) - ms(1),
       Forget::nothing},
      {"the body, at its age", Stage::whole, on_day(0), {done_on_day_10}, on_day(17), Forget::body},
      {"the last queue to settle counts",
       Stage::whole,
       on_day(0),
       {done_on_day_20, done_on_day_10},
       on_day(27) - ms(1),
       Forget::nothing},
      {"and then lets go",
       Stage::whole,
       on_day(0),
       {done_on_day_20, done_on_day_10},
       on_day(27),
       Forget::body},
      {"what owes a reply is kept",
       Stage::whole,
       on_day(0),
       {{State::completed, on_day(10), true}},
       on_day(9999),
       Forget::nothing},
      {"unrouted is kept", Stage::whole, on_day(0), {}, on_day(9999), Forget::nothing},
      {"never more than the body first",
       Stage::whole,
       on_day(0),
       {done_on_day_10},
       on_day(9999),
       Forget::body},
      {"the records, before their age",
       Stage::body_retired,
       on_day(17),
       {done_on_day_10},
       on_day(47) - ms(1),
       Forget::nothing},
      {"the records, at their age",
       Stage::body_retired,
       on_day(17),
       {done_on_day_10},
       on_day(47),
       Forget::records},
      {"never the id before the records",
       Stage::body_retired,
       on_day(17),
       {done_on_day_10},
       on_day(9999),
       Forget::records},
      {"the id, before its age",
       Stage::records_dropped,
       on_day(47),
       {},
       on_day(137) - ms(1),
       Forget::nothing},
      {"the id, at its age", Stage::records_dropped, on_day(47), {}, on_day(137), Forget::id},
      {"a clock that went back forgets nothing",
       Stage::whole,
       on_day(0),
       {done_on_day_10},
       on_day(1),
       Forget::nothing},
  };
  for (const Row& row : rows)
    EXPECT_EQ(may_forget(row.stage, row.since, row.standings, kAges, row.now), row.forget)
        << row.what;
}

TEST(Retention, OneQueueThatIsNotDoneKeepsTheTask) {
  const std::pair<State, bool> rows[] = {
      {State::scheduled, true},  {State::waiting, true},    {State::running, true},
      {State::retrying, true},   {State::in_doubt, true},   {State::dead, true},
      {State::completed, false}, {State::cancelled, false}, {State::duplicate, false},
  };
  for (const auto& [state, keeps] : rows)
    for (const Stage stage : {Stage::whole, Stage::body_retired}) {
      const Standing standings[] = {
          {State::completed, on_day(0)}, {state, on_day(0)}, {State::completed, on_day(0)}};
      const Forget forget = may_forget(stage, on_day(0), standings, kAges, on_day(9999));
      EXPECT_EQ(forget == Forget::nothing, keeps) << to_string(state);
    }
}

// Of a ledger-only queue there is no entry: the record goes by itself.
TEST(Retention, AClockThatIsBehindMakesNothingYoungerThanNew) {
  const Retention at_once{.bodies = days(0), .records = days(0), .ids = days(0)};
  const Standing done{State::completed, on_day(10)};
  const std::vector<Standing> standings{done};
  EXPECT_EQ(may_forget(Stage::whole, on_day(10), standings, at_once, on_day(9)), Forget::body);
  EXPECT_TRUE(may_forget_ledger_only(done, at_once, on_day(9)));
  EXPECT_TRUE(may_forget_outside(done, true, at_once, on_day(9)));
  EXPECT_FALSE(may_forget_ledger_only(done, kAges, on_day(9)));
}

TEST(Retention, ARecordWithoutAnEntryGoesWhenItIsDone) {
  const std::pair<State, bool> rows[] = {
      {State::waiting, false},  {State::running, false}, {State::retrying, false},
      {State::in_doubt, false}, {State::dead, false},    {State::completed, true},
      {State::cancelled, true},
  };
  for (const auto& [state, goes] : rows) {
    const Standing standing{state, on_day(10)};
    EXPECT_EQ(may_forget_ledger_only(standing, kAges, on_day(40)), goes) << to_string(state);
    EXPECT_FALSE(may_forget_ledger_only(standing, kAges, on_day(40) - ms(1))) << to_string(state);
  }
}

// In a stream of others' the record is all that remembers, and the entry may outlive every age.
TEST(Retention, ARecordOfAnEntryOutsideGoesWhenTheEntryIsGoneAndAnIdWouldGo) {
  const std::pair<State, bool> rows[] = {
      {State::waiting, false},  {State::running, false},  {State::retrying, false},
      {State::in_doubt, false}, {State::dead, false},     {State::completed, true},
      {State::cancelled, true}, {State::duplicate, true},
  };
  const StoreTime old = on_day(10) + kAges.bodies + kAges.records + kAges.ids;
  for (const auto& [state, goes] : rows) {
    const Standing standing{state, on_day(10)};
    EXPECT_EQ(may_forget_outside(standing, true, kAges, old), goes) << to_string(state);
    EXPECT_FALSE(may_forget_outside(standing, true, kAges, old - ms(1))) << to_string(state);
    EXPECT_FALSE(may_forget_outside(standing, false, kAges, on_day(100'000))) << to_string(state);
  }
}

}  // namespace
}  // namespace once::core
