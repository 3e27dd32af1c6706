// A sync that fails without the power failing: what was written can be read again and may still be
// lost, so nothing is told of it before a sync has succeeded.
#include <gtest/gtest.h>

#include <string>

#include "power/machine.h"
#include "support/temp_folder.h"

namespace once::power {
namespace {

// Does `first`, then `use`, in which a sync fails; then the power fails, and `look` looks at what is left.
class SyncFailure : public ::testing::Test {
 protected:
  template <class First, class Use, class Look>
  void each_disk(const First& first, const Use& use, const Look& look) {
    int looked = 0;
    for (std::uint64_t seed = 1; seed <= 30 && !HasFailure(); ++seed) {
      const testing::TempFolder folder;
      Image image;
      {
        Machine machine(folder.path(), {}, {.disk = {.seed = seed}, .boot_id = "one"});
        machine.open().value();
        first(machine.zone());
        machine.close();
        image = machine.disk().survived();
      }
      bool told = false;
      {
        Machine machine(folder.path(), image, {.disk = {.seed = seed}, .boot_id = "two"});
        machine.open().value();
        told = use(machine);
        machine.disk().cut();
        machine.close();
        image = machine.disk().survived();
      }
      Machine machine(folder.path(), image, {.disk = {.seed = seed}, .boot_id = "three"});
      machine.open().value();
      if (!told) continue;
      look(machine.zone(), "disk " + std::to_string(seed));
      ++looked;
    }
    EXPECT_GT(looked, 0) << "nothing was told on any disk, so nothing was looked at";
  }
};

TEST_F(SyncFailure, AReceiptThatIsGivenAfterItStands) {
  each_disk(
      [](Zone&) {},
      [](Machine& machine) {
        machine.disk().fail_syncs(1);
        return bool{machine.zone().publish({.topic = "t", .id = "a"})};
      },
      [](Zone& zone, const std::string& disk) { EXPECT_TRUE(zone.tasks().inspect("a")) << disk; });
}

TEST_F(SyncFailure, WhatIsReadFromALogThatItsWriterCouldNotSyncStands) {
  each_disk(
      [](Zone&) {},
      [](Machine& machine) {
        machine.disk().fail_syncs(1000);
        EXPECT_FALSE(machine.zone().publish({.topic = "t", .id = "a"}));
        machine.close();
        machine.disk().calm();
        machine.open().value();
        return bool{machine.zone().tasks().inspect("a")};
      },
      [](Zone& zone, const std::string& disk) { EXPECT_TRUE(zone.tasks().inspect("a")) << disk; });
}

TEST_F(SyncFailure, ACompletionThatIsAcknowledgedAfterItStands) {
  each_disk(
      [](Zone& zone) {
        zone.queues().add({.name = "q", .topic = "t"}).value();
        zone.publish({.topic = "t", .id = "a"}).value();
      },
      [](Machine& machine) {
        auto worker = machine.zone()
                          .worker("q",
                                  [&](Context&) {
                                    machine.disk().fail_syncs(1);
                                    return Outcome::completed();
                                  })
                          .value();
        const auto ran = worker.run_one();
        return ran && *ran;
      },
      [](Zone& zone, const std::string& disk) {
        EXPECT_EQ(zone.tasks().inspect("a").value().queues.at(0).state, State::completed) << disk;
      });
}

}  // namespace
}  // namespace once::power
