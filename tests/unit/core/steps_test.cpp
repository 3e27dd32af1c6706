// Durable steps: the table of steps at the top of src/core/decide.cpp, cell by cell, and what each
// writes. Ana runs her second attempt.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "unit/core/examples.h"
#include "unit/core/table.h"

namespace once::core {
namespace {

using namespace examples;

constexpr const char* kTable = R"(
 the step is   | begin, retry          | begin, hold         | begin, probe          | begin, asked          | end                      | fail                     | hold
 none          | step_begun -> running | step_begun -> running| step_begun -> running| step_begun -> running | step_refused             | already_done             | step_refused
 begun now     | already_done          | already_done        | already_done          | already_done          | step_recorded -> running | step_recorded -> running | doubted -> in_doubt
 cut off       | step_begun -> running | doubted -> in_doubt | step_in_doubt         | step_begun -> running | step_recorded -> running | step_recorded -> running | doubted -> in_doubt
 to run again  | step_begun -> running | step_begun -> running| step_begun -> running| step_begun -> running | step_refused             | already_done             | step_refused
 done          | step_remembered       | step_remembered     | step_remembered       | step_remembered       | already_done             | step_refused             | step_refused
 done now      | step_remembered       | step_remembered     | step_remembered       | step_remembered       | already_done             | step_refused             | step_refused
)";

Record attempt_with(std::vector<Step> steps) {
  std::vector<Step> all{done("write")};
  all.insert(all.end(), steps.begin(), steps.end());
  return with(running(2), std::move(all));
}

const std::map<std::string, Record>& situations() {
  static const std::map<std::string, Record> all{
      {"none", attempt_with({})},
      {"begun now", attempt_with({begun("push", 2)})},
      {"cut off", attempt_with({begun("push", 1)})},
      {"to run again", attempt_with({again("push")})},
      {"done", attempt_with({done("push", 1)})},
      {"done now", attempt_with({done("push", 2)})},
  };
  return all;
}

StepBegin begin(InDoubt policy = InDoubt::retry, const Nonce& by = kAna) {
  return {.nonce = by, .name = "push", .policy = policy};
}
StepBegin begin_asked(const Nonce& by = kAna) {
  return {.nonce = by, .name = "push", .policy = InDoubt::probe, .asked = true};
}
StepEnd end(const Nonce& by = kAna) {
  return {.nonce = by, .name = "push", .result = Body::bytes("4b7df1e")};
}
StepFail fail_step(const Nonce& by = kAna) {
  return {.nonce = by, .name = "push", .error = "exit 3"};
}
StepHold hold_step(const Nonce& by = kAna) {
  return {.nonce = by, .name = "push", .by = "ana", .why = "the remote is down"};
}

std::map<std::string, Command> commands_by(const Nonce& who) {
  return {{"begin, retry", begin(InDoubt::retry, who)},
          {"begin, hold", begin(InDoubt::hold, who)},
          {"begin, probe", begin(InDoubt::probe, who)},
          {"begin, asked", begin_asked(who)},
          {"end", end(who)},
          {"fail", fail_step(who)},
          {"hold", hold_step(who)}};
}

Decision ask(const Stored& holds, const Command& command, Now now = after(seconds(5))) {
  return decide(&holds, command, policy(InDoubt::steps), now);
}

Record written(const Decision& made) {
  EXPECT_TRUE(made.next) << "nothing was written: " << to_string(made.verdict);
  return made.next.value_or(Record{});
}

// Nothing but the steps and the story has changed, and the token is written down.
void expect_only_steps_changed(const Record& before, Record after,
                               std::vector<OperatorAction> told = {}) {
  Record expected = before;
  expected.actions += static_cast<std::uint32_t>(told.size());
  expected.story.insert(expected.story.end(), told.begin(), told.end());
  expected.attempts.back().token = Token{kRevision.value};
  expected.lease = kLease - seconds(5);
  expected.steps = after.steps;
  EXPECT_EQ(after, expected);
}

// Each cell is the answer when `how` was done to the record of its situation.
void expect_table(const char* table, const std::function<Record(Record)>& how) {
  const auto rows = rows_of(table);
  const auto& header = rows.front();
  EXPECT_EQ(rows.size() - 1, situations().size());
  EXPECT_EQ(header.size() - 1, commands_by(kAna).size());
  for (std::size_t r = 1; r < rows.size(); ++r)
    for (std::size_t c = 1; c < header.size(); ++c)
      EXPECT_EQ(
          in_words(ask(stored(how(situations().at(rows[r][0]))), commands_by(kAna).at(header[c]))),
          rows[r].at(c))
          << "the step is " << rows[r][0] << "; asked: " << header[c];
}

TEST(Steps, EveryCellAnswersAsWritten) {
  expect_table(kTable, [](Record record) { return record; });
}

// P3: a fenced worker cannot record a step.
TEST(Steps, AreTheHoldersAlone) {
  for (const auto& [what, record] : situations())
    for (const auto& [asked, command] : commands_by(kBen))
      EXPECT_EQ(in_words(ask(stored(record), command)), "fenced") << what << "; " << asked;
  for (Record settled : {waiting(), retrying(), completed(), dead(), cancelled(),
                         ended(Ending::lost, State::in_doubt)})
    for (const auto& [asked, command] : commands_by(kAna)) {
      settled.steps = {begun("push", 1)};
      EXPECT_EQ(in_words(ask(stored(settled), command)), "fenced")
          << to_string(settled.state) << "; " << asked;
    }
  EXPECT_EQ(in_words(decide(nullptr, begin(), policy(), after(ms(0)))), "fenced");
}

TEST(Steps, AWriteWhoseAnswerWasLostFindsItself) {
  for (const auto& [what, record] : situations())
    for (const auto& [asked, command] : commands_by(kAna)) {
      SCOPED_TRACE(what + "; " + asked);
      const Decision first = ask(stored(record), command);
      if (!first.next) continue;
      const Decision second = ask(stored(*first.next), command);
      EXPECT_FALSE(second.next);
      // A beginning that held the task is over for its attempt, whatever it is told.
      const bool held_by_begin = first.verdict == Verdict::doubted && asked != "hold";
      EXPECT_EQ(second.verdict, held_by_begin ? Verdict::fenced : Verdict::already_done);
    }
}

TEST(Steps, ABeginningIsTheIntentOnRecord) {
  const Record before = attempt_with({});
  const Record next = written(ask(stored(before), begin(InDoubt::hold)));
  ASSERT_EQ(next.steps.size(), 2U);
  EXPECT_EQ(next.steps[0], done("write"));
  EXPECT_EQ(next.steps[1], (Step{.name = "push",
                                 .policy = InDoubt::hold,
                                 .attempt = 2,
                                 .runs = 1,
                                 .started_at = kWallNow}));
  expect_only_steps_changed(before, next);
  EXPECT_FALSE(cut_off(next, next.steps[1]));
}

// Its probe said that it did not happen; whoever reads the story sees why it ran twice.
TEST(Steps, ABeginningThatTheProbeAllowedSaysSo) {
  const Record before = attempt_with({begun("push", 1, InDoubt::probe)});
  const Record next = written(ask(stored(before), begin_asked()));
  expect_only_steps_changed(
      before, next,
      {{.act = OperatorAction::Act::did_not_happen, .at = kWallNow, .by = "ana", .step = "push"}});
}

TEST(Steps, ABeginningThatNoProbeWasNeededForTellsNothing) {
  for (const char* what : {"none", "cut off", "to run again"})
    for (const Command& command : {Command(begin()), Command(begin_asked())}) {
      const bool asked = std::get<StepBegin>(command).asked;
      if (asked && what == std::string("cut off")) continue;
      const Record& before = situations().at(what);
      expect_only_steps_changed(before, written(ask(stored(before), command)));
    }
}

TEST(Steps, ASecondBeginningCountsAndTakesThePolicyOfNow) {
  Step held = begun("push", 1, InDoubt::hold);
  held.state = Step::State::again;
  held.ended_at = kThen;
  for (const Step& step : {begun("push", 1), held}) {
    const Record next = written(ask(stored(attempt_with({step})), begin_asked()));
    EXPECT_EQ(next.steps.at(1), (Step{.name = "push",
                                      .policy = InDoubt::probe,
                                      .attempt = 2,
                                      .runs = 2,
                                      .started_at = kWallNow}));
  }
}

TEST(Steps, AnEndRemembersTheResult) {
  const Record before = attempt_with({begun("push", 2)});
  const Record next = written(ask(stored(before), end()));
  Step expected = begun("push", 2);
  expected.state = Step::State::done;
  expected.ended_at = kWallNow;
  expected.result = Body::bytes("4b7df1e");
  EXPECT_EQ(next.steps.at(1), expected);
  expect_only_steps_changed(before, next);
}

// It happened, so that nobody may run it again by himself, whatever its policy is.
TEST(Steps, AnEndWithAResultAboveTheLimitIsHeldAndSaysWhy) {
  Policy rules = policy();
  rules.max_result = 6;
  for (const InDoubt step_policy : {InDoubt::retry, InDoubt::hold, InDoubt::probe}) {
    const Record before = attempt_with({begun("push", 2, step_policy)});
    const Decision made = decide_on(stored(before), end(), rules, after(seconds(5)));
    EXPECT_EQ(made.verdict, Verdict::doubted);
    const Record next = written(made);
    EXPECT_EQ(next.state, State::in_doubt);
    EXPECT_EQ(next.reason,
              "step 'push' happened, but its result of 7 bytes is above the queue's max_result of "
              "6 and was not kept");
    EXPECT_EQ(next.steps.at(1).state, Step::State::begun);
    EXPECT_EQ(next.steps.at(1).result, Body());
    EXPECT_EQ(next.attempts.back().ending, Ending::unknown);
  }
}

TEST(Steps, TheResultsOfAllStepsTogetherAreBounded) {
  Policy rules = policy();
  rules.max_result = 7;
  Record before = attempt_with({begun("push", 2)});
  before.steps.at(0).result = Body::bytes(std::string(kResultsTogether * 7 - 7, 'x'));
  StepEnd whole = end();
  EXPECT_EQ(decide_on(stored(before), whole, rules, after(seconds(5))).verdict,
            Verdict::step_recorded);
  before.steps.at(0).result = Body::bytes(std::string(kResultsTogether * 7 - 6, 'x'));
  const Decision made = decide_on(stored(before), whole, rules, after(seconds(5)));
  EXPECT_EQ(made.verdict, Verdict::doubted);
  EXPECT_NE(
      written(made).reason.find("113 bytes together, above 16 times the queue's max_result of 7"),
      std::string::npos);
}

// Its probe said that it happened in the attempt before.
TEST(Steps, AnEndOfOneThatWasCutOffIsOfThisAttemptAndTheStorySaysSo) {
  const Record before = attempt_with({begun("push", 1)});
  const Record next = written(ask(stored(before), end()));
  EXPECT_EQ(next.steps.at(1).state, Step::State::done);
  EXPECT_EQ(next.steps.at(1).attempt, 2U);
  EXPECT_EQ(next.steps.at(1).runs, 1U);
  expect_only_steps_changed(
      before, next,
      {{.act = OperatorAction::Act::happened, .at = kWallNow, .by = "ana", .step = "push"}});
}

TEST(Steps, AFailureIsKeptWithItsErrorAndTheStepRunsAgain) {
  const Record before = attempt_with({begun("push", 2), done("tell")});
  const Record next = written(ask(stored(before), fail_step()));
  Step failed = begun("push", 2);
  failed.state = Step::State::again;
  failed.ended_at = kWallNow;
  failed.failed = 2;
  failed.error = "exit 3";
  EXPECT_EQ(next.steps, (std::vector<Step>{done("write"), failed, done("tell")}));
  expect_only_steps_changed(before, next);

  const Record again = written(ask(stored(next), begin()));
  EXPECT_EQ(again.steps.at(1).state, Step::State::begun);
  EXPECT_EQ(again.steps.at(1).runs, failed.runs + 1);
  EXPECT_EQ(again.steps.at(1).error, "exit 3") << "the trace of the failed try stays";
}

TEST(Steps, OneThatBeganAgainAfterItsFailureAndThatAPersonHasRunAgainIsNoTrace) {
  const Record failed = written(ask(stored(attempt_with({begun("push", 2)})), fail_step()));
  const Record began = written(ask(stored(failed), begin(InDoubt::hold)));
  const Record held = written(ask(stored(began), hold_step()));
  const Order retry{.nonce = kBen, .claims = held.claims, .by = "cleo"};
  const Record ordered = written(ask(stored(held), Retry{retry}));
  ASSERT_EQ(ordered.steps.back().state, Step::State::again);
  Record full = attempt_with({ordered.steps.back()});
  while (full.steps.size() < kMostSteps)
    full.steps.push_back(done(std::to_string(full.steps.size())));
  StepBegin other = begin();
  other.name = "other";
  EXPECT_EQ(ask(stored(full), other).verdict, Verdict::step_refused) << "it makes no room";
}

TEST(Steps, TracesOfFailuresMakeRoomForNewSteps) {
  Record full = attempt_with({});
  while (full.steps.size() < kMostSteps)
    full.steps.push_back(done(std::to_string(full.steps.size())));
  EXPECT_EQ(ask(stored(full), begin()).verdict, Verdict::step_refused);
  full.steps[7].state = Step::State::again;
  full.steps[7].failed = full.steps[7].attempt;
  EXPECT_EQ(written(ask(stored(full), begin())).steps.size(), kMostSteps);
}

TEST(Steps, HoldingEndsTheAttemptAndSaysWhy) {
  struct Row {
    const char* what;
    Record running;
    Command command;
    const char* error;
    const char* why;
  };
  const Row rows[] = {
      {"its probe does not know", attempt_with({begun("push", 1, InDoubt::probe)}), hold_step(),
       "the remote is down", "the remote is down"},
      {"nobody is to run it again", attempt_with({begun("push", 1)}), begin(InDoubt::hold), "",
       "step 'push' was cut off"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const Record next = written(ask(stored(row.running), row.command));
    EXPECT_EQ(next.state, State::in_doubt);
    EXPECT_TRUE(next.in_doubt);
    EXPECT_EQ(next.reason, row.why);
    EXPECT_EQ(next.attempts.back().ending, Ending::unknown);
    EXPECT_EQ(next.attempts.back().ended_at, kWallNow);
    EXPECT_EQ(next.attempts.back().error, row.error);
    EXPECT_EQ(next.steps, row.running.steps);
    ASSERT_EQ(next.story.size(), 1U);
    EXPECT_EQ(next.story[0], (OperatorAction{.act = OperatorAction::Act::held,
                                             .at = kWallNow,
                                             .by = "ana",
                                             .why = row.why,
                                             .step = "push"}));
  }
}

// Somebody has called the task off: it is not held for a person who would call it off again.
TEST(Steps, ACancelComesBeforeHolding) {
  const Stored asked = stored(cancel_asked(attempt_with({begun("push", 1)})));
  EXPECT_EQ(in_words(ask(asked, hold_step())), "cancelled -> cancelled");
  EXPECT_EQ(in_words(ask(asked, begin(InDoubt::hold))), "cancelled -> cancelled");
}

constexpr const char* kAskedToStop = R"(
 the step is   | begin, retry    | begin, hold            | begin, probe    | begin, asked    | end                      | fail                     | hold
 none          | asked_to_stop   | asked_to_stop          | asked_to_stop   | asked_to_stop   | step_refused             | already_done             | step_refused
 begun now     | already_done    | already_done           | already_done    | already_done    | step_recorded -> running | step_recorded -> running | cancelled -> cancelled
 cut off       | asked_to_stop   | cancelled -> cancelled | step_in_doubt   | asked_to_stop   | step_recorded -> running | step_recorded -> running | cancelled -> cancelled
 to run again  | asked_to_stop   | asked_to_stop          | asked_to_stop   | asked_to_stop   | step_refused             | already_done             | step_refused
 done          | step_remembered | step_remembered        | step_remembered | step_remembered | already_done             | step_refused             | step_refused
 done now      | step_remembered | step_remembered        | step_remembered | step_remembered | already_done             | step_refused             | step_refused
)";

// What has begun is recorded as it ends, and what is done is remembered; nothing new begins.
TEST(Steps, NoneBeginsOnceACancelWasAskedFor) { expect_table(kAskedToStop, cancel_asked); }

// A step is no renewal: the lease ends when it would have ended.
TEST(Steps, DoNotProlongTheLease) {
  const Stored holds = stored(attempt_with({begun("push", 2)}));
  for (const Duration spent : {seconds(0), seconds(12), kLease - ms(1)})
    EXPECT_EQ(written(ask(holds, end(), after(spent))).lease, kLease - spent);
  // Nobody has reclaimed it: the step counts, and everybody may take the task.
  EXPECT_EQ(written(ask(holds, end(), after(kLease * 2))).lease, ms(0));
}

TEST(Steps, AreAtMostAThousand) {
  std::vector<Step> many;
  for (std::size_t i = 0; i < kMostSteps - 2; ++i) many.push_back(done(std::to_string(i)));
  Record record = attempt_with(many);
  ASSERT_EQ(record.steps.size(), kMostSteps - 1);
  const Record full = written(ask(stored(record), begin()));
  EXPECT_EQ(full.steps.size(), kMostSteps);
  StepBegin another = begin();
  another.name = "one more";
  EXPECT_EQ(in_words(ask(stored(full), another)), "step_refused");
  StepBegin known = begin();
  known.name = "7";
  EXPECT_EQ(in_words(ask(stored(full), known)), "step_remembered");
  EXPECT_EQ(in_words(ask(stored(full), end())), "step_recorded -> running");
}

TEST(Steps, OutliveTheAttempt) {
  const std::vector<Step> steps{done("write"), begun("push", 2)};
  const Record before = with(running(2), steps);
  for (const Command& command : {Command(fail()), Command(doubt()), Command(release()),
                                 Command(interrupt()), Command(complete()), Command(renew())})
    EXPECT_EQ(written(decide_on(stored(before), command, policy(), after(seconds(5)))).steps,
              steps);
  const Record reclaimed = written(ask(holder_gone(before), claim()));
  EXPECT_EQ(reclaimed.steps, steps);
  EXPECT_TRUE(cut_off(reclaimed, reclaimed.steps[1]));
}

constexpr const char* kComplete = R"(
 the step             | complete               | complete, asked to stop | the probe: it happened
 none                 | completed -> completed | completed -> completed  | completed -> completed
 begun now, retry     | completed -> completed | completed -> completed  | completed -> completed
 begun now, probe     | completed -> completed | completed -> completed  | completed -> completed
 begun now, hold      | doubted -> in_doubt    | cancelled -> cancelled  | completed -> completed
 cut off, retry       | completed -> completed | completed -> completed  | completed -> completed
 cut off, probe       | completed -> completed | completed -> completed  | completed -> completed
 cut off, hold        | doubted -> in_doubt    | cancelled -> cancelled  | completed -> completed
 to run again, hold   | completed -> completed | completed -> completed  | completed -> completed
 done, hold           | completed -> completed | completed -> completed  | completed -> completed
)";

std::vector<Step> left_behind(const std::string& what) {
  if (what == "none") return {};
  static const std::map<std::string, InDoubt> policies{
      {"retry", InDoubt::retry}, {"probe", InDoubt::probe}, {"hold", InDoubt::hold}};
  static const std::map<std::string, Step> steps{{"begun now", begun("push", 2)},
                                                 {"cut off", begun("push", 1)},
                                                 {"to run again", again("push")},
                                                 {"done", done("push")}};
  const auto comma = what.find(", ");
  Step step = steps.at(what.substr(0, comma));
  step.policy = policies.at(what.substr(comma + 2));
  return {step};
}

// A handler that is done has not said how the step ended that nobody is to run again.
TEST(Steps, ACompletionDoesNotCoverAStepThatIsToBeHeld) {
  const auto rows = rows_of(kComplete);
  for (std::size_t r = 1; r < rows.size(); ++r) {
    SCOPED_TRACE(rows[r][0]);
    const Record before = attempt_with(left_behind(rows[r][0]));
    EXPECT_EQ(in_words(ask(stored(before), complete())), rows[r][1]);
    EXPECT_EQ(in_words(ask(stored(cancel_asked(before)), complete())), rows[r][2]);
    Record probing = before;
    probing.probe = probing.attempts.back().probing = true;
    EXPECT_EQ(in_words(ask(stored(probing), it_happened())), rows[r][3]);
  }
}

TEST(Steps, ACompletionThatIsHeldNamesTheStepAndKeepsNoResult) {
  for (const std::uint32_t attempt : {1U, 2U}) {
    const Record before = attempt_with({begun("tell", 2), begun("push", attempt, InDoubt::hold)});
    Complete said = complete();
    said.result = Body::bytes("all done");
    const Record next = written(ask(stored(before), said));
    EXPECT_EQ(next.state, State::in_doubt);
    EXPECT_TRUE(next.in_doubt);
    EXPECT_NE(next.reason.find("step 'push'"), std::string::npos) << next.reason;
    EXPECT_FALSE(next.result);
    EXPECT_EQ(next.steps, before.steps);
    EXPECT_NE(next.attempts.back().ending, Ending::running);
    EXPECT_EQ(next.attempts.back().ended_at, kWallNow);
    EXPECT_EQ(next.actions, 1U);
    ASSERT_EQ(next.story.size(), 1U);
    EXPECT_EQ(next.story[0], (OperatorAction{.act = OperatorAction::Act::held,
                                             .at = kWallNow,
                                             .by = "ana",
                                             .why = next.reason,
                                             .step = "push"}));
    // Its answer was lost: the repeat finds itself, and a person decides.
    EXPECT_EQ(in_words(ask(stored(next), said)), "already_done");
    EXPECT_EQ(in_words(ask(stored(next), claim_with(complete_step_order("push", 2)))),
              "claimed -> running");
  }
}

TEST(Steps, CutOffIsOneThatBeganInAnAttemptThatIsOver) {
  struct Row {
    const char* what;
    Record record;
    bool cut_off;
  };
  const Row rows[] = {
      {"begun now", with(running(2), {begun("push", 2)}), false},
      {"begun by the attempt before", with(running(2), {begun("push", 1)}), true},
      {"the attempt is over", with(retrying(), {begun("push", 1)}), true},
      {"held", with(in_doubt(), {begun("push", 1)}), true},
      {"done", with(in_doubt(), {done("push")}), false},
      {"a person has decided", with(in_doubt(), {again("push")}), false},
  };
  for (const Row& row : rows)
    EXPECT_EQ(cut_off(row.record, row.record.steps[0]), row.cut_off) << row.what;
}

TEST(Steps, AreFoundByName) {
  const Record record = attempt_with({begun("push", 2)});
  EXPECT_EQ(find_step(record, "push"), &record.steps[1]);
  EXPECT_EQ(find_step(record, "pus"), nullptr);
}

TEST(StepPolicy, IsItsOwnOrWhatTheQueueSays) {
  struct Row {
    InDoubt queue;
    std::optional<InDoubt> own;
    InDoubt expected;
  };
  const Row rows[] = {
      {InDoubt::retry, {}, InDoubt::retry},
      {InDoubt::steps, {}, InDoubt::hold},
      {InDoubt::hold, {}, InDoubt::hold},
      {InDoubt::probe, {}, InDoubt::retry},  // the probe has spoken for the whole task
      {InDoubt::retry, InDoubt::hold, InDoubt::hold},
      {InDoubt::retry, InDoubt::steps, InDoubt::hold},
      {InDoubt::retry, InDoubt::probe, InDoubt::probe},
      {InDoubt::hold, InDoubt::retry, InDoubt::retry},
      {InDoubt::steps, InDoubt::retry, InDoubt::retry},
      {InDoubt::probe, InDoubt::hold, InDoubt::hold},
      {InDoubt::probe, InDoubt::probe, InDoubt::probe},
  };
  for (const Row& row : rows)
    EXPECT_EQ(step_policy(policy(row.queue), row.own), row.expected)
        << to_string(row.queue) << " " << (row.own ? to_string(*row.own) : "as the queue");
}

}  // namespace
}  // namespace once::core
