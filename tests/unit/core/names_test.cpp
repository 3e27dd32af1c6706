// Which ids, topics, filters, names, headers and queues are taken, which are refused, and which
// topics a filter matches.
#include "core/names.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/utf8.h"

namespace once::core {
namespace {

using namespace std::string_literals;

std::string times(std::size_t count, const std::string& part) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

struct Row {
  const char* what;
  std::string text;
  bool taken;
};

// A refusal is invalid input, is not worth a repeat, and says so in one line.
void expect_refused(const Result<void>& result, const std::string& what,
                    Code code = Code::invalid_input) {
  ASSERT_FALSE(result) << what;
  EXPECT_EQ(result.error().code, code) << what;
  EXPECT_FALSE(result.error().retryable) << what;
  EXPECT_FALSE(result.error().in_doubt) << what;
  EXPECT_FALSE(result.error().message.empty()) << what;
  EXPECT_EQ(result.error().message.find('\n'), std::string::npos) << what;
}

template <std::size_t N, class Check>
void check_rows(const Row (&rows)[N], Check check) {
  for (const Row& row : rows) {
    const Result<void> result = check(row.text);
    if (row.taken)
      EXPECT_TRUE(result) << row.what << ": " << result.error().message;
    else
      expect_refused(result, row.what);
  }
}

TEST(Names, Id) {
  const Row rows[] = {
      {"one byte", "a", true},
      {"a UUID", "018f4e3a-9c1b-7c1e-8a57-1f2e3d4c5b6a", true},
      {"spaces and dots", "order 17.pdf", true},
      {"other scripts", "Größe-注文-🎈", true},
      {"1,024 bytes", times(1024, "x"), true},
      {"1,024 bytes in two-byte characters", times(512, "é"), true},
      {"empty", "", false},
      {"1,025 bytes", times(1025, "x"), false},
      {"a line break", "a\nb", false},
      {"a zero byte", "a\0b"s, false},
      {"a delete", "a\x7F", false},
      {"half a character", "a\xC3", false},
      {"Latin-1", "Gr\xF6\xDF\x65", false},
  };
  check_rows(rows, check_id);
}

TEST(Names, Topic) {
  const Row rows[] = {
      {"one part", "orders", true},
      {"several parts", "orders.eu.created", true},
      {"other signs", "orders-2/eu:x_1", true},
      {"a dollar that is not ours", "$orders.once", true},
      {"begins like ours", "$oncemore.x", true},
      {"other scripts", "aufträge.größe", true},
      {"512 bytes", times(512, "x"), true},
      {"empty", "", false},
      {"513 bytes", times(513, "x"), false},
      {"starts with a dot", ".a", false},
      {"ends with a dot", "a.", false},
      {"an empty part", "a..b", false},
      {"a space", "a b", false},
      {"a tab", "a\tb", false},
      {"a star as a part", "a.*", false},
      {"a star inside", "a*", false},
      {"a rest", "a.>", false},
      {"ours", "$once.wake", false},
      {"ours, bare", "$once", false},
      {"not UTF-8", "a.\xFF", false},
  };
  check_rows(rows, check_topic);
}

TEST(Names, Filter) {
  const Row rows[] = {
      {"a topic", "orders.eu", true},
      {"a star", "orders.*", true},
      {"a star first", "*.created", true},
      {"only stars", "*.*", true},
      {"the rest", "orders.>", true},
      {"everything", ">", true},
      {"both", "*.eu.>", true},
      {"empty", "", false},
      {"the rest in the middle", "orders.>.x", false},
      {"a star inside a part", "ord*", false},
      {"a rest inside a part", "orders.a>", false},
      {"two rests", ">.>", false},
      {"an empty part", "a..>", false},
      {"a space", "a. .b", false},
      {"513 bytes", times(511, "x") + ".>", false},
  };
  check_rows(rows, check_filter);
}

TEST(Names, Name) {
  const Row rows[] = {
      {"letters, digits, signs", "mail_OUT-2", true},
      {"one", "q", true},
      {"64", times(64, "q"), true},
      {"empty", "", false},
      {"65", times(65, "q"), false},
      {"a dot", "a.b", false},
      {"a space", "a b", false},
      {"an umlaut", "Aufträge", false},
      {"a slash", "a/b", false},
  };
  check_rows(rows, [](std::string_view text) { return check_name(text, "queue"); });
  EXPECT_EQ(check_name("a.b", "queue").error().message,
            "queue name 'a.b': 1 to 64 of A-Z a-z 0-9 _ - are allowed");
}

TEST(Names, HeaderNames) {
  const Row rows[] = {
      {"plain", "Trace-Id", true},
      {"other signs", "x_1.y/z", true},
      {"begins like ours without the dash", "Oncey", true},
      {"empty", "", false},
      {"a colon", "a:b", false},
      {"a space", "a b", false},
      {"not ASCII", "Größe", false},
      {"of NATS", "Nats-Msg-Id", false},
      {"ours", "Once-Nonce", false},
      {"ours, other case", "oNCE-x", false},
      {"of NATS, other case", "nats-x", false},
  };
  check_rows(rows, [](const std::string& name) { return check_headers({{name, "v"}}); });
}

TEST(Names, HeaderValues) {
  const Row rows[] = {
      {"plain", "a value: with signs", true}, {"empty", "", true},
      {"other scripts", "größe", true},       {"a line break", "a\r\nX: y", false},
      {"not UTF-8", "\xC3", false},
  };
  check_rows(rows, [](const std::string& value) { return check_headers({{"Name", value}}); });
}

TEST(Names, HeadersHaveAnUpperLimitTogether) {
  const std::string half(kMaxHeaders / 2 - 1, 'v');
  EXPECT_TRUE(check_headers({}));
  EXPECT_TRUE(check_headers({{"a", half}, {"b", half}}));
  expect_refused(check_headers({{"a", half}, {"b", half + "v"}}), "one byte more", Code::too_large);
}

// A ledger-only queue is fed by loops of one's own: what speaks of deliveries and workers is
// refused.
TEST(Names, LedgerOnlyQueue) {
  struct LedgerRow {
    const char* what;
    Queue queue;
    std::string_view refusal;  // empty: fine
  };
  constexpr std::string_view kNoDelivery =
      "queue mail: a ledger-only queue takes no topic, key or from: nothing is delivered to it";
  constexpr std::string_view kNoWorker =
      "queue mail: a ledger-only queue takes no max-running, window, timeout or pause: its loops "
      "run by "
      "themselves";
  constexpr std::string_view kNobodyToAsk =
      "queue mail: a ledger-only queue takes in-doubt retry or hold: it has no worker to ask";
  const LedgerRow rows[] = {
      {"plain", {.name = "mail", .ledger = true}, ""},
      {"retry", {.name = "mail", .in_doubt = InDoubt::retry, .ledger = true}, ""},
      {"hold", {.name = "mail", .in_doubt = InDoubt::hold, .ledger = true}, ""},
      {"with attempts", {.name = "mail", .attempts = 9, .ledger = true}, ""},
      {"a topic", {.name = "mail", .topic = "mail.>", .ledger = true}, kNoDelivery},
      {"a key", {.name = "mail", .key = "{id}", .ledger = true}, kNoDelivery},
      {"from", {.name = "mail", .from = 1, .ledger = true}, kNoDelivery},
      {"max-running", {.name = "mail", .max_running = 1, .ledger = true}, kNoWorker},
      {"window", {.name = "mail", .window = 1, .ledger = true}, kNoWorker},
      {"timeout", {.name = "mail", .timeout = Duration{60'000}, .ledger = true}, kNoWorker},
      {"paused", {.name = "mail", .paused = true, .ledger = true}, kNoWorker},
      {"steps", {.name = "mail", .in_doubt = InDoubt::steps, .ledger = true}, kNobodyToAsk},
      {"probe", {.name = "mail", .in_doubt = InDoubt::probe, .ledger = true}, kNobodyToAsk},
      {"the rest is checked, too",
       {.name = "mail", .lease = Duration{1}, .ledger = true},
       "queue mail: the lease must be between 100ms and a year"},
  };
  for (const LedgerRow& row : rows) {
    const Result<void> result = check_queue(row.queue);
    EXPECT_EQ(result ? "" : result.error().message, row.refusal) << row.what;
  }
}

TEST(Names, Queue) {
  const Duration year = std::chrono::hours{24 * 365};
  const Duration more = year + Duration{1};
  struct QueueRow {
    const char* what;
    Queue queue;
    bool taken;
  };
  const Queue good{.name = "mail", .topic = "mail.>"};
  const auto with = [&](auto change) {
    Queue queue = good;
    change(queue);
    return queue;
  };
  const QueueRow rows[] = {
      {"as it comes", good, true},
      {"no name", with([](Queue& q) { q.name = ""; }), false},
      {"no topic", with([](Queue& q) { q.topic = ""; }), false},
      {"a bad filter", with([](Queue& q) { q.topic = "a.>.b"; }), false},
      {"the shortest lease", with([](Queue& q) { q.lease = Duration{100}; }), true},
      {"a shorter lease", with([](Queue& q) { q.lease = Duration{99}; }), false},
      {"the longest lease", with([&](Queue& q) { q.lease = year; }), true},
      {"a longer lease", with([&](Queue& q) { q.lease = more; }), false},
      {"the longest timeout", with([&](Queue& q) { q.timeout = year; }), true},
      {"a longer timeout", with([&](Queue& q) { q.timeout = more; }), false},
      {"a timeout below zero", with([](Queue& q) { q.timeout = Duration{-1}; }), false},
      {"most attempts", with([](Queue& q) { q.attempts = 1'000'000; }), true},
      {"more attempts", with([](Queue& q) { q.attempts = 1'000'001; }), false},
      {"attempts below zero", with([](Queue& q) { q.attempts = -1; }), false},
      {"retried at once", with([](Queue& q) { q.backoff = {Duration{0}}; }), true},
      {"most backoff values", with([](Queue& q) { q.backoff.resize(100); }), true},
      {"more backoff values", with([](Queue& q) { q.backoff.resize(101); }), false},
      {"a backoff below zero", with([](Queue& q) { q.backoff = {Duration{-1}}; }), false},
      {"the longest backoff", with([&](Queue& q) { q.backoff = {year}; }), true},
      {"a longer backoff", with([&](Queue& q) {
         q.backoff = {Duration{1}, more};
       }),
       false},
      {"most running", with([](Queue& q) { q.max_running = 1024; }), true},
      {"more running", with([](Queue& q) { q.max_running = 1025; }), false},
      {"largest result", with([](Queue& q) { q.max_result = 256 << 20; }), true},
      {"larger result", with([](Queue& q) { q.max_result = (256 << 20) + 1; }), false},
      {"running below zero", with([](Queue& q) { q.max_running = -1; }), false},
      {"the widest window", with([](Queue& q) { q.window = 10'000; }), true},
      {"a wider window", with([](Queue& q) { q.window = 10'001; }), false},
      {"a window below zero", with([](Queue& q) { q.window = -1; }), false},
  };
  for (const QueueRow& row : rows) {
    const Result<void> result = check_queue(row.queue);
    if (row.taken)
      EXPECT_TRUE(result) << row.what << ": " << result.error().message;
    else
      expect_refused(result, row.what);
  }
}

// Messages go out as JSON too, so they must be UTF-8 whatever the text was, and wherever it is cut.
TEST(Names, QueueOnAStreamOfOthers) {
  const Queue good{.name = "q", .topic = ">", .key = "header:Nats-Msg-Id", .stream = "ORDERS"};
  EXPECT_TRUE(check_queue(good));
  Queue without_key = good;
  without_key.key.clear();
  EXPECT_FALSE(check_queue(without_key));
  Queue alone{.name = "q", .stream = "ORDERS", .ledger = true};
  EXPECT_FALSE(check_queue(alone));
  for (const std::string& name :
       {std::string("a.b"), std::string("a b"), std::string("a*"), std::string(">"),
        std::string("a/b"), std::string("a\\b"), std::string("a\n"), std::string(256, 'a')}) {
    Queue bad = good;
    bad.stream = name;
    EXPECT_FALSE(check_queue(bad)) << name;
  }
}

TEST(Names, ATaskOfAStreamIsNamedAfterItsPlace) {
  EXPECT_EQ(stream_task_id("ORDERS", 17), "ORDERS:17");
  EXPECT_EQ(sequence_in("ORDERS", "ORDERS:17"), 17U);
  for (const char* other : {"ORDERS", "ORDERS:", "ORDERS:0", "ORDERS:017", "ORDERS:17a", "ORDER:17",
                            "ORDERS17", "ORDERS:99999999999999999999"})
    EXPECT_FALSE(sequence_in("ORDERS", other)) << other;
}

TEST(Names, AMessageIsUtf8EvenWhenTheTextIsNot) {
  const std::pair<const char*, std::string> rows[] = {
      {"half a character", "a\xC3"},
      {"Latin-1", "Gr\xF6\xDF\x65"},
      {"too long, two-byte characters", times(1025, "é")},
      {"too long, two-byte characters from the second byte on", "x" + times(1025, "é")},
      {"too long, four-byte characters", times(1025, "🎈")},
      {"too long, four-byte characters from the second byte on", "x" + times(1025, "🎈")},
  };
  for (const auto& [what, text] : rows)
    for (const Result<void>& refused : {check_id(text), check_topic(text), check_filter(text),
                                        check_name(text, "queue"), check_headers({{text, "v"}})}) {
      ASSERT_FALSE(refused) << what;
      EXPECT_TRUE(valid_utf8(refused.error().message)) << what << ": " << refused.error().message;
    }
}

TEST(Names, AFilterMatchesTopicsAsInNats) {
  struct MatchRow {
    const char* filter;
    const char* topic;
    bool matches;
  };
  const MatchRow rows[] = {
      {"a.b", "a.b", true},    {"a.b", "a.c", false},    {"a.b", "a", false},
      {"a.b", "a.b.c", false}, {"a.b", "A.b", false},    {"ab", "abc", false},
      {"abc", "ab", false},    {"*", "a", true},         {"*", "a.b", false},
      {"a.*", "a.b", true},    {"a.*", "a", false},      {"a.*", "a.b.c", false},
      {"*.b", "a.b", true},    {"*.b", "a.c", false},    {"a.*.c", "a.b.c", true},
      {"a.*.c", "a.c", false}, {">", "a", true},         {">", "a.b.c", true},
      {"a.>", "a.b", true},    {"a.>", "a.b.c", true},   {"a.>", "a", false},
      {"a.>", "b.c", false},   {"a.>", "ab.c", false},   {"*.>", "a.b", true},
      {"*.>", "a", false},     {"a.*.>", "a.b.c", true}, {"a.*.>", "a.b", false},
  };
  for (const MatchRow& row : rows)
    EXPECT_EQ(matches(row.filter, row.topic), row.matches) << row.filter << " on " << row.topic;
}

// A queue of anybody's would run Once's own events.
TEST(Names, AFilterCoversFiltersThatMatchNoMore) {
  for (const auto& [filter, other] :
       {std::pair("a.b", "a.b"), std::pair("a.*", "a.b"), std::pair("a.*", "a.*"),
        std::pair("a.>", "a.>"), std::pair("a.>", "a.*"), std::pair("a.>", "a.b.>"),
        std::pair(">", ">"), std::pair(">", "*"), std::pair("*.>", "a.>"), std::pair("*.*", "a.*")})
    EXPECT_TRUE(covers(filter, other)) << filter << ' ' << other;
  for (const auto& [filter, other] :
       {std::pair("a.*", "a.>"), std::pair("a.b", "a.*"), std::pair("a.b", "a.>"),
        std::pair("a.>", ">"), std::pair("a.>", "*.>"), std::pair("a.>", "a"), std::pair("*", ">"),
        std::pair("*.*", "*.>"), std::pair(">", "$once.a"), std::pair("a.>", "b.>")})
    EXPECT_FALSE(covers(filter, other)) << filter << ' ' << other;
}

TEST(Names, TopicsOfOncesOwnAreMatchedOnlyByFiltersOfItsOwn) {
  for (const char* filter : {">", "*.>", "*.flow.>", "*.*.*", "*.flow.x", "*"})
    for (const char* topic : {"$once.flow.x", "$once.flow", "$once"})
      EXPECT_FALSE(matches(filter, topic)) << filter << " on " << topic;
  for (const char* filter : {"$once.>", "$once.flow.>", "$once.*.x", "$once.flow.x"})
    EXPECT_TRUE(matches(filter, "$once.flow.x")) << filter;
  EXPECT_FALSE(matches("$once.>", "flow.x"));
  for (const char* alike : {"$oncer.flow.x", "once.flow.x", "a.$once.x", "$ONCE.flow.x"}) {
    EXPECT_TRUE(matches(">", alike)) << alike;
    EXPECT_FALSE(own_topic(alike)) << alike;
  }
}

TEST(Names, QueuesOfOncesOwn) {
  for (const std::string_view name :
       {kFlowQueue, kFlowsLedger, kRunsLedger, kKeysLedger, kValuesLedger})
    EXPECT_TRUE(own_queue(name)) << name;
  for (const char* other : {"", "once", "once-", "once-flowers", "flow", "Once-flow"})
    EXPECT_FALSE(own_queue(other)) << other;
}

TEST(Names, AFilterOfOncesOwnIsForItsOwnQueues) {
  for (const char* filter : {"$once", "$once.>", "$once.flow.>", "$once.flow.*.started"}) {
    expect_refused(check_queue({.name = "mine", .topic = filter}), filter);
    EXPECT_TRUE(check_queue({.name = "once-flow", .topic = filter})) << "as it is when it is set";
    EXPECT_TRUE(check_queue({.name = "theirs", .topic = filter, .key = "{a}", .stream = "ORDERS"}))
        << "a subject of somebody's stream is no topic";
  }
  EXPECT_TRUE(check_queue({.name = "mine", .topic = "$oncer.>"}));
}

TEST(Names, Utf8) {
  const Row rows[] = {
      {"nothing", "", true},
      {"ASCII", "abc", true},
      {"two, three and four bytes", "é€𝄞", true},
      {"the first of two bytes", "\xC2\x80", true},
      {"the first of three bytes", "\xE0\xA0\x80", true},
      {"the first of four bytes", "\xF0\x90\x80\x80", true},
      {"the last before the surrogates", "\xED\x9F\xBF", true},
      {"the first after the surrogates", "\xEE\x80\x80", true},
      {"the last of all", "\xF4\x8F\xBF\xBF", true},
      {"a continuation alone", "\x80", false},
      {"cut after one of two", "a\xC3", false},
      {"cut after two of three", "\xE2\x82", false},
      {"cut after three of four", "\xF0\x9D\x84", false},
      {"a lead in place of a continuation", "\xC3\xC3", false},
      {"ASCII in place of a continuation", "\xE2\x82x", false},
      {"two bytes for one", "\xC1\xBF", false},
      {"three bytes for two", "\xE0\x9F\xBF", false},
      {"four bytes for three", "\xF0\x8F\xBF\xBF", false},
      {"the first surrogate", "\xED\xA0\x80", false},
      {"the last surrogate", "\xED\xBF\xBF", false},
      {"beyond the last", "\xF4\x90\x80\x80", false},
      {"five bytes", "\xF8\x88\x80\x80\x80", false},
      {"FE and FF", "\xFE\xFF", false},
  };
  for (const Row& row : rows) EXPECT_EQ(valid_utf8(row.text), row.taken) << row.what;
}

}  // namespace
}  // namespace once::core
