// The disk that lies, by itself: what may be left when the power fails, and what must be.
#include "power/disk.h"

#include <gmock/gmock.h>

#include <optional>
#include <set>
#include <string>

namespace once::power {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::SizeIs;

const std::string kOld(2 * kSector, 'o');
const std::string kNew(2 * kSector, 'n');

// Everything that may be left of file "f" (or none) after `use`, on many disks.
template <class Use>
std::set<std::optional<std::string>> left_after(const Use& use) {
  std::set<std::optional<std::string>> left;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Disk disk({{"f", kOld}}, {.seed = seed});
    use(disk);
    disk.cut();
    const Image image = disk.survived();
    const auto found = image.find("f");
    left.insert(found == image.end() ? std::nullopt : std::optional(found->second));
  }
  return left;
}

TEST(Disk, WhatIsSyncedStays) {
  const auto left = left_after([](Disk& disk) {
    const auto file = disk.open("f", false);
    disk.write(*file, "f", 0, kNew);
    disk.sync(*file, "f", false);
  });
  EXPECT_THAT(left, Each(kNew));
}

TEST(Disk, WhatIsNotSyncedIsThereOrNotOrTornBetweenSectors) {
  const auto left =
      left_after([](Disk& disk) { disk.write(*disk.open("f", false), "f", 0, kNew); });
  const std::string first = kNew.substr(kSector) + kOld.substr(kSector);
  const std::string second = kOld.substr(kSector) + kNew.substr(kSector);
  EXPECT_EQ(left, (std::set<std::optional<std::string>>{kOld, kNew, first, second}));
}

TEST(Disk, ALaterWriteMayBeThereWithoutAnEarlierOne) {
  const auto left = left_after([](Disk& disk) {
    const auto file = disk.open("f", false);
    disk.write(*file, "f", 0, std::string(kSector, '1'));
    disk.write(*file, "f", kSector, std::string(kSector, '2'));
  });
  EXPECT_THAT(left, Contains(kOld.substr(kSector) + std::string(kSector, '2')));
}

TEST(Disk, ATruncationThatWasNotSyncedMayBeUndone) {
  const auto left = left_after([](Disk& disk) { disk.truncate(*disk.open("f", false), "f", 0); });
  EXPECT_EQ(left, (std::set<std::optional<std::string>>{kOld, ""}));
}

TEST(Disk, ADeletionStaysWhenItsFolderIsSynced) {
  EXPECT_THAT(left_after([](Disk& disk) { disk.remove("f", false); }), SizeIs(2));
  EXPECT_THAT(left_after([](Disk& disk) { disk.remove("f", true); }), Each(std::nullopt));
}

TEST(Disk, AFileThatWasMadeStaysWhenItsFolderIsSynced) {
  const auto made = [](Disk& disk, bool folder) {
    disk.remove("f", true);
    const auto file = disk.open("f", true);
    disk.write(*file, "f", 0, kNew);
    disk.sync(*file, "f", folder);
  };
  EXPECT_THAT(left_after([&](Disk& disk) { made(disk, false); }), SizeIs(2));
  EXPECT_THAT(left_after([&](Disk& disk) { made(disk, true); }), Each(kNew));
}

TEST(Disk, NothingWorksAfterTheCut) {
  Disk disk({{"f", kOld}}, {.cut_at = 2});
  const auto file = disk.open("f", false);
  EXPECT_EQ(disk.write(*file, "f", 0, kNew), Disk::Answer::done);
  EXPECT_EQ(disk.sync(*file, "f", false), Disk::Answer::failed);
  EXPECT_TRUE(disk.off());
  EXPECT_EQ(disk.write(*file, "f", 0, kNew), Disk::Answer::failed);
  EXPECT_EQ(disk.remove("f", true), Disk::Answer::failed);
  EXPECT_EQ(disk.open("g", true), nullptr);
  EXPECT_EQ(disk.cut_in(), "sync of f");
}

}  // namespace
}  // namespace once::power
