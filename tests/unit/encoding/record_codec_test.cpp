// Records to bytes and back: whole, cut off, damaged, older, newer.
#include "encoding/record_codec.h"

#include <gtest/gtest.h>

#include "encoding/wire.h"
#include "random_record.h"

namespace once::encoding {
namespace {

core::Record example() {
  core::Record record;
  record.sequence = {300};
  record.state = State::retrying;
  record.claims = 2;
  record.delay = Duration{-1};
  record.nonce.bytes.fill(0xAB);
  record.attempts.resize(1);
  record.attempts[0].number = 1;
  record.attempts[0].worker = "w";
  record.attempts[0].ending = core::Ending::failed;
  record.result = Body::json("[1 ]").value();
  record.error = "no";
  record.since = Time{Duration{1000}};
  return record;
}

std::string resealed(std::string content) {
  append_checksum(content);
  return content;
}

std::string without_checksum(std::string bytes) {
  bytes.resize(bytes.size() - kChecksumSize);
  return bytes;
}

TEST(RecordCodec, RoundTrips) {
  RandomRecord random(1);
  for (int i = 0; i < 5'000; ++i) {
    const core::Record record = random.record();
    const auto decoded = decode(encode(record));
    ASSERT_TRUE(decoded) << decoded.error().message;
    ASSERT_EQ(*decoded, record);
  }
  EXPECT_EQ(*decode(encode(core::Record())), core::Record());
  EXPECT_EQ(*decode(encode(example())), example());
}

// The format on disk: a change here needs a new version byte.
TEST(RecordCodec, BytesOfVersionOne) {
  const std::string expected(
      "\x01"
      "\x02\xAC\x02"
      "\x06\x02"
      "\x08\x02"
      "\x0F\x10\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB\xAB"
      "\x14\x01"
      "\x19\x07\x02\x01\x05\x01w\x0C\x02"
      "\x1B\x04[1 ]"
      "\x21\x02no"
      "\x24\xD0\x0F");
  EXPECT_EQ(without_checksum(encode(example())), expected);
  EXPECT_EQ(checksum("123456789"), 1222785008u);
}

TEST(RecordCodec, CutOffAnywhereIsAnError) {
  RandomRecord random(2);
  for (int i = 0; i < 100; ++i) {
    const std::string bytes = encode(random.record());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto decoded = decode(std::string_view(bytes).substr(0, size));
      ASSERT_FALSE(decoded) << size << " of " << bytes.size();
      ASSERT_EQ(decoded.error().code, Code::store_unusable);
    }
  }
}

// With a checksum that fits, the fields themselves must hold.
TEST(RecordCodec, FieldsCutOffInTheMiddleAreAnError) {
  const std::string content = without_checksum(encode(example()));
  std::size_t accepted = 0;
  for (std::size_t size = 1; size < content.size(); ++size) {
    if (decode(resealed(content.substr(0, size)))) ++accepted;
  }
  EXPECT_EQ(accepted, 9u) << "only where one of the nine fields ends";
}

TEST(RecordCodec, EveryFlippedBitIsNoticed) {
  std::string bytes = encode(example());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      ASSERT_FALSE(decode(bytes)) << "byte " << i << " bit " << bit;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
    }
  }
  EXPECT_TRUE(decode(bytes));
}

TEST(RecordCodec, NewerVersionsAreRefusedByName) {
  std::string bytes = encode(example());
  bytes[0] = 2;
  const auto decoded = decode(bytes);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, Code::store_unusable);
  EXPECT_NE(decoded.error().message.find("written by a newer once"), std::string::npos);
  bytes[0] = 0;
  EXPECT_NE(decode(bytes).error().message.find("damaged"), std::string::npos);
}

TEST(RecordCodec, UnknownFieldsAreSkipped) {
  std::string content = without_checksum(encode(example()));
  append_number_field(19, 12345, content);
  append_bytes_field(400, "of a newer one", content);
  append_bytes_field(400, "and again", content);
  const auto decoded = decode(resealed(content));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, example());

  std::string attempt;
  append_number_field(1, 7, attempt);
  append_bytes_field(8, "of a newer one", attempt);
  std::string with_attempt = "\x01";
  append_bytes_field(12, attempt, with_attempt);
  const auto with = decode(resealed(with_attempt));
  ASSERT_TRUE(with);
  EXPECT_EQ(with->attempts.at(0).number, 7u);
}

TEST(RecordCodec, ValuesThatDoNotFitAreDamage) {
  using namespace std::string_literals;
  const std::string kContents[] = {
      "\x01\x06\x09"s,                                      // a state beyond the last
      "\x01\x0C\x02"s,                                      // in doubt: neither yes nor no
      "\x01\x08\xFF\xFF\xFF\xFF\x1F"s,                      // claims beyond 32 bits
      "\x01\x05\x02xx"s,                                    // a digest of two bytes
      "\x01\x0F\x01x"s,                                     // a nonce of one byte
      "\x01\x03\x01x"s,                                     // a sequence that is bytes
      "\x01\x20\x01"s,                                      // an error that is a number
      "\x01\x02\x01\x02\x01"s,                              // a field twice
      "\x01\x06\x01\x02\x01"s,                              // fields out of order
      "\x01\x00\x01"s,                                      // field zero
      "\x01\x02\x81\x00"s,                                  // a number longer than needed
      "\x01\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02"s,  // beyond 64 bits
      "\x01\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s,
      "\x01\x02"s,      // a tag without a value
      "\x01\x21\x7F"s,  // longer than the record
      "\x01\x21\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s,
      "\x01\x1B\x01{"s,  // a JSON result that is none
      "\x01\x1B\x01"
      "1\x1D\x01"
      "1"s,                             // two results
      "\x01\x19\x02\x0C\x09"s,          // an ending beyond the last
      "\x01\x19\x04\x02\x01\x02\x01"s,  // an attempt with a field twice
      "\x01\x18\x01"s,                  // an attempt that is a number
  };
  for (const std::string& content : kContents) {
    const auto decoded = decode(resealed(content));
    ASSERT_FALSE(decoded) << ::testing::PrintToString(content);
    EXPECT_EQ(decoded.error().code, Code::store_unusable);
    EXPECT_NE(decoded.error().message.find("damaged"), std::string::npos);
  }
}

TEST(Wire, SignsFoldAndUnfold) {
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1}, std::int64_t{-2},
        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_EQ(unfold_sign(fold_sign(value)), value);
  }
  EXPECT_EQ(fold_sign(-1), 1u);
  EXPECT_EQ(fold_sign(1), 2u);
}

}  // namespace
}  // namespace once::encoding
