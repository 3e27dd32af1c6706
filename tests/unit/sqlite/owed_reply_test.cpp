// The column `owes` of the ledger: a record that owes a reply is found by it, also in a file that an
// older version made or writes to.
#include <gmock/gmock.h>

#include "codec/digest.h"
#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OwedReply : public ::testing::Test {
 protected:
  OwedReply() { EXPECT_TRUE(store_->add_queue(queue_).value().added); }

  void publish(const std::string& id) {
    Append item = task(id);
    item.digest = encoding::content_digest(item.topic, item.body).value();
    append(*store_, item).value();
  }
  // Publishes and claims a task, and records that it is completed.
  void end(const std::string& id, bool owes) {
    publish(id);
    const store::Delivery delivery = claim(*store_, queue_).at(0);
    at_ = address_of(queue_, delivery.entry);
    record_ = delivery.stored->record;
    record_.state = State::completed;
    record_.reply = core::ReplyTo{.topic = "replies", .id = id};
    record_.reply_due = owes;
    write(delivery.stored->revision, delivery.handle);
  }
  void write(core::Revision expected, const std::string& handle) {
    const store::Swap swap{.at = at_, .expected = expected, .record = record_, .handle = handle};
    ASSERT_TRUE(store_->swap(std::span(&swap, 1)).front().value().written);
  }
  void give_reply() {
    record_.reply_due = false;
    write(get(*store_, at_)->revision, "");
  }
  std::vector<std::int64_t> owes() const {
    std::vector<std::int64_t> rows;
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path().c_str(), &db), SQLITE_OK);
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(
        sqlite3_prepare_v2(db, "SELECT owes FROM ledger ORDER BY place", -1, &statement, nullptr),
        SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW)
      rows.push_back(sqlite3_column_int64(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return rows;
  }
  std::vector<std::string> damages() {
    std::vector<std::string> all;
    std::string after;
    do {
      auto page = store_->verify(Store::Depth::deep, after).value();
      for (const store::Damage& damage : page.damages) all.push_back(damage.what);
      after = page.next;
    } while (!after.empty());
    return all;
  }
  std::filesystem::path path() const { return folder_ / "zone.db"; }

  testing::TempFolder folder_;
  std::shared_ptr<testing::VirtualClock> clock_ = std::make_shared<testing::VirtualClock>();
  std::unique_ptr<Store> store_ = open_zone(path(), clock_);
  const Queue queue_ = queue_of("work");
  Address at_{};
  Record record_{};
};

TEST_F(OwedReply, IsAColumnOfItsRow) {
  end("told", false);
  end("owed", true);
  EXPECT_THAT(owes(), ElementsAre(0, 1));
  EXPECT_FALSE(store_->all_settled("work").value());
  give_reply();
  EXPECT_THAT(owes(), ElementsAre(0, 0));
  EXPECT_TRUE(store_->all_settled("work").value());
}

TEST_F(OwedReply, IsKnownAfterAnUpgradeFromVersion5) {
  end("told", false);
  end("owed", true);
  publish("running");
  ASSERT_EQ(claim(*store_, queue_).size(), 1U);
  store_.reset();
  behind_its_back(path(), std::string(kToVersion5));
  store_ = open_zone(path(), clock_);
  EXPECT_THAT(owes(), ElementsAre(0, 1, 0));
  EXPECT_THAT(damages(), IsEmpty());
}

TEST_F(OwedReply, IsDamageIfOnlyTheRecordSaysIt) {
  end("owed", true);
  EXPECT_THAT(damages(), IsEmpty());
  behind_its_back(path(), "UPDATE ledger SET owes = 0");
  EXPECT_THAT(damages(), Contains(HasSubstr("its record owes a reply, and its row says")));
}

// A process of version 5 has given the reply. It does not know the column.
TEST_F(OwedReply, ThatAnOlderProcessGaveIsNotOwedAfterTheNextSweep) {
  end("owed", true);
  give_reply();
  behind_its_back(path(), "UPDATE ledger SET owes = 1");
  ASSERT_THAT(store_->overlooked("work", {}, 10).value().sequences, ElementsAre(at_.sequence));
  const store::Wake wake{.sequence = at_.sequence};
  store_->wake("work", std::span(&wake, 1)).value();
  ASSERT_EQ(claim(*store_, queue_).size(), 1U);
  EXPECT_THAT(owes(), ElementsAre(0));
  EXPECT_THAT(damages(), IsEmpty());
}

}  // namespace
}  // namespace once::sqlite_test
