// Large results and logs lie outside their records: written once, with the record, and gone with it.
#include <gmock/gmock.h>

#include <filesystem>

#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

constexpr std::size_t kMebibyte = 1 << 20;

class Values : public ::testing::Test {
 protected:
  Values() {
    EXPECT_TRUE(store_->add_queue(queue_).value().added);
    append(*store_, task("a")).value();
    const store::Delivery delivery = claim(*store_, queue_).at(0);
    at_ = address_of(queue_, delivery.entry);
    record_ = delivery.stored->record;
    revision_ = delivery.stored->revision;
    handle_ = delivery.handle;
  }

  void add_step(const std::string& name, std::string result) {
    record_.steps.push_back(
        {.name = name, .state = core::Step::State::done, .result = Body::bytes(std::move(result))});
  }
  void write() {
    const store::Swap swap{.at = at_, .expected = revision_, .record = record_, .handle = handle_};
    auto swapped = std::move(store_->swap(std::span(&swap, 1)).front()).value();
    ASSERT_TRUE(swapped.written);
    revision_ = swapped.current->revision;
  }
  std::uintmax_t wal_size() const { return std::filesystem::file_size(path().string() + "-wal"); }
  std::int64_t number(const char* sql) const {
    std::int64_t value = -1;
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path().c_str(), &db), SQLITE_OK);
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(db, sql, -1, &statement, nullptr), SQLITE_OK);
    if (sqlite3_step(statement) == SQLITE_ROW) value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
  }
  std::int64_t values() const { return number("SELECT count(*) FROM value"); }
  std::filesystem::path path() const { return folder_ / "zone.db"; }

  testing::TempFolder folder_;
  std::shared_ptr<testing::VirtualClock> clock_ = std::make_shared<testing::VirtualClock>();
  std::unique_ptr<Store> store_ = open_zone(path(), clock_);
  const Queue queue_ = queue_of("work");
  Address at_{};
  Record record_{};
  core::Revision revision_{};
  std::string handle_{};
};

TEST_F(Values, ARenewalDoesNotWriteThemAgain) {
  add_step("large", std::string(8 * kMebibyte, 'x'));
  write();
  const std::uintmax_t before = wal_size();
  EXPECT_GE(before, 8 * kMebibyte);
  for (int i = 0; i < 20; ++i) write();
  EXPECT_LT(wal_size() - before, kMebibyte);
  EXPECT_EQ(get(*store_, at_)->record, record_);
}

TEST_F(Values, ComeBackWholeInAnotherProcess) {
  add_step("large", std::string(8 * kMebibyte, 'x'));
  add_step("small", "y");
  record_.attempts.back().log = std::string(core::kLogKept, 'l');
  record_.result = Body::json('"' + std::string(kMebibyte, 'j') + '"').value();
  write();
  EXPECT_EQ(values(), 3);
  EXPECT_LT(number("SELECT length(record) FROM ledger"), 1000);
  store_.reset();
  const Record expected = std::exchange(record_, {});
  const std::string json(expected.result->text());
  store_ = open_zone(path(), clock_);
  const Record found = get(*store_, at_)->record;
  EXPECT_EQ(found, expected);
  EXPECT_EQ(found.result->text(), json);
}

TEST_F(Values, OfEqualContentAreKeptOnce) {
  add_step("one", std::string(kMebibyte, 'x'));
  add_step("two", std::string(kMebibyte, 'x'));
  write();
  EXPECT_EQ(values(), 1);
  EXPECT_EQ(get(*store_, at_)->record, record_);
}

TEST_F(Values, ThatTheRecordNoLongerRefersToAreDeleted) {
  add_step("one", std::string(kMebibyte, 'x'));
  add_step("two", std::string(kMebibyte, 'y'));
  write();
  record_.steps.erase(record_.steps.begin());
  write();
  EXPECT_EQ(values(), 1);
  EXPECT_EQ(get(*store_, at_)->record, record_);
  record_.steps.clear();
  write();
  EXPECT_EQ(values(), 0);
}

TEST_F(Values, OfASwapThatIsRefusedAreNotKept) {
  add_step("one", std::string(kMebibyte, 'x'));
  const store::Swap late{.at = at_, .expected = {revision_.value + 7}, .record = record_};
  EXPECT_FALSE(store_->swap(std::span(&late, 1)).front()->written);
  EXPECT_EQ(values(), 0);
}

TEST_F(Values, GoWithTheirRecord) {
  record_.state = State::completed;
  record_.result = Body::bytes(std::string(kMebibyte, 'x'));
  write();
  EXPECT_EQ(values(), 1);
  store_->set_retention({.bodies = 0ms, .records = 0ms, .ids = 0ms}).value();
  for (int stage = 0; stage < 3; ++stage) store_->retire({}, 100).value();
  EXPECT_EQ(number("SELECT count(*) FROM ledger WHERE place > 0"), 0);
  EXPECT_EQ(values(), 0);
}

TEST_F(Values, GoWithTheirQueue) {
  record_.state = State::completed;
  record_.result = Body::bytes(std::string(kMebibyte, 'x'));
  write();
  store_->remove_queue("work").value();
  for (int round = 0; round < 3; ++round) store_->retire({}, 100).value();
  EXPECT_EQ(values(), 0);
}

TEST_F(Values, ThatAreMissingOrChangedAreDamageAndNothingElse) {
  for (const char* damage : {"UPDATE value SET bytes = x'00'", "DELETE FROM value"}) {
    SCOPED_TRACE(damage);
    record_.result = Body::bytes(std::string(kMebibyte, 'x'));
    write();
    record_.result.reset();  // nobody holds it any more
    behind_its_back(path(), damage);
    const auto found = std::move(store_->get(std::span(&at_, 1)).front());
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, Code::store_unusable);
    EXPECT_THAT(found.error().message, ::testing::HasSubstr("a large result"));
    EXPECT_TRUE(store_->rows({.queue = "work"}, nullptr, 10)->rows.at(0).damaged);
  }
}

TEST_F(Values, AreLeftOutOfLeanRows) {
  add_step("one", std::string(kMebibyte, 'x'));
  write();
  const auto page = store_->rows({.queue = "work", .lean = true}, nullptr, 10).value();
  EXPECT_EQ(page.rows.at(0).stored->record.steps.at(0).result, Body());
}

TEST_F(Values, OfAFileOfVersion4AreMovedWhenTheirRecordIsWritten) {
  record_.error = "as it was";
  write();
  store_.reset();
  behind_its_back(path(), std::string(kToVersion5) +
                              "DROP TRIGGER value_goes; DROP TABLE value;"
                              "ALTER TABLE ledger DROP COLUMN own_size; PRAGMA user_version = 4");
  store_ = open_zone(path(), clock_);
  EXPECT_EQ(number("PRAGMA user_version"), 6);
  EXPECT_EQ(get(*store_, at_)->record, record_);
  add_step("one", std::string(kMebibyte, 'x'));
  write();
  EXPECT_EQ(values(), 1);
  EXPECT_EQ(get(*store_, at_)->record, record_);
}

}  // namespace
}  // namespace once::sqlite_test
