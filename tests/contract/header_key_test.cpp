// Queues that remember by a header of the task's.
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

}  // namespace
}  // namespace once::contract
