// The table at the top of src/core/decide.cpp, cell by cell. A cell names the verdict and, when
// something is written, the state that is written; a cell without an arrow writes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "unit/core/examples.h"

namespace once::core {
namespace {

using namespace examples;

constexpr const char* kTable = R"(
 the ledger holds          | claim by ben         | claim again         | renew             | complete               | fail                  | fail for good | doubt                 | release              | interrupt
 nothing                   | claimed -> running   | claimed -> running  | fenced            | fenced                 | fenced                | fenced        | fenced                | fenced               | fenced
 waiting                   | claimed -> running   | claimed -> running  | fenced            | fenced                 | fenced                | fenced        | fenced                | already_done         | already_done
 running                   | held                 | already_done        | renewed -> running| completed -> completed | retrying -> retrying  | dead -> dead  | retrying -> retrying  | released -> waiting  | released -> retrying
 running, lease over       | claimed -> running   | already_done        | renewed -> running| completed -> completed | retrying -> retrying  | dead -> dead  | retrying -> retrying  | released -> waiting  | released -> retrying
 running, holder gone      | claimed -> running   | already_done        | renewed -> running| completed -> completed | retrying -> retrying  | dead -> dead  | retrying -> retrying  | released -> waiting  | released -> retrying
 running, last             | held                 | already_done        | renewed -> running| completed -> completed | dead -> dead          | dead -> dead  | dead -> dead          | released -> waiting  | released -> retrying
 running, last, lease over | exhausted -> dead    | already_done        | renewed -> running| completed -> completed | dead -> dead          | dead -> dead  | dead -> dead          | released -> waiting  | released -> retrying
 running, last, holder gone| exhausted -> dead    | already_done        | renewed -> running| completed -> completed | dead -> dead          | dead -> dead  | dead -> dead          | released -> waiting  | released -> retrying
 retrying, not due         | not_due              | not_due             | fenced            | fenced                 | already_done          | already_done  | already_done          | already_done         | already_done
 retrying, due             | claimed -> running   | claimed -> running  | fenced            | fenced                 | already_done          | already_done  | already_done          | already_done         | already_done
 completed                 | already_completed    | already_completed   | fenced            | already_done           | fenced                | fenced        | fenced                | fenced               | fenced
 dead                      | already_dead         | already_dead        | fenced            | fenced                 | already_done          | already_done  | already_done          | fenced               | fenced
 in_doubt                  | awaits_decision      | awaits_decision     | fenced            | fenced                 | fenced                | fenced        | already_done          | fenced               | fenced
 cancelled                 | already_cancelled    | already_cancelled   | fenced            | fenced                 | fenced                | fenced        | fenced                | fenced               | fenced
 duplicate                 | already_set_aside    | already_set_aside   | fenced            | fenced                 | fenced                | fenced        | fenced                | fenced               | fenced
)";

struct Situation {
  std::optional<Stored> stored;
  Now now;
};

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
      {"completed", {stored(completed()), in_lease}},
      {"dead", {stored(dead()), in_lease}},
      {"in_doubt", {stored(in_doubt()), in_lease}},
      {"cancelled", {stored(cancelled()), in_lease}},
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

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::vector<std::string>> rows_of(const std::string& table) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (trimmed(line).empty()) continue;
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '|');) rows.back().push_back(trimmed(cell));
  }
  return rows;
}

std::string answer(const Situation& situation, const Command& command) {
  const Decision made =
      decide(situation.stored ? &*situation.stored : nullptr, command, policy(), situation.now);
  std::string text{to_string(made.verdict)};
  if (made.next) text += " -> " + std::string(to_string(made.next->state));
  return text;
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

// A worker that was given up as lost on its last attempt was not heard: it must not believe that
// its word was recorded.
TEST(DecideTable, AWorkerThatWasGivenUpAsLostIsFenced) {
  const Situation given_up{stored(ended(Ending::lost, State::dead, 3)), after(seconds(5))};
  for (const auto& [asked, command] : commands_by(kAna)) {
    if (asked.starts_with("claim")) continue;
    EXPECT_EQ(answer(given_up, command), "fenced") << asked;
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
