// A workflow that is built in C++, with its runner and its workers in one process.
//
//   example_workflow STORE
//
// A payment is charged, then a receipt is sent. The first charge fails and is retried. The order is
// the idempotency key: a second start with the same order is the same run, and a start with another
// amount is refused.
#include <once/once.h>

#include <iostream>
#include <string>
#include <thread>

namespace {

once::Workflow payment() {
  once::Workflow workflow("payment");
  workflow.idempotency_key("order.id")
      .default_retry(
          {.attempts = 3, .backoff = once::RetryPolicy::Backoff::fixed, .wait = once::Duration{10}})
      .step({.id = "charge", .task = "pay.charge", .input = once::Input::path("input.order")})
      .step({.id = "receipt",
             .task = "mail.receipt",
             .depends_on = {"charge"},
             .input = once::Input::object().with("charge", "steps.charge")})
      .output(
          once::Input::object().with("charge", "steps.charge").with("receipt", "steps.receipt"));
  return workflow;
}

once::Outcome charge(once::Context& context) {
  if (context.attempt() == 1) return once::Outcome::failed("the bank does not answer");
  std::cout << "charge " << context.task().body.at("amount").value() << " in attempt "
            << context.attempt() << std::endl;
  return once::Outcome::completed(once::Body::json(R"("pay_1")").value());
}

once::Outcome receipt(once::Context& context) {
  std::cout << "receipt for " << context.task().body.at("charge").value() << std::endl;
  return once::Outcome::completed(once::Body::json(R"("sent")").value());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: example_workflow STORE\n";
    return 2;
  }
  auto zone = once::Zone::open(argv[1]).value();
  zone.queues().add({.name = "payments", .topic = "pay.*"}).value();
  zone.queues().add({.name = "mails", .topic = "mail.*"}).value();
  auto flows = zone.flows();
  flows.add(payment()).value();

  auto runner = flows.runner().value();
  auto payments = zone.worker("payments", charge).value();
  auto mails = zone.worker("mails", receipt).value();
  // A std::jthread requests a stop and joins in its destructor.
  std::jthread runs([&](std::stop_token stop) { runner.run(stop).value(); });
  std::jthread charges([&](std::stop_token stop) { payments.run(stop).value(); });
  std::jthread receipts([&](std::stop_token stop) { mails.run(stop).value(); });

  const auto order = once::Body::json(R"({"order":{"id":"17","amount":120}})").value();
  const auto changed = once::Body::json(R"({"order":{"id":"17","amount":999}})").value();
  const auto first = flows.start("payment", order).value();
  const auto second = flows.start("payment", order).value();
  std::cout << "second start: " << (second.run == first.run ? "the same run" : "another run")
            << std::endl;
  const auto refused = flows.start("payment", changed);
  if (!refused)
    std::cout << "changed start: " << to_string(refused.error().code) << " at "
              << refused.error().conflict->differs.value().front() << std::endl;

  const auto run = flows.wait(first.run, std::chrono::minutes{1}).value();
  std::cout << to_string(run.info.state) << ' ' << run.output.value().text() << std::endl;
}
