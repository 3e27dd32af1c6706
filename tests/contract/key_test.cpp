// Queues that remember by a header of the task's, and how keys read.
#include "contract/effects.h"

namespace once::contract {
namespace {

using ::testing::HasSubstr;

class HeaderKeyContract : public Effects {
 protected:
  void publish_with(std::string id, std::map<std::string, std::string> headers) {
    zone.publish({.topic = "t", .id = std::move(id), .headers = std::move(headers)}).value();
  }
};
ONCE_FOR_EVERY_STORE(HeaderKeyContract);

TEST_P(HeaderKeyContract, TheHeaderIsWhatATaskIsRememberedBy) {
  add({.key = "header:Order"});
  publish_with("a", {{"Order", "7"}});
  publish_with("b", {{"Order", "7"}});
  publish_with("c", {{"Order", "8"}});
  std::vector<std::string> keys;
  const auto remember = [&](Context& context) {
    keys.emplace_back(context.key());
    return Outcome::completed();
  };
  while (count(State::waiting) > 0) run(remember);
  EXPECT_THAT(keys, ::testing::ElementsAre("7", "8"));
  EXPECT_EQ(state("b"), State::duplicate);
}

TEST_P(HeaderKeyContract, ATaskWithoutTheHeaderIsADeadLetterAndTheQueueGoesOn) {
  add({.key = "header:Order"});
  publish_with("without", {});
  publish_with("other-case", {{"order", "7"}});
  publish_with("a", {{"Order", "7"}});
  while (count(State::waiting) > 0) run_ok();
  EXPECT_EQ(state("a"), State::completed);
  for (const char* id : {"without", "other-case"}) {
    EXPECT_EQ(state(id), State::dead) << id;
    EXPECT_THAT(view(id).reason, HasSubstr("no header Order"));
  }
}

// --- Plain keys -------------------------------------------------------------------------------

class PlainKeyContract : public Effects {
 protected:
  void work_all() {
    while (count(State::waiting) > 0)
      run([this](Context& context) {
        keys.emplace_back(context.key());
        return Outcome::completed();
      });
  }
  std::vector<std::string> keys{};
};
ONCE_FOR_EVERY_STORE(PlainKeyContract);

TEST_P(PlainKeyContract, ANumberAndItsTextAreOneKey) {
  add({.key = "order-{id}"});
  publish("a", R"({"id":17})");
  publish("b", R"({"id":17})");
  publish("c", R"({"id":"17"})");
  publish("d", R"({"id":""})");
  publish("e", R"({"id":null})");
  work_all();
  EXPECT_THAT(keys, ::testing::ElementsAre("order-17"));
  EXPECT_EQ(state("b"), State::duplicate);
  EXPECT_EQ(state("c"), State::dead) << "other content under a key is a conflict";
  EXPECT_THAT(view("c").reason, HasSubstr("conflicting_duplicate: the key 'order-17'"));
  EXPECT_THAT(view("d").reason, HasSubstr("there is an empty string at id in the body"));
  EXPECT_THAT(view("e").reason, HasSubstr("there is null"));
}

TEST_P(PlainKeyContract, OtherValuesThatGiveTheSameKeyAreAConflictThatIsTold) {
  add({.key = "{a}-{b}"});
  publish("1", R"({"a":"x-y","b":"z"})");
  publish("2", R"({"a":"x","b":"y-z"})");
  work_all();
  EXPECT_EQ(state("1"), State::completed);
  EXPECT_EQ(state("2"), State::dead);
  EXPECT_THAT(view("2").reason, HasSubstr("conflicting_duplicate"));
}

TEST_P(PlainKeyContract, AQueueOfVersion01KeepsItsKeys) {
  add({.key = "order-{id}", .key_format = KeyFormat::escaped});
  publish("a", R"({"id":17})");
  work_all();
  EXPECT_THAT(keys, ::testing::ElementsAre("order-=17"));
  add({.key = "order-{id}"});  // whoever adds it again finds the same queue
  EXPECT_EQ(zone.queues().list().value().at(0).key_format, KeyFormat::escaped);
  publish("b", R"({"id":17})");
  work_all();
  EXPECT_EQ(state("b"), State::duplicate);
}

TEST_P(PlainKeyContract, ItsFormatAndItsRuleAreFixed) {
  add({.key = "{a}-{b}"});
  const auto change = [&](auto edit) { return zone.queues().change("q", edit).error().code; };
  EXPECT_EQ(change([](Queue& queue) { queue.key_format = KeyFormat::escaped; }),
            Code::queue_mismatch);
  EXPECT_EQ(change([](Queue& queue) { queue.same_key = SameKey::ignore; }), Code::queue_mismatch);
  EXPECT_TRUE(zone.queues().change("q", [](Queue& queue) { queue.attempts = 7; }));
}

}  // namespace
}  // namespace once::contract
