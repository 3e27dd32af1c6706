// The tables of attempts and of people's commands at the top of src/core/decide.cpp, cell by cell.
#include <gtest/gtest.h>

#include <map>

#include "unit/core/examples.h"
#include "unit/core/table.h"

namespace once::core {
namespace {

using namespace examples;

constexpr const char* kTable = R"(
 the ledger holds          | claim by ben         | claim again         | renew             | complete               | fail                  | fail for good | doubt                 | release              | interrupt
 nothing                   | claimed -> running   | claimed -> running  | fenced            | fenced                 | fenced                | fenced        | fenced                | fenced               | fenced
 waiting                   | claimed -> running   | claimed -> running  | fenced            | fenced                 | fenced                | fenced        | fenced                | already_done         | fenced
 waiting, retried          | claimed -> running   | claimed -> running  | fenced            | fenced                 | already_done          | fenced        | fenced                | fenced               | fenced
 running                   | held                 | already_done        | renewed -> running| completed -> completed | retrying -> retrying  | dead -> dead  | retrying -> retrying  | released -> waiting  | released -> retrying
 running, lease over       | claimed -> running   | already_done        | renewed -> running| completed -> completed | retrying -> retrying  | dead -> dead  | retrying -> retrying  | released -> waiting  | released -> retrying
 running, holder gone      | claimed -> running   | already_done        | renewed -> running| completed -> completed | retrying -> retrying  | dead -> dead  | retrying -> retrying  | released -> waiting  | released -> retrying
 running, last             | held                 | already_done        | renewed -> running| completed -> completed | dead -> dead          | dead -> dead  | dead -> dead          | released -> waiting  | released -> retrying
 running, last, lease over | exhausted -> dead    | already_done        | renewed -> running| completed -> completed | dead -> dead          | dead -> dead  | dead -> dead          | released -> waiting  | released -> retrying
 running, last, holder gone| exhausted -> dead    | already_done        | renewed -> running| completed -> completed | dead -> dead          | dead -> dead  | dead -> dead          | released -> waiting  | released -> retrying
 retrying, not due         | not_due              | not_due             | fenced            | fenced                 | already_done          | fenced        | fenced                | fenced               | fenced
 retrying, due             | claimed -> running   | claimed -> running  | fenced            | fenced                 | already_done          | fenced        | fenced                | fenced               | fenced
 retrying, none left       | exhausted -> dead    | exhausted -> dead   | fenced            | fenced                 | already_done          | fenced        | fenced                | fenced               | fenced
 retrying, interrupted     | claimed -> running   | claimed -> running  | fenced            | fenced                 | fenced                | fenced        | fenced                | fenced               | already_done
 completed                 | already_completed    | already_completed   | fenced            | already_done           | fenced                | fenced        | fenced                | fenced               | fenced
 completed by a person     | already_completed    | already_completed   | fenced            | fenced                 | fenced                | fenced        | already_done          | fenced               | fenced
 dead                      | already_dead         | already_dead        | fenced            | fenced                 | fenced                | already_done  | fenced                | fenced               | fenced
 dead, lost                | already_dead         | already_dead        | fenced            | fenced                 | fenced                | fenced        | fenced                | fenced               | fenced
 in_doubt                  | awaits_decision      | awaits_decision     | fenced            | fenced                 | fenced                | fenced        | already_done          | fenced               | fenced
 in_doubt, lost            | awaits_decision      | awaits_decision     | fenced            | fenced                 | fenced                | fenced        | fenced                | fenced               | fenced
 in_doubt, failed          | awaits_decision      | awaits_decision     | fenced            | fenced                 | already_done          | fenced        | fenced                | fenced               | fenced
 cancelled                 | already_cancelled    | already_cancelled   | fenced            | fenced                 | fenced                | fenced        | fenced                | already_done         | fenced
 cancelled, failed         | already_cancelled    | already_cancelled   | fenced            | fenced                 | already_done          | fenced        | fenced                | fenced               | fenced
 duplicate                 | already_set_aside    | already_set_aside   | fenced            | fenced                 | fenced                | fenced        | fenced                | fenced               | fenced
)";

struct Situation {
  std::optional<Stored> stored;
  Now now;
};

// A person gave it all its attempts back.
Record fresh(Record record) {
  record.counted = 0;
  return record;
}

const std::map<std::string, Situation>& situations() {
  static const Now in_lease = after(seconds(5));
  static const Now lease_over = after(kLease);
  static const std::map<std::string, Situation> all{
      {"nothing", {std::nullopt, in_lease}},
      {"waiting", {stored(waiting()), in_lease}},
      {"running", {stored(running()), in_lease}},
      {"running, lease over", {stored(running()), lease_over}},
      {"running, holder gone", {holder_gone(running()), in_lease}},
      {"running, last", {stored(running(3)), in_lease}},
      {"running, last, lease over", {stored(running(3)), lease_over}},
      {"running, last, holder gone", {holder_gone(running(3)), in_lease}},
      {"retrying, not due", {stored(retrying()), in_lease}},
      {"retrying, due", {stored(retrying()), after(seconds(10))}},
      {"waiting, retried", {stored(fresh(ended(Ending::failed, State::waiting, 3))), in_lease}},
      {"retrying, none left", {stored(ended(Ending::failed, State::retrying, 3)), in_lease}},
      {"retrying, interrupted", {stored(ended(Ending::interrupted, State::retrying)), in_lease}},
      {"completed", {stored(completed()), in_lease}},
      {"completed by a person", {stored(ended(Ending::unknown, State::completed)), in_lease}},
      {"dead", {stored(dead()), in_lease}},
      {"dead, lost", {stored(ended(Ending::lost, State::dead, 3)), in_lease}},
      {"in_doubt", {stored(in_doubt()), in_lease}},
      {"in_doubt, lost", {stored(ended(Ending::lost, State::in_doubt)), in_lease}},
      {"in_doubt, failed", {stored(ended(Ending::failed, State::in_doubt)), in_lease}},
      {"cancelled", {stored(cancelled()), in_lease}},
      {"cancelled, failed", {stored(ended(Ending::failed, State::cancelled)), in_lease}},
      {"duplicate", {stored(duplicate()), in_lease}},
  };
  return all;
}

const std::map<std::string, Command>& commands_by(const Nonce& who) {
  static std::map<Nonce, std::map<std::string, Command>> all;
  auto& made = all[who];
  if (made.empty())
    made = {{"claim by ben", claim()},    {"claim again", claim(who)},
            {"renew", renew(who)},        {"complete", complete(who)},
            {"fail", fail(who)},          {"fail for good", fail_for_good(who)},
            {"doubt", doubt(who)},        {"release", release(who)},
            {"interrupt", interrupt(who)}};
  return made;
}

std::string answer(const Situation& situation, const Command& command) {
  return in_words(
      decide(situation.stored ? &*situation.stored : nullptr, command, policy(), situation.now));
}

TEST(DecideTable, EveryCellAnswersAsWritten) {
  const auto rows = rows_of(kTable);
  const auto& header = rows.front();
  for (std::size_t r = 1; r < rows.size(); ++r)
    for (std::size_t c = 1; c < header.size(); ++c)
      EXPECT_EQ(answer(situations().at(rows[r][0]), commands_by(kAna).at(header[c])), rows[r].at(c))
          << "the ledger holds: " << rows[r][0] << "; asked: " << header[c];
}

TEST(DecideTable, HasARowForEverySituationAndAColumnForEveryCommand) {
  const auto rows = rows_of(kTable);
  EXPECT_EQ(rows.size() - 1, situations().size());
  EXPECT_EQ(rows.front().size() - 1, commands_by(kAna).size());
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows.front().size()) << row[0];
}

// P3: whoever has not made the last claim is fenced, whatever the ledger holds.
TEST(DecideTable, AHoldersCommandThatIsNotMineIsFenced) {
  for (const auto& [holds, situation] : situations())
    for (const auto& [asked, command] : commands_by(kBen)) {
      if (asked.starts_with("claim")) continue;
      EXPECT_EQ(answer(situation, command), "fenced") << holds << "; " << asked;
    }
}

// --- People ---------------------------------------------------------------------------------

constexpr const char* kPeople = R"(
 the ledger holds           | resolve                | drop                   | cancel                   | cancel, ordered          | retry               | retry, stale
 nothing                    | wrong_state            | wrong_state            | cancelled -> cancelled   | cancelled -> cancelled   | wrong_state         | wrong_state
 waiting                    | wrong_state            | wrong_state            | cancelled -> cancelled   | cancelled -> cancelled   | wrong_state         | wrong_state
 waiting, retried           | wrong_state            | wrong_state            | cancelled -> cancelled   | cancelled -> cancelled   | wrong_state         | wrong_state
 running                    | wrong_state            | wrong_state            | asked_to_stop -> running | asked_to_stop -> running | wrong_state         | wrong_state
 running, lease over        | wrong_state            | wrong_state            | cancelled -> cancelled   | cancelled -> cancelled   | wrong_state         | wrong_state
 running, holder gone       | wrong_state            | wrong_state            | cancelled -> cancelled   | cancelled -> cancelled   | wrong_state         | wrong_state
 running, last              | wrong_state            | wrong_state            | asked_to_stop -> running | asked_to_stop -> running | wrong_state         | wrong_state
 running, last, lease over  | wrong_state            | wrong_state            | cancelled -> cancelled   | cancelled -> cancelled   | wrong_state         | wrong_state
 running, last, holder gone | wrong_state            | wrong_state            | cancelled -> cancelled   | cancelled -> cancelled   | wrong_state         | wrong_state
 retrying, not due          | wrong_state            | wrong_state            | cancelled -> cancelled   | cancelled -> cancelled   | wrong_state         | wrong_state
 retrying, due              | wrong_state            | wrong_state            | cancelled -> cancelled   | cancelled -> cancelled   | wrong_state         | wrong_state
 retrying, none left        | wrong_state            | wrong_state            | cancelled -> cancelled   | cancelled -> cancelled   | wrong_state         | wrong_state
 retrying, interrupted      | wrong_state            | wrong_state            | cancelled -> cancelled   | cancelled -> cancelled   | wrong_state         | wrong_state
 in_doubt                   | completed -> completed | cancelled -> cancelled | cancelled -> cancelled   | cancelled -> cancelled   | released -> waiting | wrong_state
 in_doubt, lost             | completed -> completed | cancelled -> cancelled | cancelled -> cancelled   | cancelled -> cancelled   | released -> waiting | wrong_state
 in_doubt, failed           | completed -> completed | cancelled -> cancelled | cancelled -> cancelled   | cancelled -> cancelled   | released -> waiting | wrong_state
 dead                       | wrong_state            | cancelled -> cancelled | wrong_state              | cancelled -> cancelled   | released -> waiting | wrong_state
 dead, lost                 | wrong_state            | cancelled -> cancelled | wrong_state              | cancelled -> cancelled   | released -> waiting | wrong_state
 completed                  | wrong_state            | wrong_state            | wrong_state              | wrong_state              | wrong_state         | wrong_state
 completed by a person      | wrong_state            | wrong_state            | wrong_state              | wrong_state              | wrong_state         | wrong_state
 cancelled                  | wrong_state            | wrong_state            | wrong_state              | wrong_state              | wrong_state         | wrong_state
 cancelled, failed          | wrong_state            | wrong_state            | wrong_state              | wrong_state              | wrong_state         | wrong_state
 duplicate                  | wrong_state            | wrong_state            | wrong_state              | wrong_state              | wrong_state         | wrong_state
)";

// A stale order is about a death or doubt that is over.
std::map<std::string, Command> commands_of_people(const Situation& situation) {
  const std::uint32_t claims = situation.stored ? situation.stored->record.claims : 0;
  return {{"resolve", resolve()},
          {"drop", drop()},
          {"cancel", cancel()},
          {"cancel, ordered", cancel_ordered()},
          {"retry", Retry{retry_order(claims)}},
          {"retry, stale", Retry{retry_order(claims - 1)}}};
}

TEST(DecideTable, EveryCellOfThePeoplesTableAnswersAsWritten) {
  const auto rows = rows_of(kPeople);
  const auto& header = rows.front();
  EXPECT_EQ(rows.size() - 1, situations().size());
  for (std::size_t r = 1; r < rows.size(); ++r)
    for (std::size_t c = 1; c < header.size(); ++c)
      EXPECT_EQ(answer(situations().at(rows[r][0]),
                       commands_of_people(situations().at(rows[r][0])).at(header[c])),
                rows[r].at(c))
          << "the ledger holds: " << rows[r][0] << "; asked: " << header[c];
}

// The answer was lost, and the same is asked again: it finds itself in the story.
TEST(DecideTable, WhatAPersonRepeatsIsDoneAlready) {
  for (const auto& [holds, situation] : situations())
    for (const auto& [asked, command] : commands_of_people(situation)) {
      SCOPED_TRACE(holds + "; " + asked);
      const Decision made =
          decide(situation.stored ? &*situation.stored : nullptr, command, policy(), situation.now);
      if (!made.next) continue;
      const Situation then{stored(*made.next), situation.now};
      EXPECT_EQ(answer(then, command), "already_done");

      // And still when the task has gone on.
      const Decision taken = decide(&*then.stored, claim(), policy(), situation.now);
      if (!taken.next) continue;
      EXPECT_EQ(answer({stored(*taken.next), situation.now}, command), "already_done");
    }
}

TEST(DecideTable, ACancelForAnotherTaskWithTheKeyNeverTouchesTheRecord) {
  Cancel other = cancel();
  other.sequence = Sequence{8};
  for (const auto& [holds, situation] : situations()) {
    if (!situation.stored) continue;
    EXPECT_EQ(answer(situation, other), "wrong_state") << holds;
  }
}

// A record belongs to the first sequence with its key; that is looked at before its state.
TEST(DecideTable, AClaimForAnotherTaskWithTheKeyNeverTouchesTheRecord) {
  struct Row {
    const char* what;
    Digest content;
    SameKey same_key;
    Verdict verdict;
  };
  const Row rows[] = {
      {"same content", kDigest, SameKey::duplicate, Verdict::duplicate_key},
      {"other content", kOtherDigest, SameKey::duplicate, Verdict::conflicting_key},
      {"same content, ignore", kDigest, SameKey::ignore, Verdict::duplicate_key},
      {"other content, ignore", kOtherDigest, SameKey::ignore, Verdict::duplicate_key},
  };
  for (const Row& row : rows)
    for (const auto& [holds, situation] : situations()) {
      if (!situation.stored) continue;
      for (const Sequence sequence :
           {Sequence{kSequence.value - 1}, Sequence{kSequence.value + 1}}) {
        Claim other = claim();
        other.sequence = sequence;
        other.digest = row.content;
        Policy rules = policy();
        rules.same_key = row.same_key;
        const Decision made = decide(&*situation.stored, other, rules, situation.now);
        EXPECT_EQ(made.verdict, row.verdict) << row.what << "; " << holds;
        EXPECT_EQ(made.of, kSequence) << row.what << "; " << holds;
        EXPECT_FALSE(made.next) << row.what << "; " << holds;
      }
    }
}

TEST(DecideTable, SetAsideWritesOnlyWhereThereIsNothing) {
  const SetAside mine{.sequence = kSequence, .digest = kDigest};
  const SetAside other{.sequence = Sequence{8}, .digest = kDigest};
  const Situation nothing = situations().at("nothing");
  const Situation own = situations().at("duplicate");
  EXPECT_EQ(answer(nothing, mine), "set_aside -> duplicate");
  EXPECT_EQ(answer(own, mine), "already_done");
  for (const auto& [holds, situation] : situations()) {
    if (!situation.stored) continue;
    EXPECT_EQ(answer(situation, other), "fenced") << holds;
  }
}

}  // namespace
}  // namespace once::core
