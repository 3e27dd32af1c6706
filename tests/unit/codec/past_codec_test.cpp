#include "codec/past_codec.h"

#include <gtest/gtest.h>

#include "codec/wire.h"

namespace once::encoding {
namespace {

core::Past example() {
  core::Past past;
  past.records.add(1, 900);
  past.records.add(1000);
  past.ids.add(5, 7);
  for (const std::int64_t hour : {-3, 0, 490'000}) {
    Totals& totals = past.hours[hour];
    totals.published = 901;
    totals.states[5] = 900;
    totals.states[8] = 1;
    totals.duplicates_at_append = 17;
    totals.duplicates_by_ledger = 1;
    totals.attempts = 1'000'000'000'000;
    totals.reruns[1] = 3;
    totals.completed_twice = 2;
    totals.to_start.add(Duration{3});
    totals.to_record.add(Duration{99'999'999});
  }
  return past;
}

TEST(PastCodec, WhatIsWrittenIsRead) {
  EXPECT_EQ(decode_past(encode(example())).value(), example());
  EXPECT_EQ(decode_past(encode(core::Past{})).value(), core::Past{});
}

TEST(PastCodec, NoByteCanBeChangedOrMissing) {
  const std::string bytes = encode(example());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x41);
    EXPECT_TRUE(decode_past(changed)->damaged) << i;
    EXPECT_TRUE(decode_past(bytes.substr(0, i))->damaged) << i;
  }
}

TEST(PastCodec, ADamagedPastGoesOnBeingOne) {
  core::Past past = decode_past("").value();
  past.hours[1].published = 1;
  EXPECT_EQ(decode_past(encode(past)).value(), past);
}

TEST(PastCodec, AReasonThatANewerOnceKnowsIsNoDamage) {
  std::string reruns;
  for (std::uint64_t i = 0; i < Totals::kReruns + 2; ++i) append_varint(i, reruns);
  std::string hour;
  append_number_field(2, 5, hour);
  append_bytes_field(8, reruns, hour);
  std::string bytes(1, 1);
  append_bytes_field(3, hour, bytes);
  append_checksum(bytes);
  const core::Past past = decode_past(bytes).value();
  EXPECT_FALSE(past.damaged);
  EXPECT_EQ(past.hours.at(0).published, 5U);
  EXPECT_EQ(past.hours.at(0).reruns.back(), Totals::kReruns - 1);
}

TEST(PastCodec, ANewerVersionIsNotGuessed) {
  std::string newer(1, 2);
  append_checksum(newer);
  const auto read = decode_past(newer);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::store_unusable);
  EXPECT_NE(read.error().message.find("newer version"), std::string::npos);
}

}  // namespace
}  // namespace once::encoding
