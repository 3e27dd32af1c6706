// Queue definitions as JSON: every field out, unknown ones ignored, missing ones by default.
#include <gtest/gtest.h>

#include <limits>

#include "codec/record_codec.h"
#include "json/json.h"
#include "once/json.h"

namespace once::encoding {
namespace {

Queue full() {
  return {.name = "ocr",
          .topic = "documents.*.new",
          .key = "{documentId}:\"ü\"",
          .key_format = KeyFormat::escaped,
          .lease = Duration{45'000},
          .timeout = Duration{600'000},
          .attempts = 5,
          .backoff = {Duration{1}, Duration{2'000}},
          .in_doubt = InDoubt::probe,
          .same_key = SameKey::ignore,
          .max_running = 3,
          .window = 64,
          .max_result = 1000,
          .from = 17,
          .paused = true,
          .stream = "ORDERS",
          .ledger = true};
}

TEST(QueueCodec, EveryFieldIsWritten) {
  EXPECT_EQ(
      encode_queue(full()),
      R"({"attempts":5,"backoff":[1,2000],"from":17,"in_doubt":"probe",)"
      R"("key":"{documentId}:\"ü\"","lease":45000,"ledger":true,"max_result":1000,"max_running":3,)"
      R"("name":"ocr","paused":true,"same_key":"ignore","stream":"ORDERS","timeout":600000,)"
      R"("topic":"documents.*.new","window":64})");
  EXPECT_EQ(encode_queue({}),
            R"({"attempts":0,"backoff":[],"from":null,"in_doubt":"retry","key":"","lease":30000,)"
            R"("ledger":false,"max_running":0,"name":"","paused":false,"same_key":"duplicate",)"
            R"("stream":"","timeout":0,"topic":"","window":0})");
}

TEST(QueueCodec, RoundTripsCanonically) {
  Queue extreme = full();
  extreme.from = std::numeric_limits<std::uint64_t>::max();
  extreme.lease = Duration::max();
  extreme.timeout = Duration::min();
  extreme.attempts = std::numeric_limits<int>::max();
  extreme.window = std::numeric_limits<int>::min();
  Queue exact = full();
  exact.from = 1ULL << 53;
  exact.lease = Duration{(1LL << 53) + 1};
  Queue steps = full();
  steps.in_doubt = InDoubt::steps;
  Queue hold = full();
  hold.in_doubt = InDoubt::hold;
  Queue plain = full();
  plain.key_format = KeyFormat::plain;
  for (const Queue& queue : {Queue(), full(), extreme, exact, steps, hold, plain}) {
    const std::string text = encode_queue(queue);
    const auto decoded = decode_queue(text);
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(*decoded, queue);
    EXPECT_EQ(*canonical_json(text), text);
  }
}

// Version 0.1 read a definition with these rules: it ignored a member that it did not know, and refused
// ("has a value that this once does not know") a "key" that was no string. So a template in the plain
// format must not be a string, and everything that 0.1 computes in the same way must stay one.
TEST(QueueCodec, Version01RefusesAPlainKeyAndReadsAllOthers) {
  const auto key_in = [](const Queue& queue) {
    const auto json = parse_json(encode_queue(queue)).value();
    return canonical(*json.member("key"));
  };
  EXPECT_EQ(key_in({.key = "order-{id}"}), R"({"plain":"order-{id}"})");
  EXPECT_EQ(key_in({.key = "order-{id}", .key_format = KeyFormat::escaped}), R"("order-{id}")");
  EXPECT_EQ(key_in({}), R"("")") << "a queue without a template has no format";
}

TEST(QueueCodec, AQueueOfVersion01KeepsItsFormat) {
  EXPECT_EQ(decode_queue(R"({"key":"{a}","name":"q"})")->key_format, KeyFormat::escaped);
  EXPECT_EQ(decode_queue(R"({"key":{"plain":"{a}"},"name":"q"})")->key_format, KeyFormat::plain);
  EXPECT_EQ(decode_queue(R"({"key":"","name":"q"})").value(), (Queue{.name = "q"}));
}

TEST(QueueCodec, LenientWithFieldsStrictWithValues) {
  const auto sparse = decode_queue(R"({"name":"q","topic":"t","of_a_newer_one":{"x":[1]}})");
  ASSERT_TRUE(sparse) << sparse.error().message;
  EXPECT_EQ(*sparse, (Queue{.name = "q", .topic = "t"}));

  constexpr std::pair<std::string_view, std::string_view> kRefused[] = {
      {R"({"in_doubt":"ask"})", "\"in_doubt\""},
      {R"({"same_key":1})", "\"same_key\""},
      {R"({"key":1})", "\"key\""},
      {R"({"key":{"plain":""}})", "\"key\""},
      {R"({"key":{"newer":"{a}"}})", "\"key\""},
      {R"({"key":{"newer":1,"plain":"{a}"}})", "\"key\""},
      {R"({"name":1})", "\"name\""},
      {R"({"attempts":1.5})", "\"attempts\""},
      {R"({"attempts":3000000000})", "\"attempts\""},
      {R"({"attempts":"x"})", "\"attempts\""},
      {R"({"attempts":""})", "\"attempts\""},
      {R"({"lease":true})", "\"lease\""},
      {R"({"lease":1e19})", "\"lease\""},
      {R"({"from":-1})", "\"from\""},
      {R"({"paused":1})", "\"paused\""},
      {R"({"ledger":"true"})", "\"ledger\""},
      {R"({"stream":true})", "\"stream\""},
      {R"({"backoff":5})", "\"backoff\""},
      {R"({"backoff":[1,null]})", "\"backoff\""},
      {"[]", "no JSON object"},
      {"{", "JSON refused"},
  };
  for (const auto& [text, hint] : kRefused) {
    const auto decoded = decode_queue(text);
    ASSERT_FALSE(decoded) << text;
    EXPECT_EQ(decoded.error().code, Code::store_unusable);
    EXPECT_NE(decoded.error().message.find(hint), std::string::npos) << decoded.error().message;
  }
}

}  // namespace
}  // namespace once::encoding
