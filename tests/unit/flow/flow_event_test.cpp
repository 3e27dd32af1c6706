// Events of runs as log entries: the bytes, that they are read back, and what is no event.
#include <gtest/gtest.h>

#include "flow/definition/event.h"
#include "once/json.h"
#include "unit/flow/flow_words.h"

namespace once::encoding {
namespace {

using core::FlowEvent;
using namespace core::flow_words;
using Kind = FlowEvent::Kind;

FlowEvent started() {
  FlowEvent event = event_from("started");
  event.version = 3;
  event.key = "o-1";
  event.value = R"({"order":{"id":"o-1"}})";
  return event;
}

FlowEvent unprotected() {
  FlowEvent event = started();
  event.key.reset();
  return event;
}

FlowEvent with_large_output() {
  FlowEvent event = event_from("charge completed 1");
  event.value.clear();
  event.value_place = core::FlowPlace{.queue = "pay", .key = "", .sequence = core::Sequence{17}};
  return event;
}

FlowEvent ended(const std::string& words, std::string value, std::string error) {
  FlowEvent event = event_from(words);
  event.value = std::move(value);
  event.error = std::move(error);
  return event;
}

FlowEvent by_name(FlowEvent signal) {
  signal.by_name = true;
  return signal;
}

const std::vector<std::pair<FlowEvent, std::string>>& examples_of_all() {
  static const std::vector<std::pair<FlowEvent, std::string>> all{
      {started(),
       R"({"input":{"order":{"id":"o-1"}},"key":"o-1","run":"r","version":3,"workflow":"payment"})"},
      {unprotected(),
       R"({"input":{"order":{"id":"o-1"}},"key":null,"run":"r","version":3,"workflow":"payment"})"},
      {event_from("charge completed 2"),
       R"({"n":2,"outcome":"completed","output":"charge","run":"r","step":"charge"})"},
      {event_from("charge failed 0"),
       R"({"error":"it broke","n":0,"outcome":"failed","run":"r","step":"charge"})"},
      {event_from("charge cancelled 1"),
       R"({"error":"it broke","n":1,"outcome":"cancelled","run":"r","step":"charge"})"},
      {event_from("paid timed_out 1"),
       R"({"error":"it broke","n":1,"outcome":"timed_out","run":"r","step":"paid"})"},
      {with_large_output(),
       R"({"n":1,"outcome":"completed","output_in":{"key":"","queue":"pay","sequence":17},"run":"r","step":"charge"})"},
      {event_from("signal paid tx.9"), R"({"body":"paid tx.9","run":"r","signal":"paid"})"},
      {by_name(event_from("signal paid tx.9")),
       R"({"body":"paid tx.9","id":"tx.9","run":"r","signal":"paid"})"},
      {event_from("rate_retry charge 2"), R"({"n":2,"run":"r","step":"charge"})"},
      {event_from("admit 4"), R"({"n":4,"run":"r"})"},
      {event_from("timer cool 1"), R"({"n":1,"run":"r","step":"cool"})"},
      {event_from("run timer 2"), R"({"n":2,"run":"r","step":null})"},
      {event_from("retried 2 mail=1 charge=3"),
       R"({"round":2,"run":"r","void":{"charge":3,"mail":1}})"},
      {event_from("retried 3"), R"({"round":3,"run":"r","void":{}})"},
      {ended("ended 1 completed", R"({"x":1})", ""),
       R"({"outcome":"completed","output":{"x":1},"round":1,"run":"r"})"},
      {ended("ended 2 failed", "", "step 'charge' failed: it \"broke\""),
       R"({"error":"step 'charge' failed: it \"broke\"","outcome":"failed","round":2,"run":"r","step":"charge"})"},
      {ended("ended 1 cancelled", "", "by ann"),
       R"({"error":"by ann","outcome":"cancelled","round":1,"run":"r"})"},
      {ended("ended 1 timed_out", "", "too late"),
       R"({"error":"too late","outcome":"timed_out","round":1,"run":"r"})"},
  };
  return all;
}

Result<FlowEvent> decoded(const FlowEvent& event, const Body& body) {
  return decode_event(core::event_id(event), core::event_topic(event.workflow, event.kind), body,
                      event.sequence, event.at);
}

TEST(FlowEvents, BodiesAreCanonical) {
  for (const auto& [event, text] : examples_of_all()) {
    const Body body = event_body(event);
    EXPECT_EQ(body.text(), text);
    EXPECT_TRUE(body.is_json());
    EXPECT_EQ(canonical_json(body.text()).value(), text);
  }
}

TEST(FlowEvents, AreReadBack) {
  for (const auto& [written, text] : examples_of_all()) {
    FlowEvent event = written;
    event.sequence = core::Sequence{23};
    event.at = Time(std::chrono::seconds(7));
    if (event.kind != Kind::started) event.version = 0;
    const auto read = decoded(event, event_body(event));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, event) << text;
  }
}

TEST(FlowEvents, ValuesBecomeCanonical) {
  const auto read = decoded(started(), Body::json(R"({"workflow":"payment", "version":3, "run":"r",
      "key":null, "later":true, "input":{"b":1.0, "a":[ ]}})")
                                           .value());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->value, R"({"a":[],"b":1})");
}

TEST(FlowEvents, NumbersStayReadable) {
  const auto read =
      decoded(event_from("signal paid"),
              Body::json(R"({"run":"r","signal":"paid","body":12345678901234567e4})").value());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(Body::json(read->value)) << read->value;
  EXPECT_TRUE(decoded(*read, event_body(*read)));
}

TEST(FlowEvents, WhatIsNoneSaysWhy) {
  struct Case {
    std::string_view id, topic, body, why;
  };
  constexpr Case kCases[] = {
      {"r.started", "orders.new", "{}", "its topic is orders.new"},
      {"r.started", "$once.flow.started", "{}", "its topic is $once.flow.started"},
      {"r.mapped.1", "$once.flow.p.mapped", "{}", "its topic is $once.flow.p.mapped"},
      {"r.admit.1", "$once.flow.p.admit", "[]", "\"run\" is missing"},
      {"r.admit.1", "$once.flow.p.admit", R"({"run":7,"n":1})", "\"run\" is missing"},
      {"r.admit.1", "$once.flow.p.admit", R"({"run":"r"})", "\"n\" is missing"},
      {"r.admit.0", "$once.flow.p.admit", R"({"run":"r","n":0})", "\"n\" is missing or not"},
      {"r.admit.1", "$once.flow.p.admit", R"({"run":"r","n":1.5})", "\"n\" is missing or not"},
      {"r.admit.1", "$once.flow.p.admit", R"({"run":"r","n":4294967296})",
       "\"n\" is missing or not"},
      {"r.admit.1", "$once.flow.p.admit", R"({"run":"r","n":2})", "its body is that of r.admit.2"},
      {"q.admit.1", "$once.flow.p.admit", R"({"run":"r","n":1})", "its body is that of r.admit.1"},
      {"r.signal", "$once.flow.p.signal", R"({"run":"r","signal":"s","body":1})",
       "its body is that of r.signal."},
      {"r.a.ended.1", "$once.flow.p.step", R"({"run":"r","step":"a","n":1,"outcome":"lost"})",
       "\"outcome\" is missing or not"},
      {"r.a.ended.1", "$once.flow.p.step", R"({"run":"r","step":"a","n":1,"outcome":"completed"})",
       "\"output\" is missing"},
      {"r.a.ended.1", "$once.flow.p.step",
       R"({"run":"r","step":"a","n":1,"outcome":"completed","output_in":{"queue":"q"}})",
       "\"output_in\" is missing or not"},
      {"r.a.ended.1", "$once.flow.p.step", R"({"run":"r","step":"a","n":1,"outcome":"failed"})",
       "\"error\" is missing"},
      {"r.retried.1", "$once.flow.p.retried", R"({"run":"r","round":1,"void":{}})",
       "\"round\" is missing or not"},
      {"r.retried.2", "$once.flow.p.retried", R"({"run":"r","round":2,"void":{"a":-1}})",
       "\"void\" is missing or not"},
  };
  for (const Case& wrong : kCases) {
    const auto read = decode_event(wrong.id, wrong.topic, Body::json(wrong.body).value(), {}, {});
    ASSERT_FALSE(read) << wrong.id << wrong.body;
    EXPECT_EQ(read.error().code, Code::invalid_input);
    EXPECT_NE(read.error().message.find(wrong.why), std::string::npos) << read.error().message;
  }
  EXPECT_FALSE(decode_event("r.admit.1", "$once.flow.p.admit", Body::bytes("{}"), {}, {}));
}

}  // namespace
}  // namespace once::encoding
