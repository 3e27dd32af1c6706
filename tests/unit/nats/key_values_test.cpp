// The stream of values under somebody else's hands, and what its large values leave behind.
#include "once/testing.h"
#include "store/nats/subjects.h"
#include "support/eventually.h"
#include "unit/nats/bare_stream.h"
#include "unit/nats/nats_world.h"

namespace once::store::nats {
namespace {

using ::testing::HasSubstr;

class KeyValuesTest : public NatsWorld {
 protected:
  std::string configuration() const override { return "max_payload: 64KB"; }
  Result<KeyWriteResult> write(const Key& key, std::string bytes, Revision expected = {}) {
    const KeyWrite item{.key = key, .expected = expected, .bytes = std::move(bytes)};
    return std::move(store().key_values().write(std::span(&item, 1)).front());
  }
  Result<std::optional<Value>> get(const Key& key) {
    return std::move(store().key_values().get(std::span(&key, 1)).front());
  }
  std::size_t parts() {
    const auto info = raw("STREAM.INFO.ONCE_test_KV", R"({"subjects_filter":"once-kv.test.p.>"})");
    const encoding::Json* subjects = info.member("state")->member("subjects");
    return subjects ? subjects->members().size() : 0;
  }
  // As somebody restores it from a copy that has the first values only.
  void restore_older_copy(std::uint64_t up_to) {
    const Bare bare(server().url());
    std::vector<StreamMessage> messages;
    for (std::uint64_t i = 1; i <= up_to; ++i)
      messages.push_back(bare.client().get("ONCE_test_KV", i).value().value());
    const encoding::Json info = bare.api("STREAM.INFO.ONCE_test_KV");
    bare.api("STREAM.DELETE.ONCE_test_KV");
    bare.api("STREAM.CREATE.ONCE_test_KV", encoding::canonical(*info.member("config")));
    for (const StreamMessage& each : messages) bare.put(each.subject, each.data);
  }
};

TEST_F(KeyValuesTest, AStreamThatIsRestoredFromAnOlderCopyIsNoticedByAWriteAtOnce) {
  ASSERT_TRUE(write({"key", "a"}, "1")->written);
  ASSERT_TRUE(write({"key", "b"}, "1")->written);
  ASSERT_TRUE(write({"key", "c"}, "1")->written);
  restore_older_copy(2);  // the seal and the first value
  const auto again = write({"key", "b"}, "2");
  ASSERT_FALSE(again) << "the key has a run that the copy does not know";
  EXPECT_EQ(again.error().code, Code::store_unusable);
  EXPECT_THAT(again.error().message, HasSubstr("ONCE_test_KV"));
}

TEST_F(KeyValuesTest, AStreamThatIsRestoredFromAnOlderCopyIsNoticedByTheWatch) {
  reopen({.look_every = 100ms});
  add("q", 30s);
  ASSERT_TRUE(write({"key", "a"}, "1")->written);
  ASSERT_TRUE(write({"key", "b"}, "1")->written);
  restore_older_copy(2);
  EXPECT_TRUE(testing::eventually([&] {
    return !get({"key", "b"});
  })) << "it would say that there is no such run";
  EXPECT_EQ(get({"key", "b"}).error().code, Code::store_unusable);
  EXPECT_FALSE(write({"key", "b"}, "2"));
  EXPECT_FALSE(store().key_values().list({.prefix = {"key"}}));
  EXPECT_FALSE(append(task("t"))) << "nothing new is begun";
}

TEST_F(KeyValuesTest, AStreamThatIsDeletedIsNoticedByTheWatch) {
  reopen({.look_every = 100ms});
  add("q", 30s);
  ASSERT_TRUE(write({"key", "a"}, "1")->written);
  raw("STREAM.DELETE.ONCE_test_KV", "");
  EXPECT_TRUE(testing::eventually([&] { return !append(task("t")); }));
}

TEST_F(KeyValuesTest, PartsOfReplacedValuesAreCollected) {
  const auto clock = std::make_shared<testing::VirtualClock>();
  reopen({.clock = clock});
  const std::string large(200 << 10, 'x');
  const auto first = write({"value", "a"}, large).value();
  const std::size_t of_one = parts();
  ASSERT_GT(of_one, 1U);
  const auto second = write({"value", "a"}, large + "y", first.revision).value();
  ASSERT_TRUE(second.written);
  ASSERT_TRUE(write({"value", "b"}, large).value().written);
  ASSERT_TRUE(write({"value", "b"}, "small", get({"value", "b"}).value()->revision)->written);
  ASSERT_GT(parts(), 2 * of_one);

  store().retire({}, 100).value();
  EXPECT_GT(parts(), 2 * of_one) << "another process may be about to name them";
  clock->advance(11min);
  store().retire({}, 100).value();
  EXPECT_LE(parts(), of_one + 1) << "those of one value";
  EXPECT_EQ(get({"value", "a"}).value()->bytes, large + "y");
  EXPECT_EQ(get({"value", "b"}).value()->bytes, "small");

  ASSERT_TRUE(write({"value", "a"}, large, second.revision)->written);
  EXPECT_EQ(get({"value", "a"}).value()->bytes, large) << "parts that were collected once";
}

TEST_F(KeyValuesTest, AListNamesALargeValueThatLostAPartAndShowsTheOthers) {
  ASSERT_TRUE(write({"value", "a"}, std::string(200 << 10, 'x'))->written);
  ASSERT_TRUE(write({"value", "b"}, "small")->written);
  raw("STREAM.PURGE.ONCE_test_KV", R"({"filter":"once-kv.test.p.value.a.*.1"})");
  const KeyPage page = store().key_values().list({.prefix = {"value"}}).value();
  ASSERT_THAT(page.values, ::testing::SizeIs(1));
  EXPECT_EQ(page.values[0].first, (Key{"value", "b"}));
  ASSERT_THAT(page.unreadable, ::testing::SizeIs(1));
  EXPECT_EQ(page.unreadable[0].first, (Key{"value", "a"}));
  EXPECT_EQ(page.unreadable[0].second.code, Code::store_unusable);
}

}  // namespace
}  // namespace once::store::nats
