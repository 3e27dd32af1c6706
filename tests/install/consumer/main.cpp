// A program of somebody else's: publishes, runs, looks, and sees a failure thrown by the library.
#include <once/once.h>
#include <once/testing.h>

#include <cstdlib>
#include <iostream>

namespace {

void expect(bool truth, const char* what) {
  if (truth) return;
  std::cerr << "consumer: not so: " << what << '\n';
  std::exit(1);
}

}  // namespace

int main() {
  auto clock = std::make_shared<once::testing::VirtualClock>();
  once::Zone zone = once::Zone::open("memory:", {.clock = clock}).value();
  expect(zone.queues().add({.name = "orders", .topic = "orders.>"}).value() == 0, "an empty log");

  const once::Task task{
      .topic = "orders.new", .id = "o-1", .body = once::Body::json(R"({"amount": 12})").value()};
  expect(!zone.publish(task).value().duplicate, "the first publish is new");
  expect(zone.publish(task).value().duplicate, "the second is a duplicate");

  expect(zone.publish_async(task).get().value().duplicate, "a future gets the same result");
  expect(zone.tasks().inspect("o-2").transform([](const auto&) { return 1; }).value_or(0) == 0,
         "an error has a default");

  int runs = 0;
  once::Worker worker = zone.worker("orders",
                                    [&](once::Context& context) {
                                      ++runs;
                                      return once::Outcome::completed(context.task().body);
                                    })
                            .value();
  expect(worker.run_one().value(), "one task is claimable");
  expect(!worker.run_one().value(), "only one");
  expect(runs == 1, "it ran once");

  bool thrown = false;
  try {
    once::canonical_json("{").value();
  } catch (const once::Failure& failure) {
    thrown = failure.error().code == once::Code::invalid_input;
  }
  expect(thrown, "a failure is caught by its type");

  std::cout << once::version() << '\n';
}
