#include "simulation/scenario.h"

#include <algorithm>
#include <utility>

namespace once::sim {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using Way = WorkerPlan::Way;

Duration millis(Random& random, std::int64_t low, std::int64_t high) {
  return Duration{random.between(low, high)};
}

Queue draw_queue(Random& random, std::size_t number) {
  Queue queue{.name = number == 0 ? "q" : "r"};
  queue.topic = random.pick({">", "a.>", "a.*"});
  if (random.chance(0.4)) queue.key = "{k}";
  queue.lease = millis(random, 1000, 6000);
  if (random.chance(0.3)) queue.timeout = millis(random, 1000, 8000);
  queue.attempts = static_cast<int>(random.between(1, 4));
  queue.backoff = {millis(random, 50, 1500), millis(random, 200, 3000)};
  queue.in_doubt =
      random.pick({InDoubt::retry, InDoubt::retry, InDoubt::steps, InDoubt::hold, InDoubt::probe});
  if (random.chance(0.2)) queue.same_key = SameKey::ignore;
  if (random.chance(0.3)) queue.max_running = static_cast<int>(random.between(1, 3));
  if (queue.in_doubt == InDoubt::retry && random.chance(0.3))
    queue.window = static_cast<int>(random.between(1, 3));
  return queue;
}

std::vector<Publication> draw_publications(Random& random, std::size_t count, std::size_t ids) {
  std::vector<Publication> all;
  for (std::size_t i = 0; i < count; ++i) {
    Publication made{.id = "t" + std::to_string(random.below(ids))};
    const std::size_t number = std::stoul(made.id.substr(1));
    made.content = random.chance(0.1) ? 1 : 0;
    made.topic = number % 5 == 4 ? "b.y" : "a.x";
    const std::string value = std::to_string(number % 7 + (made.content > 0 ? 100 : 0));
    // Some share their key with others, with the same or with other content; some have none.
    const std::string key = number % 9 == 8 ? "" : "\"k\":\"k" + std::to_string(number % 7) + "\",";
    made.body = "{" + key + "\"v\":" + value +
                (number % 4 == 3 ? ",\"w\":" + std::to_string(number) : "") + "}";
    if (random.chance(0.15)) made.delay = millis(random, 100, 8000);
    if (random.chance(0.15)) made.lives = made.delay + millis(random, 100, 12'000);
    all.push_back(std::move(made));
  }
  return all;
}

Weather draw_weather(Random& random) {
  const auto some = [&](double most) { return random.chance(0.4) ? 0 : most * random.unit(); };
  return {.dies = some(0.03),
          .freezes = some(0.006),
          .away = some(0.1),
          .lost = some(0.15),
          .late = some(0.05),
          .half = some(0.1),
          .slow = some(0.06),
          .unclaimed = random.chance(0.3) ? 1.0 : some(0.5),
          .twice = some(0.4),
          .forgotten = random.chance(0.1) ? 0.1 : 0};
}

// Steps are tried as often as they say themselves, whatever their queue says. Nobody decides about
// them, and what ages here ages late: how a run ends is fixed.
void add_flow(Random& random, Scenario& drawn) {
  drawn.flow = draw_flow(random);
  if (!drawn.publishers.empty()) drawn.flow->patient = false;
  drawn.queues.push_back(
      {.name = kOrderQueue,
       .topic = testing::kOrderTopics,
       .lease = millis(random, 1000, 6000),
       .attempts = static_cast<int>(random.between(1, 2 * testing::kHopelessAttempts)),
       .backoff = {millis(random, 50, 1500)}});
  const std::size_t workers = static_cast<std::size_t>(random.between(1, 2));
  for (std::size_t i = 0; i < workers; ++i)
    drawn.workers.push_back({.queue = kOrderQueue,
                             .concurrency = static_cast<std::size_t>(random.between(1, 3)),
                             .way = i == 0
                                        ? Way::until_stopped
                                        : random.pick({Way::until_stopped, Way::one_at_a_time})});
  // What two do at once about one run goes wrong when one of them is slow.
  if (random.chance(0.4)) drawn.weather.slow = 0.3 * random.unit();
  drawn.longest_slow =
      std::max({drawn.longest_slow, drawn.flow->lease * 3 / 2, drawn.queues.back().lease * 3 / 2});
  drawn.ages = {.bodies = hours{4}, .records = hours{4}, .ids = hours{48}};
  drawn.late = false;
}

// A worker that is idle keeps its slots. So the workers want few of them.
void leave_slots(Random& random, const Queue& queue, std::vector<WorkerPlan>& workers) {
  bool sweeps = true;  // the first worker of the queue
  for (WorkerPlan& worker : workers) {
    if (worker.queue != queue.name) continue;
    worker.concurrency = 1;
    if (!std::exchange(sweeps, false) && random.chance(0.7)) worker.way = Way::one_at_a_time;
  }
}

void add_pullers(Random& random, Scenario& drawn) {
  for (Queue& queue : drawn.queues) {
    if (queue.max_running > 0 || random.chance(0.2)) {
      queue.max_running = static_cast<int>(random.between(1, 4));
      leave_slots(random, queue, drawn.workers);
    }
    const auto count = random.between(1, 2);
    for (std::int64_t i = 0; i < count; ++i)
      drawn.pullers.push_back({.queue = queue.name,
                               .offers = static_cast<std::size_t>(random.between(1, 3)),
                               .can_probe = random.chance(0.9)});
  }
}

}  // namespace

Scenario draw_scenario(Random& random, With with) {
  Scenario drawn;
  const std::size_t queues = random.chance(0.3) ? 2 : 1;
  for (std::size_t i = 0; i < queues; ++i) drawn.queues.push_back(draw_queue(random, i));
  const std::size_t ids = static_cast<std::size_t>(random.between(2, 12));
  const std::size_t publishers = static_cast<std::size_t>(random.between(1, 2));
  for (std::size_t i = 0; i < publishers; ++i)
    drawn.publishers.push_back(
        draw_publications(random, static_cast<std::size_t>(random.between(2, 12)), ids));
  // The first worker of each queue is the one that sweeps.
  const std::size_t workers = static_cast<std::size_t>(random.between(1, 3));
  for (const Queue& queue : drawn.queues)
    for (std::size_t i = 0; i < workers; ++i)
      drawn.workers.push_back({.queue = queue.name,
                               .concurrency = static_cast<std::size_t>(random.between(1, 3)),
                               .can_probe = random.chance(0.9),
                               .way = i == 0
                                          ? Way::until_stopped
                                          : random.pick({Way::until_stopped, Way::until_stopped,
                                                         Way::until_empty, Way::one_at_a_time})});
  drawn.person = random.chance(0.6);
  if (!random.chance(0.1)) drawn.weather = draw_weather(random);
  drawn.presence = random.chance(0.5);
  drawn.store_speed = random.chance(0.6) ? 1000 : random.between(600, 1600);
  for (const Queue& queue : drawn.queues)
    drawn.longest_slow = std::max(drawn.longest_slow, queue.lease * 3 / 2);
  drawn.storm = millis(random, 5000, 30'000);
  drawn.steps = random.chance(0.6) ? static_cast<int>(random.between(1, 3)) : 0;
  drawn.ages = {.bodies = seconds{240}, .records = seconds{240}, .ids = hours{24}};
  drawn.late = random.chance(0.2);
  if (with == With::pullers) add_pullers(random, drawn);
  if (with != With::flows) return drawn;
  if (random.chance(0.8)) {  // nothing but them
    drawn.queues.clear();
    drawn.publishers.clear();
    drawn.workers.clear();
    drawn.person = false;
  }
  add_flow(random, drawn);
  return drawn;
}

}  // namespace once::sim
