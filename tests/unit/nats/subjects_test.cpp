// Names as subject tokens: any bytes, no two alike, nothing that a subject may not hold.
#include "store/nats/subjects.h"

#include <gtest/gtest.h>

#include <set>

#include "json/base64.h"
#include "store/nats/client/jetstream_client.h"
#include "store/nats/feed/pulled_message.h"

namespace once::store::nats {
namespace {

TEST(Subjects, AnyBytesMakeOneTokenAndComeBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (std::size_t i = 0; i + 40 <= all.size(); ++i) {
    const std::string bytes = all.substr(i, 40);
    const std::string made = token(bytes);
    EXPECT_EQ(made.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789-_="),
              std::string::npos)
        << made;
    EXPECT_EQ(from_token(made), bytes);
  }
}

TEST(Subjects, NoTwoNamesShareAToken) {
  std::set<std::string> tokens;
  const std::vector<std::string> names{"a",
                                       "A",
                                       "a.b",
                                       "a=2Eb",
                                       "a=b",
                                       "*",
                                       ">",
                                       "a b",
                                       "a\nb",
                                       "Zoë",
                                       "Zoe",
                                       "",
                                       "=",
                                       "==",
                                       std::string("\0", 1),
                                       std::string(199, 'x'),
                                       std::string(200, 'x'),
                                       std::string(201, 'x'),
                                       std::string(1024, 'x')};
  for (const std::string& name : names) EXPECT_TRUE(tokens.insert(token(name)).second) << name;
  EXPECT_EQ(tokens.count(""), 0U);
}

TEST(Subjects, LongNamesAreHashedAndSayso) {
  EXPECT_TRUE(token(std::string(201, 'x')).starts_with("=="));
  EXPECT_LE(token(std::string(1024, ' ')).size(), 200U);
  EXPECT_FALSE(from_token(token(std::string(1024, ' '))));
  EXPECT_EQ(from_token(escaped(std::string(1024, ' '))), std::string(1024, ' '));
}

// Whatever filter a queue has, its consumer's does not reach below `sys`.
TEST(Subjects, TopicsOfOncesOwnLieUnderARootOfTheirOwn) {
  const Subjects subjects{.zone = "z"};
  EXPECT_EQ(subjects.log("a.b", "orders.new"), "once.z.log.a=2Eb.orders.new");
  EXPECT_EQ(subjects.logs(">"), "once.z.log.*.>");
  EXPECT_EQ(subjects.logs("*.flow.>"), "once.z.log.*.*.flow.>");
  EXPECT_EQ(subjects.log("a.b", "$once.flow.x"), "once.z.sys.a=2Eb.$once.flow.x");
  EXPECT_EQ(subjects.logs("$once.flow.>"), "once.z.sys.*.$once.flow.>");
  EXPECT_EQ(subjects.all_of("a.b"), "once.z.*.a=2Eb.>") << "an id is one, under both";
}

TEST(AckSubjects, AreReadInBothForms) {
  const auto plain = ack_subject("$JS.ACK.LOG.q_1.3.17.20.1794773151161258387.4");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->stream, "LOG");
  EXPECT_EQ(plain->times, 3U);
  EXPECT_EQ(plain->sequence, 17U);
  EXPECT_EQ(plain->time, Time{Duration{1794773151161}});
  const auto with_domain =
      ack_subject("$JS.ACK.hub.ACCHASH.LOG.q_1.3.17.20.1794773151161258387.4.x7");
  ASSERT_TRUE(with_domain);
  EXPECT_EQ(with_domain->stream, "LOG");
  EXPECT_EQ(with_domain->sequence, 17U);
  for (const char* other : {"", "_INBOX.x", "$JS.ACK.LOG.q.1.2", "$JS.API.INFO"})
    EXPECT_FALSE(ack_subject(other)) << other;
}

TEST(JetStreamClient, ReadsTheServersTimesAndBytes) {
  EXPECT_EQ(time_from("1970-01-01T00:00:01Z"), Time{Duration{1000}});
  EXPECT_EQ(time_from("2026-11-15T20:05:51.161258387Z"), Time{Duration{1794773151161}});
  EXPECT_EQ(time_from("2026-11-15T20:05:51.1Z"), Time{Duration{1794773151100}});
  for (const char* bad : {"", "yesterday", "2026-13-15T20:05:51Z", "2026-11-15T20:05:51+01:00"})
    EXPECT_FALSE(time_from(bad)) << bad;
  EXPECT_EQ(encoding::from_base64("aGk="), "hi");
  EXPECT_EQ(encoding::from_base64("AP9/"), std::string("\x00\xff\x7f", 3));
  EXPECT_EQ(encoding::from_base64(""), "");
  EXPECT_FALSE(encoding::from_base64("a*=="));
}

}  // namespace
}  // namespace once::store::nats
