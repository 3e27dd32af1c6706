// What a record says about itself: which states are settled, when to look again, which token its
// claim has, which endings leave doubt; and the names of states.
#include "core/record.h"

#include <gtest/gtest.h>

#include "unit/core/examples.h"

namespace once::core {
namespace {

using namespace examples;

struct StateRow {
  State state;
  const char* name;
  bool settled;
  std::optional<Duration> look_again;
};

// The lease is 30 s and the delay 10 s; only the one that belongs to the state counts.
const StateRow kStates[] = {
    {State::scheduled, "scheduled", false, std::nullopt},
    {State::waiting, "waiting", false, Duration{0}},
    {State::running, "running", false, Duration{30'000}},
    {State::retrying, "retrying", false, Duration{10'000}},
    {State::in_doubt, "in_doubt", true, std::nullopt},
    {State::completed, "completed", true, std::nullopt},
    {State::dead, "dead", true, std::nullopt},
    {State::cancelled, "cancelled", true, std::nullopt},
    {State::duplicate, "duplicate", true, std::nullopt},
};

TEST(Record, KnowsWhatIsSettledAndWhenToLookAgain) {
  for (const StateRow& row : kStates) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(settled(row.state), row.settled);
    if (row.state == State::scheduled) continue;  // never in a record
    const Record record{.state = row.state, .lease = seconds(30), .delay = seconds(10)};
    EXPECT_EQ(look_again(record), row.look_again);
  }
}

TEST(Record, StatesAreNamedAsPeopleTypeThem) {
  for (const StateRow& row : kStates) {
    EXPECT_EQ(to_string(row.state), row.name);
    EXPECT_EQ(state_from(row.name), row.state);
  }
  for (const char* unknown : {"", "Waiting", "in doubt", "failed", "unrouted", "completed "})
    EXPECT_EQ(state_from(unknown), std::nullopt) << unknown;
}

TEST(Record, EndingsAreNamedAndKnowWhetherTheyAreAVerdict) {
  struct Row {
    Ending ending;
    const char* name;
    bool without_verdict;
  };
  const Row rows[] = {
      {Ending::running, "running", false},   {Ending::completed, "completed", false},
      {Ending::failed, "failed", false},     {Ending::dead, "dead", false},
      {Ending::lost, "lost", true},          {Ending::timed_out, "timed_out", true},
      {Ending::unknown, "unknown", true},    {Ending::interrupted, "interrupted", true},
      {Ending::released, "released", false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(to_string(row.ending), row.name);
    EXPECT_EQ(without_verdict(row.ending), row.without_verdict) << row.name;
  }
}

TEST(Record, ItsLastErrorSaysThatTheAttemptRanOutOfTime) {
  Record record{.error = "exit 1"};
  EXPECT_EQ(last_error(record), "exit 1");
  record.attempts.push_back({.number = 1, .ending = Ending::failed, .error = "exit 1"});
  EXPECT_EQ(last_error(record), "exit 1");
  record.attempts.push_back({.number = 2, .ending = Ending::timed_out});
  EXPECT_EQ(last_error(record), "timed out") << "the error is that of an earlier attempt";
  record.attempts.back().error = "killed";
  EXPECT_EQ(last_error(record), "timed out: killed");
  record.own = TaskPolicy{.timeout = Duration{5'000}};
  EXPECT_EQ(last_error(record), "timed out after 5s: killed");
}

TEST(Record, TheTokenIsTheRevisionUntilItIsWrittenDown) {
  struct Row {
    const char* what;
    Record record;
    Token token;
  };
  Record stamped = running(2);
  stamped.attempts.back().token = Token{42};
  const Row rows[] = {
      {"just claimed", running(2), Token{kRevision.value}},
      {"written down since", stamped, Token{42}},
      {"never claimed", duplicate(), Token{kRevision.value}},
  };
  for (const Row& row : rows) EXPECT_EQ(token_of(row.record, kRevision), row.token) << row.what;
}

TEST(InDoubt, PoliciesAreNamedAsPeopleTypeThem) {
  const std::pair<InDoubt, const char*> rows[] = {{InDoubt::retry, "retry"},
                                                  {InDoubt::steps, "steps"},
                                                  {InDoubt::hold, "hold"},
                                                  {InDoubt::probe, "probe"}};
  for (const auto& [policy, name] : rows) {
    EXPECT_EQ(to_string(policy), name);
    EXPECT_EQ(in_doubt_from(name), policy);
  }
  for (const char* unknown : {"", "Retry", "step", "ask"})
    EXPECT_EQ(in_doubt_from(unknown), std::nullopt) << unknown;
}

TEST(Code, EveryOneHasItsName) {
  const std::pair<Code, const char*> rows[] = {
      {Code::conflicting_duplicate, "conflicting_duplicate"},
      {Code::invalid_input, "invalid_input"},
      {Code::too_large, "too_large"},
      {Code::queue_mismatch, "queue_mismatch"},
      {Code::not_found, "not_found"},
      {Code::wrong_state, "wrong_state"},
      {Code::fenced, "fenced"},
      {Code::failed, "failed"},
      {Code::store_unavailable, "store_unavailable"},
      {Code::store_unusable, "store_unusable"},
      {Code::outcome_unknown, "outcome_unknown"},
      {Code::timed_out, "timed_out"},
  };
  for (const auto& [code, name] : rows) EXPECT_EQ(to_string(code), name);
}

}  // namespace
}  // namespace once::core
