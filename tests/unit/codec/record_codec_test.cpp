// Records to bytes and back: whole, cut off, damaged, older, newer.
#include "codec/record_codec.h"

#include <gtest/gtest.h>

#include "codec/wire.h"
#include "support/random_record.h"

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

// With everything that steps, policies and people add.
core::Record eventful() {
  core::Record record;
  record.attempts.resize(1);
  record.attempts[0].probing = true;
  record.steps.resize(1);
  record.steps[0].name = "push";
  record.steps[0].state = core::Step::State::done;
  record.steps[0].policy = InDoubt::probe;
  record.steps[0].attempt = 2;
  record.steps[0].runs = 3;
  record.steps[0].started_at = Time{Duration{1}};
  record.steps[0].ended_at = Time{Duration{2}};
  record.steps[0].result = Body::bytes("ok");
  record.steps[0].result_cut = true;
  record.story.resize(1);
  record.story[0].act = core::OperatorAction::Act::cancel_asked;
  record.story[0].at = Time{Duration{1}};
  record.story[0].by = "ann";
  record.story[0].why = "no";
  record.story[0].step = "s";
  record.story[0].nonce.bytes.fill(0xCD);
  record.actions = 7;
  record.probe = true;
  record.cancel_asked = true;
  return record;
}

// Of a task that somebody waits for, and that has a policy of its own.
core::Record awaited() {
  core::Record record;
  record.reply = core::ReplyTo{.topic = "t", .id = "r.s"};
  record.reply_due = true;
  record.own = core::TaskPolicy{.attempts = 5,
                                .backoff = {Duration{1}, Duration{2}},
                                .jitter_permille = 0,
                                .timeout = Duration{3},
                                .in_doubt = InDoubt::hold};
  return record;
}

// Offered and not started, after an attempt that began as an offer.
core::Record offered() {
  core::Record record;
  record.state = State::running;
  record.attempts.resize(1);
  record.attempts[0].nonce.bytes.fill(0xEF);
  record.steps.resize(1);
  record.steps[0].name = "s";
  record.steps[0].call = "c";
  record.offer = core::Offer{
      .worker = "w", .at = Time{Duration{1}}, .before = State::retrying, .can_probe = true};
  record.lapsed = 3;
  record.started = core::StoreTime{Duration{-1}};
  return record;
}

core::Order order() {
  core::Order order;
  order.kind = core::Order::Kind::complete_step;
  order.nonce.bytes.fill(0xEF);
  order.claims = 300;
  order.at = Time{Duration{1000}};
  order.by = "ann";
  order.why = "it is there";
  order.step = "push";
  order.result = Body::json("[1 ]").value();
  return order;
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
  EXPECT_EQ(*decode(encode(eventful())), eventful());
  EXPECT_EQ(*decode(encode(awaited())), awaited());
  EXPECT_EQ(*decode(encode(offered())), offered());
}

TEST(RecordCodec, OrdersRoundTrip) {
  RandomRecord random(7);
  for (int i = 0; i < 5'000; ++i) {
    const core::Order given = random.order();
    const auto decoded = decode_order(encode(given));
    ASSERT_TRUE(decoded) << decoded.error().message;
    ASSERT_EQ(*decoded, given);
  }
  EXPECT_EQ(*decode_order(encode(core::Order())), core::Order());
  EXPECT_EQ(*decode_order(encode(order())), order());
}

TEST(RecordCodec, WhatIsNotThereCostsNothing) {
  EXPECT_EQ(encode(core::Record()).size(), 1 + kChecksumSize);
  EXPECT_EQ(encode(core::Order()).size(), 1 + kChecksumSize);
  core::Record record;
  record.steps.resize(1);
  record.story.resize(1);
  EXPECT_EQ(encode(record).size(), 1 + 2 + 2 + kChecksumSize);
}

TEST(RecordCodec, TheLogOfAnAttemptIsAFieldThatOlderReadersSkip) {
  core::Record record;
  record.attempts.resize(1);
  record.attempts[0].number = 1;
  record.attempts[0].log = "out of ink\n";
  std::string attempt;
  append_number_field(1, 1, attempt);
  append_bytes_field(9, "out of ink\n", attempt);
  std::string expected = "\x01";
  append_bytes_field(12, attempt, expected);
  EXPECT_EQ(encode(record), resealed(expected));
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

TEST(RecordCodec, BytesOfStepsAndActions) {
  const std::string expected(
      "\x01"
      "\x19\x02\x10\x01"
      "\x27\x18\x03\x04push\x04\x01\x06\x03\x08\x02\x0A\x03\x0C\x02\x0E\x04\x13\x02ok\x14\x01"
      "\x29\x22\x02\x04\x04\x02\x07\x03"
      "ann\x09\x02no\x0B\x01s"
      "\x0D\x10\xCD\xCD\xCD\xCD\xCD\xCD\xCD\xCD\xCD\xCD\xCD\xCD\xCD\xCD\xCD\xCD"
      "\x2A\x07"
      "\x2C\x01"
      "\x2E\x01");
  EXPECT_EQ(without_checksum(encode(eventful())), expected);
}

TEST(RecordCodec, BytesOfAReplyAndAnOwnPolicy) {
  using namespace std::string_literals;
  const std::string expected =
      "\x01"
      "\x31\x08\x03\x01t\x05\x03r.s"
      "\x32\x01"
      "\x35\x0C\x02\x05\x04\x02\x04\x04\x06\x00\x08\x06\x0A\x03"s;
  EXPECT_EQ(without_checksum(encode(awaited())), expected);
  core::Record plain;
  plain.own.emplace();
  EXPECT_EQ(without_checksum(encode(plain)), "\x01\x35\x00"s) << "its defaults are left out";
}

TEST(RecordCodec, BytesOfAnOffer) {
  const std::string expected(
      "\x01"
      "\x06\x01"
      "\x19\x12\x15\x10\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF"
      "\x27\x06\x03\x01s\x1B\x01"
      "c"
      "\x37\x09\x03\x01w\x04\x02\x06\x02\x08\x01"
      "\x38\x03"
      "\x3A\x01");
  EXPECT_EQ(without_checksum(encode(offered())), expected);
}

TEST(RecordCodec, BytesOfAnOrder) {
  const std::string expected(
      "\x01"
      "\x02\x01"
      "\x05\x10\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF\xEF"
      "\x06\xD0\x0F"
      "\x09\x03"
      "ann"
      "\x0B\x0Bit is there"
      "\x0D\x04push"
      "\x0F\x04[1 ]"
      "\x12\xAC\x02");
  EXPECT_EQ(without_checksum(encode(order())), expected);
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
    const std::string ordered = encode(random.order());
    for (std::size_t size = 0; size < ordered.size(); ++size)
      ASSERT_FALSE(decode_order(std::string_view(ordered).substr(0, size))) << size;
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

  const std::string ordered = without_checksum(encode(order()));
  accepted = 0;
  for (std::size_t size = 1; size < ordered.size(); ++size)
    if (decode_order(resealed(ordered.substr(0, size)))) ++accepted;
  EXPECT_EQ(accepted, 8u) << "only where one of the eight fields ends";
}

template <class Decode>
void expect_every_flipped_bit_noticed(std::string bytes, Decode decode_it) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      ASSERT_FALSE(decode_it(bytes)) << "byte " << i << " bit " << bit;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
    }
  }
  EXPECT_TRUE(decode_it(bytes));
}

TEST(RecordCodec, EveryFlippedBitIsNoticed) {
  expect_every_flipped_bit_noticed(encode(example()), decode);
  expect_every_flipped_bit_noticed(encode(eventful()), decode);
  expect_every_flipped_bit_noticed(encode(awaited()), decode);
  expect_every_flipped_bit_noticed(encode(order()), decode_order);
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

  bytes = encode(order());
  bytes[0] = 2;
  EXPECT_EQ(decode_order(bytes).error().message,
            "a person's order for a task was written by a newer once (format 2, this one reads up "
            "to 1); nothing was changed: use that once or a newer one");
  bytes[0] = 0;
  EXPECT_EQ(decode_order(bytes).error().message,
            "a person's order for a task is damaged (there is no format 0); nothing was changed: "
            "restore the store from a backup");
}

TEST(RecordCodec, UnknownFieldsAreSkipped) {
  std::string content = without_checksum(encode(example()));
  append_number_field(90, 12345, content);
  append_bytes_field(400, "of a newer one", content);
  append_bytes_field(400, "and again", content);
  const auto decoded = decode(resealed(content));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, example());

  std::string attempt;
  append_number_field(1, 7, attempt);
  append_bytes_field(90, "of a newer one", attempt);
  std::string step;
  append_bytes_field(1, "push", step);
  append_bytes_field(90, "of a newer one", step);
  std::string action;
  append_bytes_field(3, "ann", action);
  append_bytes_field(90, "of a newer one", action);
  std::string parts = "\x01";
  append_bytes_field(12, attempt, parts);
  append_bytes_field(19, step, parts);
  append_bytes_field(20, action, parts);
  std::string reply;
  append_bytes_field(2, "r.s", reply);
  append_bytes_field(90, "of a newer one", reply);
  std::string own;
  append_number_field(1, 3, own);
  append_bytes_field(90, "of a newer one", own);
  append_bytes_field(24, reply, parts);
  append_bytes_field(26, own, parts);
  const auto with = decode(resealed(parts));
  ASSERT_TRUE(with);
  EXPECT_EQ(with->attempts.at(0).number, 7u);
  EXPECT_EQ(with->steps.at(0).name, "push");
  EXPECT_EQ(with->story.at(0).by, "ann");
  EXPECT_EQ(with->reply->id, "r.s");
  EXPECT_EQ(with->own->attempts, 3u);

  std::string ordered = without_checksum(encode(order()));
  append_bytes_field(90, "of a newer one", ordered);
  const auto newer = decode_order(resealed(ordered));
  ASSERT_TRUE(newer) << newer.error().message;
  EXPECT_EQ(*newer, order());
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
      "\x01\x19\x02\x10\x02"s,          // probing: neither yes nor no
      "\x01\x26\x01"s,                  // a step that is a number
      "\x01\x27\x02\x04\x03"s,          // a step's state beyond the last
      "\x01\x27\x02\x06\x04"s,          // a policy beyond the last
      "\x01\x27\x04\x08\x01\x08\x01"s,  // a step with a field twice
      "\x01\x27\x03\x11\x01{"s,         // a step's JSON result that is none
      "\x01\x27\x06\x11\x01"
      "1\x13\x01"
      "1"s,                             // a step with two results
      "\x01\x27\x03\x03\x02p"s,         // a step longer than itself
      "\x01\x28\x01"s,                  // a action that is a number
      "\x01\x29\x02\x02\x09"s,          // an act beyond the last
      "\x01\x29\x03\x0D\x01x"s,         // a action's nonce of one byte
      "\x01\x29\x04\x02\x01\x02\x01"s,  // a action with a field twice
      "\x01\x2A\x01\x2A\x01"s,          // actions counted twice
      "\x01\x2C\x02"s,                  // probe: neither yes nor no
      "\x01\x2E\x02"s,                  // cancel asked: neither yes nor no
      "\x01\x30\x01"s,                  // a reply that is a number
      "\x01\x31\x00\x31\x00"s,          // two replies
      "\x01\x31\x02\x02\x01"s,          // a topic that is a number
      "\x01\x32\x02"s,                  // reply due: neither yes nor no
      "\x01\x34\x01"s,                  // a policy that is a number
      "\x01\x35\x04\x02\x01\x02\x01"s,  // a policy with a field twice
      "\x01\x35\x02\x0A\x00"s,          // in doubt: no policy
      "\x01\x35\x02\x0A\x05"s,          // in doubt: a policy beyond the last
  };
  for (const std::string& content : kContents) {
    const auto decoded = decode(resealed(content));
    ASSERT_FALSE(decoded) << ::testing::PrintToString(content);
    EXPECT_EQ(decoded.error().code, Code::store_unusable);
    EXPECT_NE(decoded.error().message.find("damaged"), std::string::npos);
  }
}

TEST(RecordCodec, OrdersThatDoNotFitAreDamage) {
  using namespace std::string_literals;
  const std::string kContents[] = {
      "\x01\x02\x02"s,                  // a kind beyond the last
      "\x01\x05\x01x"s,                 // a nonce of one byte
      "\x01\x08\x01"s,                  // a name that is a number
      "\x01\x06\x01\x06\x01"s,          // a field twice
      "\x01\x13\x01x"s,                 // claims that are bytes
      "\x01\x12\xFF\xFF\xFF\xFF\x1F"s,  // claims beyond 32 bits
      "\x01\x0F\x01{"s,                 // a JSON result that is none
      "\x01\x0F\x01"
      "1\x11\x01"
      "1"s,  // two results
  };
  for (const std::string& content : kContents) {
    const auto decoded = decode_order(resealed(content));
    ASSERT_FALSE(decoded) << ::testing::PrintToString(content);
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
