// The builder gives the JSON that people would write: it is tested where that is read.
#include <gtest/gtest.h>

#include "flow/definition/definition.h"
#include "once/json.h"
#include "once/workflow.h"

namespace once {
namespace {

using namespace std::chrono_literals;

Body json(std::string_view text) { return Body::json(text).value(); }

Workflow payment() {
  Workflow flow("payment", 3);
  flow.idempotency_key("order.id")
      .run_unprotected_without_key()
      .key_ttl(12h)
      .timeout(2h)
      .max_runs(50)
      .default_retry({.attempts = 3, .wait = 1h, .jitter = 0.05})
      .output(Input::path("steps.receipt"))
      .step({.id = "charge",
             .task = "pay.charge",
             .queue = "pay",
             .input = Input::object()
                          .with("order", "input.order.id")
                          .with("coupon", "input.coupon", json("null"))
                          .with_value("currency", json("\"EUR\"")),
             .retry = RetryPolicy{.attempts = 5,
                                  .backoff = RetryPolicy::Backoff::linear,
                                  .wait = 2s,
                                  .cap = 1min,
                                  .jitter = 0},
             .timeout = 1min,
             .skip_if = R"({"path": "input.order.total", "equals": 0})",
             .on_failure = "refund",
             .rate = RateLimit{.limit = 10, .per = 1min}})
      .step({.id = "refund", .task = "pay.refund"})
      .step({.id = "settled", .depends_on = {"charge"}, .timeout = 168h, .signal = "bank_settled"})
      .step({.id = "cool", .depends_on = {"settled"}, .skip_if = "input.quick", .sleep = 10min})
      .step({.id = "review", .depends_on = {"cool"}, .approval = "Send the goods?"})
      .step({.id = "receipt", .task = "mail.receipt", .depends_on = {"review", "charge"}});
  return flow;
}

TEST(WorkflowBuilder, WritesWhatPeopleWouldWrite) {
  const auto built = payment().json();
  ASSERT_TRUE(built) << built.error().message;
  EXPECT_EQ(*built, canonical_json(R"({
    "name": "payment", "version": 3,
    "idempotency_key": "order.id", "on_missing_key": "run_unprotected",
    "key_ttl": "12h", "timeout": "2h", "max_runs": 50,
    "default_retry": {"attempts": 3, "backoff": "exponential", "wait": "1h", "cap": "1h", "jitter": 0.05},
    "output": "steps.receipt",
    "steps": [
      {"id": "charge", "task": "pay.charge", "queue": "pay",
       "input": {"order": "input.order.id", "coupon": {"path": "input.coupon", "default": null},
                 "currency": {"value": "EUR"}},
       "retry": {"attempts": 5, "backoff": "linear", "wait": "2s", "cap": "1m", "jitter": 0},
       "timeout": "1m", "skip_if": {"path": "input.order.total", "equals": 0},
       "on_failure": "refund", "rate": {"limit": 10, "per": "1m"}},
      {"id": "refund", "task": "pay.refund"},
      {"id": "settled", "signal": "bank_settled", "depends_on": ["charge"], "timeout": "7d"},
      {"id": "cool", "sleep": "10m", "depends_on": ["settled"], "skip_if": "input.quick"},
      {"id": "review", "approval": "Send the goods?", "depends_on": ["cool"]},
      {"id": "receipt", "task": "mail.receipt", "depends_on": ["review", "charge"]}]})")
                        .value());
}

TEST(WorkflowBuilder, WhatItWroteIsReadAsItWasMeant) {
  const auto parsed = encoding::parse_definition(payment().json().value());
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->definition.timeout, 2h);
  const auto charge = core::index_of(parsed->definition, "charge").value();
  EXPECT_EQ(parsed->definition.steps[charge].retry->cap, 1min);
  EXPECT_EQ(parsed->definition.steps[charge].rate->limit, 10);
}

TEST(WorkflowBuilder, IsCheckedAsAFileIs) {
  const auto built = Workflow("n").step({.id = "a", .task = "t", .depends_on = {"b"}}).json();
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, Code::invalid_input);
  EXPECT_EQ(built.error().message,
            "workflow 'n': step 'a': depends on 'b', which is no step; nothing was made");
  EXPECT_FALSE(Workflow("n").json());
  EXPECT_FALSE(Workflow("n", 0).step({.id = "a", .task = "t"}).json());
}

TEST(WorkflowBuilder, WhatIsNoTextOrJsonIsToldByItsName) {
  const auto built =
      Workflow("n").step({.id = "a", .task = "t", .skip_if = R"({"path":"input", })"}).json();
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, Code::invalid_input);
  EXPECT_TRUE(built.error().message.starts_with(
      "workflow 'n': step 'a': skip_if: JSON refused at 1:18 (byte 17, $"))
      << built.error().message;
  EXPECT_TRUE(built.error().message.ends_with("; nothing was made")) << built.error().message;
  EXPECT_EQ(Workflow("n").step({.id = "a", .task = "t\xff"}).json().error().message,
            "workflow 'n': some name or text is not UTF-8; nothing was made");
}

TEST(WorkflowBuilder, AnInputIsAPathOrAnObjectOfJson) {
  const auto with_input = [](Input input) {
    return Workflow("n").step({.id = "a", .task = "t", .input = std::move(input)}).json();
  };
  const auto bytes = with_input(Input::object().with_value("x", Body::bytes("1")));
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().message, "workflow 'n': 'x' is bytes, not JSON; nothing was made");
  EXPECT_EQ(with_input(Input::object().with("x", "run").with("x", "input")).error().message,
            "workflow 'n': an input has 'x' twice; nothing was made");
  EXPECT_FALSE(with_input(Input::path("input").with("x", "run")));
  EXPECT_TRUE(with_input(Input::object()));
}

}  // namespace
}  // namespace once
