// A whole zone on a server of the test's own, in real time: publishers, workers, and what is seen of
// tasks afterwards; and workers that are never heard of again.
#pragma once

#include "core/decide.h"
#include "once/once.h"
#include "unit/nats/bare_stream.h"
#include "unit/nats/nats_world.h"
#include "work/housekeeper.h"

namespace once::store::nats {

class ZoneWorld : public NatsWorld {
 protected:
  void SetUp() override {
    NatsWorld::SetUp();
    if (!IsSkipped()) zone_.emplace(Zone::open(server().url() + "/test").value());
  }
  Zone& zone() { return *zone_; }
  Bare bare() { return Bare(server().url()); }

  // Its name is q, and its topic t.
  void add_queue(Queue queue) {
    queue.name = "q";
    if (queue.topic.empty() && !queue.ledger) queue.topic = "t";
    if (queue.backoff.empty()) queue.backoff = {10ms};
    zone().queues().add(queue).value();
  }
  // What the server does not answer is asked again: a restarted one needs a moment.
  template <class Call>
  static auto answered(Call call) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (true) {
      auto answer = call();
      if (answer || !answer.error().retryable || std::chrono::steady_clock::now() > deadline)
        return answer;
    }
  }
  Result<Receipt> publish_task(const std::string& id, const std::string& json = "null",
                               const std::string& topic = "t") {
    return answered([&] {
      return zone().publish({.topic = topic, .id = id, .body = Body::json(json).value()});
    });
  }
  void publish_tasks(int count) {
    for (int i = 0; i < count; ++i) publish_task(std::to_string(i)).value();
  }

  // What a worker's sweeper does once a minute; how many it found.
  std::uint64_t sweep() {
    Sequence floor{};
    return engine::Housekeeper::sweep(store(), "q", floor, [] { return false; }).value();
  }
  Worker worker(std::function<Outcome(Context&)> handler, std::string name = "worker") {
    return zone().worker("q", std::move(handler), {.name = std::move(name)}).value();
  }
  // Runs all there is; the ids in the order of their runs.
  std::vector<std::string> run_all() {
    std::vector<std::string> ran;
    worker([&](Context& context) {
      ran.push_back(context.task().id);
      return Outcome::completed();
    })
        .run_until_empty()
        .value();
    return ran;
  }
  // A worker that is handed a task, claims it, and dies.
  Delivery claimed_by_one_that_dies(const Queue& queue) {
    Delivery delivery = fetch("q", 30s).at(0);
    const core::Claim claim{.sequence = delivery.entry.sequence,
                            .digest = delivery.entry.digest,
                            .worker = "dies",
                            .nonce = task("").nonce};
    const auto decided = core::decide(nullptr, claim, core::policy_of(queue),
                                      {.store = store().now(), .wall = store().wall()});
    const Swap item{.at = {.queue = "q", .key = delivery.entry.id, .sequence = claim.sequence},
                    .record = decided.next.value()};
    EXPECT_TRUE(swap(item).value().written);
    return delivery;
  }

  QueueView view(const std::string& id) {
    return answered([&] { return zone().tasks().inspect(id); }).value().queues.at(0);
  }
  std::vector<std::string> outcomes(const std::string& id) {
    std::vector<std::string> all;
    for (const AttemptView& attempt : view(id).attempts)
      all.emplace_back(to_string(attempt.outcome));
    return all;
  }

  // The consumer that Once has made on a stream of its own, by its name at the server.
  std::string consumer_on(const std::string& stream) {
    return raw("CONSUMER.NAMES." + stream, "").member("consumers")->items().at(0).string();
  }
  void remove_consumer(const std::string& stream) {
    ASSERT_FALSE(raw("CONSUMER.DELETE." + stream + "." + consumer_on(stream), "").member("error"));
  }

 private:
  std::optional<Zone> zone_;
};

}  // namespace once::store::nats
