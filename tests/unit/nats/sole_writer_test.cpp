// Our own writes tell how the records stand, as long as they are the only ones.
#include "store/nats/ledger/sole_writer.h"

#include <gtest/gtest.h>

namespace once::store::nats {
namespace {

class OwnWritesTest : public ::testing::Test {
 protected:
  void claim(std::uint64_t sequence, const std::string& task, const std::string& queue = "q") {
    writes.wrote({.queue = queue, .subject = task, .sequence = sequence, .is_new = true});
  }
  void complete(std::uint64_t sequence, const std::string& task, const std::string& queue = "q") {
    writes.wrote({.queue = queue, .subject = task, .sequence = sequence, .settled = true});
  }
  bool settled(std::uint64_t last, std::uint64_t messages, const std::string& queue = "q") {
    return writes.all_settled(queue, {.last = last, .messages = messages});
  }

  SoleWriter writes;
};

TEST_F(OwnWritesTest, AllOfANewLedgerAreKnown) {
  EXPECT_TRUE(settled(0, 0));
  claim(1, "a");
  EXPECT_FALSE(settled(1, 1)) << "one runs";
  claim(3, "b");
  complete(4, "a");
  complete(2, "lone");
  complete(5, "b");
  EXPECT_TRUE(settled(5, 2)) << "whatever the order in which they are told";
}

TEST_F(OwnWritesTest, WhatAnotherWroteIsNotKnown) {
  claim(1, "a");
  complete(3, "a");
  EXPECT_FALSE(settled(3, 2)) << "number 2 is not ours";
  EXPECT_FALSE(settled(4, 2));
}

TEST_F(OwnWritesTest, ARecordThatIsGoneIsMissed) {
  claim(1, "a");
  complete(2, "a");
  EXPECT_TRUE(settled(2, 1));
  EXPECT_FALSE(settled(2, 0));
}

TEST_F(OwnWritesTest, WhatWasSeenNeedNotBeOurs) {
  EXPECT_FALSE(settled(10, 7));
  writes.saw_all_settled("q", {.last = 10, .messages = 7});
  EXPECT_TRUE(settled(10, 7));
  EXPECT_FALSE(settled(10, 7, "other")) << "it was not looked at";
  claim(11, "a");
  EXPECT_FALSE(settled(11, 8));
  complete(12, "a");
  EXPECT_TRUE(settled(12, 8));
  EXPECT_FALSE(settled(13, 8));
}

TEST_F(OwnWritesTest, WhatAnotherSettledForUsIsForgottenWhenItIsSeen) {
  claim(1, "a");
  EXPECT_FALSE(settled(2, 1)) << "another has completed it";
  writes.saw_all_settled("q", {.last = 2, .messages = 1});
  EXPECT_TRUE(settled(2, 1));
}

TEST_F(OwnWritesTest, WhatIsWrittenWhileOthersLookIsNotTakenForSeen) {
  claim(1, "a");
  writes.saw_all_settled("q", {.last = 0, .messages = 0});
  EXPECT_FALSE(settled(1, 1));
  complete(2, "a");
  EXPECT_TRUE(settled(2, 1));
}

TEST_F(OwnWritesTest, ALateWordSettlesNothingNewer) {
  claim(1, "a");
  claim(3, "a");
  complete(2, "a");
  EXPECT_FALSE(settled(3, 2)) << "it runs again since";
}

TEST_F(OwnWritesTest, AStreamThatLostItsEndIsNotKnown) {
  claim(1, "a");
  complete(2, "a");
  complete(2, "a");
  EXPECT_FALSE(settled(2, 1));
  writes.saw_all_settled("q", {.last = 2, .messages = 1});
  EXPECT_TRUE(settled(2, 1));
}

TEST_F(OwnWritesTest, WhatWasRemovedMayBeAnotherQueues) {
  claim(1, "a");
  complete(2, "a");
  claim(3, "b", "other");
  complete(4, "b", "other");
  EXPECT_TRUE(settled(4, 2));
  EXPECT_TRUE(settled(4, 2, "other"));
  writes.saw_all_settled("other", {.last = 4, .messages = 1});
  EXPECT_TRUE(settled(4, 1, "other"));
  EXPECT_FALSE(settled(4, 1)) << "its record may be the one";
}

TEST_F(OwnWritesTest, WhatOthersSettledCostsNoMemoryAndIsNotKnown) {
  for (std::uint64_t sequence = 1; sequence < 10'000; ++sequence)
    claim(sequence, std::to_string(sequence));
  for (std::uint64_t sequence = 5'000; sequence < 10'000; ++sequence)
    complete(sequence + 5'000, std::to_string(sequence));
  EXPECT_FALSE(settled(14'999, 9'999));
}

TEST_F(OwnWritesTest, AGapThatStaysIsAnothersAndCostsNoMemory) {
  for (std::uint64_t sequence = 2; sequence < 20'000; sequence += 2) complete(sequence, "a");
  EXPECT_FALSE(settled(19'998, 1));
  writes.saw_all_settled("q", {.last = 19'998, .messages = 1});
  EXPECT_TRUE(settled(19'998, 1));
}

}  // namespace
}  // namespace once::store::nats
