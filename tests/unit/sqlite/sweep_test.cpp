// Where the sweep begins: a task that is scheduled for next year must not have everything behind it
// read again every minute.
#include <gtest/gtest.h>

#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

TEST(SqliteSweep, BeginsBehindWhatIsScheduledAndWasNeverHandedOver) {
  testing::TempFolder folder;
  const auto store = open_zone(folder / "zone.db");
  const Queue work = queue_of("work");
  store->add_queue(work).value();
  store::Append later = task("later");
  later.delay = 24h * 365;
  ASSERT_TRUE(append(*store, later));
  ASSERT_TRUE(append(*store, task("now")));
  const auto held = claim(*store, work);
  ASSERT_EQ(held.size(), 1U);
  EXPECT_EQ(store->overlooked("work", {}, 10).value().settled.value, 1U) << "#2 is still running";
  complete(*store, work, held[0]);
  EXPECT_EQ(store->overlooked("work", {}, 10).value().settled.value, 2U);
}

}  // namespace
}  // namespace once::sqlite_test
