#include "simulation/simulation.h"

#include <algorithm>

#include "api/access.h"
#include "core/names.h"
#include "simulation/flow_handlers.h"
#include "simulation/handlers.h"

namespace once::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kLongEnough = minutes{120};  // for everything to settle once nothing goes wrong
// The same of runs: before somebody looks for starts that were left behind.
constexpr Duration kRunsLongEnough = minutes{28};

Task task_of(const Publication& publication, Time now) {
  Task task{
      .topic = publication.topic, .id = publication.id, .body = *Body::json(publication.body)};
  if (publication.delay > Duration{0}) task.not_before = now + publication.delay;
  if (publication.lives) task.expires = now + *publication.lives;
  return task;
}

// The queue of events as runners make it, with a lease that is over sooner.
Queue events_queue(const FlowPlan& plan) {
  return {.name = std::string(core::kFlowQueue),
          .topic = "$once.flow.>",
          .lease = plan.lease,
          .attempts = 1'000'000,
          .backoff = {milliseconds{200}, seconds{1}, seconds{5}},
          .in_doubt = InDoubt::retry,
          .window = 8};
}

}  // namespace

Simulation::Simulation(std::uint64_t seed, Trace::Detail detail, With with)
    : world_(seed, detail),
      scenario_(draw_scenario(world_.random(), with)),
      zone_(world_, scenario_.store_speed),
      witness_(world_, zone_, scenario_.queues) {
  zone_.witness = &witness_;
  zone_.weather = scenario_.weather;
  zone_.presence = scenario_.presence;
  zone_.longest_slow = scenario_.longest_slow;
  for (const Queue& queue : scenario_.queues) static_cast<void>(zone_.inner->add_queue(queue));
  static_cast<void>(zone_.inner->set_retention(scenario_.ages));
  if (!scenario_.flow) return;
  static_cast<void>(zone_.inner->add_queue(events_queue(*scenario_.flow)));
  flows_.emplace(world_, zone_, *scenario_.flow);
  flow_parts_.emplace(world_, *scenario_.flow, *flows_, calm_);
  witness_.set_flows(*flows_);
}

void Simulation::run() {
  for (std::size_t i = 0; i < scenario_.publishers.size(); ++i)
    add_part("publisher" + std::to_string(i), [this, i](Part& part, Process& process,
                                                        SimStore& store) {
      publish(part, process, store, scenario_.publishers[i]);
    }).ends = true;
  for (std::size_t i = 0; i < scenario_.workers.size(); ++i)
    add_part("worker" + std::to_string(i), [this, i](Part&, Process& process, SimStore& store) {
      work(process, store, scenario_.workers[i]);
    });
  memories_.resize(scenario_.pullers.size());
  for (std::size_t i = 0; i < scenario_.pullers.size(); ++i)
    add_part("puller" + std::to_string(i), [this, i](Part&, Process& process, SimStore& store) {
      pull(process, store, scenario_.pullers[i], memories_[i]);
    });
  if (scenario_.person)
    add_part("person",
             [this](Part&, Process& process, SimStore& store) { decide(process, store); });
  if (flows_) add_flow_parts();
  storm();
  calm_down();
  if (flows_ && !violation()) start_when_keys_are_kept();
  stop_all();
  if (flows_ && !violation()) flows_->check_the_end();
  // A client that had no answer was told nothing.
  for (const PullerMemory& memory : memories_)
    for (const auto& unsettled : memory.unsettled) witness_.puller_told(unsettled.token);
  if (!violation()) witness_.check_the_end();
  if (flows_ && !violation()) start_when_keys_expired();
  if (!violation() && scenario_.late) grow_old();
}

// --- Parts ----------------------------------------------------------------------------------

Simulation::Part& Simulation::add_part(std::string name,
                                       std::function<void(Part&, Process&, SimStore&)> life) {
  parts_.push_back(std::make_unique<Part>(Part{.name = std::move(name), .life = std::move(life)}));
  begin(*parts_.back());
  return *parts_.back();
}

void Simulation::add_flow_parts() {
  const FlowPlan& plan = *scenario_.flow;
  for (std::size_t i = 0; i < plan.runners; ++i)
    add_part("runner" + std::to_string(i),
             [this](Part&, Process& process, SimStore& store) { run_flows(process, store); });
  for (std::size_t i = 0; i < plan.starters; ++i)
    add_flow_part("starter" + std::to_string(i), &FlowParts::start);
  add_flow_part("signaller", &FlowParts::signal);
  if (plan.cancelled) add_flow_part("canceller", &FlowParts::cancel);
  if (plan.retried) add_flow_part("retrier", &FlowParts::retry);
}

Simulation::Part& Simulation::add_flow_part(std::string name, OperatorAction action) {
  Part& part =
      add_part(std::move(name), [this, action](Part& me, Process& process, SimStore& store) {
        me.done = ((*flow_parts_).*action)(process, store);
      });
  part.ends = true;
  return part;
}

void Simulation::begin(Part& part) {
  Random& random = world_.random();
  const std::int64_t speed = random.chance(0.7) ? 1000 : random.between(500, 2000);
  processes_.push_back(
      std::make_unique<Process>(world_, part.name + "." + std::to_string(++part.lives), speed));
  Process& process = *processes_.back();
  stores_.push_back(std::make_unique<SimStore>(zone_, process));
  part.process = &process;
  process.on_end = [this, &part] {
    part.process = nullptr;
    if (part.done || ending_) return;
    world_.after(milliseconds{world_.random().between(10, 2000)}, [this, &part] {
      if (!ending_ && !part.process) begin(part);
    });
  };
  world_.trace().note(world_.now(), process.name(), "begins its life",
                      static_cast<std::uint64_t>(speed),
                      [&] { return "at speed " + std::to_string(speed); });
  process.start([&part, &process, &store = *stores_.back()] { part.life(part, process, store); });
}

// --- Publishers -----------------------------------------------------------------------------

// Who begins anew after a death knows nothing of before, and publishes everything again.
void Simulation::publish(Part& part, Process& process, SimStore& store,
                         const std::vector<Publication>& publications) {
  engine::Publisher publisher(store, process);
  Random& random = world_.random();
  std::vector<std::unique_ptr<engine::Activity>> others;
  for (std::size_t next = 0; next < publications.size() && !process.dead();) {
    const std::size_t count = std::min(publications.size() - next, 1 + random.below(3));
    std::vector<Publication> some(publications.begin() + static_cast<std::ptrdiff_t>(next),
                                  publications.begin() + static_cast<std::ptrdiff_t>(next + count));
    next += count;
    if (random.chance(0.3)) {
      others.push_back(
          process.spawn([this, &process, &publisher, some = std::move(some)]() mutable {
            static_cast<void>(publish_some(process, publisher, std::move(some)));
          }));
    } else if (!publish_some(process, publisher, std::move(some))) {
      break;
    }
    if (!calm_) process.sleep(milliseconds{random.between(0, 2000)});
  }
  others.clear();
  if (!process.dead()) part.done = true;
}

bool Simulation::publish_some(Process& process, engine::Publisher& publisher,
                              std::vector<Publication> some) {
  while (!some.empty()) {
    std::vector<Task> tasks;
    for (const Publication& each : some) tasks.push_back(task_of(each, zone_.inner->wall()));
    const auto answers = publisher.publish(std::move(tasks));
    if (process.dead()) return false;
    std::vector<Publication> again;
    for (std::size_t i = 0; i < some.size(); ++i) {
      witness_.answered(process, some[i].id, some[i].content, answers[i]);
      const bool stands = answers[i] || answers[i].error().code == Code::conflicting_duplicate;
      if (!stands || world_.random().chance(0.1)) again.push_back(some[i]);
    }
    some = std::move(again);
    if (!some.empty()) process.sleep(milliseconds{world_.random().between(1, 500)});
    if (process.dead()) return false;
  }
  return true;
}

bool Simulation::all_done() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->done || !part->ends; });
}

// --- Workers --------------------------------------------------------------------------------

void Simulation::work(Process& process, SimStore& store, const WorkerPlan& plan) {
  const Queue& queue = *std::find_if(scenario_.queues.begin(), scenario_.queues.end(),
                                     [&](const Queue& each) { return each.name == plan.queue; });
  Handlers handlers(process, witness_, queue, scenario_.steps, calm_);
  std::optional<FlowHandlers> of_steps;
  if (flows_ && plan.queue == kOrderQueue) of_steps.emplace(process, witness_, *flows_, calm_);
  engine::WorkerSettings settings{.queue = queue,
                                  .handler =
                                      [&](const engine::TaskAttempt& task_attempt) {
                                        return of_steps ? of_steps->handle(task_attempt)
                                                        : handlers.handle(task_attempt);
                                      },
                                  .concurrency = plan.concurrency,
                                  .name = process.name(),
                                  .on_fenced =
                                      [&](std::string_view id) {
                                        if (!process.dead()) witness_.told_fenced(process, id);
                                      },
                                  .grace = Duration{500}};
  if (plan.can_probe)
    settings.probe = [&](const engine::TaskAttempt& task_attempt) {
      return handlers.probe(task_attempt);
    };
  auto worker = engine::Worker::make(store, process, std::move(settings));
  if (!worker) return;  // and another process tries
  working_[&process] = worker->get();
  const Result<void> ended = drive(**worker, process, plan.way);
  working_.erase(&process);
  if (!ended && !process.dead()) witness_.worker_failed(process);
}

Result<void> Simulation::drive(engine::Worker& worker, Process& process, WorkerPlan::Way way) {
  using Until = engine::Worker::Until;
  const std::stop_token stop = process.stop().get_token();
  if (way == WorkerPlan::Way::until_stopped) return worker.run(Until::stopped, stop);
  if (way == WorkerPlan::Way::until_empty) return worker.run(Until::empty, stop);
  while (!stop.stop_requested()) {
    const auto ran = worker.run_one();
    if (!ran && (!ran.error().retryable || ran.error().in_doubt)) return ran.error();
    if (!ran || !*ran) process.sleep(milliseconds{200});
  }
  return {};
}

void Simulation::pull(Process& process, SimStore& store, const PullerPlan& plan,
                      PullerMemory& memory) {
  const Queue& queue = *std::find_if(scenario_.queues.begin(), scenario_.queues.end(),
                                     [&](const Queue& each) { return each.name == plan.queue; });
  auto consumer = engine::Consumer::make(
      store, process,
      {.queue = queue, .name = process.name(), .can_probe = plan.can_probe, .keeps_house = false});
  if (!consumer) return;  // and another process tries
  Puller(process, witness_, queue, plan, **consumer, memory, scenario_.steps, calm_).run();
}

void Simulation::run_flows(Process& process, SimStore& store) {
  auto runner = engine::FlowRunner::make(
      store, process, {.concurrency = scenario_.flow->concurrency, .name = process.name()});
  if (!runner) return;  // and another process tries
  static_cast<void>((*runner)->run(engine::Worker::Until::stopped, process.stop().get_token()));
}

// --- People ---------------------------------------------------------------------------------

void Simulation::decide(Process& process, SimStore&) {
  Zone zone = detail::Access::zone_on(std::make_unique<SimStore>(zone_, process));
  while (!process.dead() && !calm_ && !process.stop().stop_requested()) {
    process.sleep(milliseconds{world_.random().between(200, 3000)});
    if (process.dead() || calm_) break;
    deciding_ = true;
    decide_about_one(process, zone);
    deciding_ = false;
  }
  while (!process.stop().stop_requested() && !process.dead()) process.sleep(seconds{1});
}

void Simulation::decide_about_one(Process& process, Zone& zone) {
  Random& random = world_.random();
  const Queue& queue = scenario_.queues[random.below(scenario_.queues.size())];
  if (flows_ && queue.name == kOrderQueue) return;  // how steps end is fixed
  const auto page = zone_.inner->rows({.queue = queue.name}, nullptr, 1000);
  if (page->rows.empty()) return;
  std::vector<store::Row> rows;
  for (const store::Row& row : page->rows) {
    const State state = store::state_of(row, zone_.inner->now());
    if (state == State::dead || state == State::in_doubt || random.chance(0.1)) rows.push_back(row);
  }
  if (rows.empty()) return;
  const store::Row row = rows[random.below(rows.size())];
  const std::string tag = "#" + std::to_string(++tags_);
  const By by{.who = "person", .why = tag};
  const std::string step =
      row.stored && !row.stored->record.steps.empty() ? row.stored->record.steps.back().name : "s0";
  const auto which = random.below(10);
  bool promised = false;
  bool done = false;
  if (which < 5) {
    promised = done = static_cast<bool>(zone.tasks().retry(row.entry.id, queue.name, by));
  } else if (which < 6) {
    promised = done = static_cast<bool>(
        zone.tasks().complete_step(row.entry.id, queue.name, step, Body::bytes("person"), by));
  } else if (which < 7) {
    done = static_cast<bool>(zone.tasks().complete(row.entry.id, queue.name, {}, by));
  } else if (which < 8) {
    done = static_cast<bool>(zone.tasks().drop(row.entry.id, queue.name, by));
  } else {
    done = static_cast<bool>(zone.tasks().cancel(row.entry.id, queue.name, by));
  }
  if (process.dead()) return;
  world_.trace().note(world_.now(), process.name(), "decides", which * 2 + (done ? 1 : 0), [&] {
    static constexpr std::string_view kActions[] = {"retry",  "retry",         "retry",    "retry",
                                                    "retry",  "complete_step", "complete", "drop",
                                                    "cancel", "cancel"};
    return std::string(kActions[which]) + " " + row.entry.id + " in " + queue.name + " " + tag +
           (done ? "" : ": refused");
  });
  if (promised) witness_.promised(queue.name, row.entry.id, tag);
}

// --- The storm, and after -------------------------------------------------------------------

void Simulation::storm() {
  const Instant end = world_.now() + scenario_.storm;
  while (world_.now() < end && !violation()) {
    const Instant next = world_.now() + milliseconds{world_.random().between(100, 3000)};
    bool reached = false;
    world_.at(next, [&] { reached = true; });
    world_.run_until([&] { return reached; }, next);
    if (!violation()) strike();
  }
}

// What comes from outside of all calls.
void Simulation::strike() {
  Random& random = world_.random();
  const bool deadly = scenario_.weather.dies > 0;
  Process* const victim = parts_[random.below(parts_.size())]->process;
  const auto which = random.below(9);
  const auto note = [&](std::string_view what) {
    world_.trace().note(world_.now(), victim ? victim->name() : "the world", what, which,
                        [] { return ""; });
  };
  if (victim && !victim->dead() && which == 0 && deadly) {
    note("is killed");
    victim->die();
  } else if (victim && !victim->dead() && which == 1) {
    note("is asked to stop");
    victim->ask_to_stop();
  } else if (victim && !victim->dead() && which == 2 && working_.contains(victim)) {
    note("is interrupted");
    witness_.interrupted(*victim);
    const World::Undisturbed alone(world_);
    working_[victim]->interrupt();
  } else if (victim && !victim->dead() && which == 3 && scenario_.weather.freezes > 0) {
    note("is frozen");
    victim->freeze(random.between(1, 2) * zone_.longest_slow);
  } else if (which == 4 && scenario_.store_speed != 1000) {
    note("store clock jumps");
    zone_.clock->jump(Duration{random.between(-4000, 8000)});
  } else if (which == 6 && scenario_.weather.away > 0) {
    note("store goes away");
    zone_.away_until =
        world_.now() + milliseconds{random.between(100, 2 * zone_.longest_slow.count())};
  } else if (which == 5) {
    const auto queues = zone_.inner->queues();
    Queue queue = (*queues)[random.below(queues->size())];
    const Queue before = queue;
    queue.paused = !queue.paused;
    note(queue.paused ? "a queue is paused" : "a queue is resumed");
    static_cast<void>(zone_.inner->set_queue(queue, before));
    world_.notify_all(zone_.changed);
  }
}

void Simulation::calm_down() {
  calm_ = true;
  zone_.weather = {};
  zone_.away_until = {};
  for (const auto& process : processes_) process->thaw();
  const auto queues = zone_.inner->queues();
  for (const Queue& before : *queues) {
    Queue queue = before;
    queue.paused = false;
    static_cast<void>(zone_.inner->set_queue(queue, before));
  }
  world_.trace().note(world_.now(), "the world", "calms down", 0, [] { return ""; });
  // A slow runner may still have something to append to what seems to be over.
  if (flows_) static_cast<void>(wait_for([] { return false; }, zone_.longest_slow + seconds{2}));
  if (flows_ && scenario_.flow->patient) wait_long();
  const bool quiet = wait_for(
      [&] {
        return all_done() && !deciding_ && zone_.quiet() && witness_.all_settled() &&
               (!flows_ || flows_->all_over());
      },
      flows_ ? kRunsLongEnough : kLongEnough);
  if (quiet || violation()) return;
  if (flows_) flows_->check_the_end();
  witness_.check_the_end();
  world_.broken("P4: the publishers do not come to an end, or a delivery is not taken");
}

void Simulation::stop_all() {
  ending_ = true;
  for (const auto& part : parts_)
    if (part->process) part->process->ask_to_stop();
  if (!wait_for([&] { return all_ended(); }, minutes{10}))
    world_.broken("P4: a process that was asked to stop does not end");
}

void Simulation::grow_old() {
  const Duration ages[] = {scenario_.ages.bodies + seconds{1}, scenario_.ages.records + seconds{1},
                           scenario_.ages.ids / 2};
  for (const Duration age : ages) {
    zone_.clock->jump(age);
    static_cast<void>(engine::Housekeeper::retire(*zone_.inner, [] { return false; }));
    witness_.retired();
    ending_ = false;
    for (const auto& part : parts_) {
      part->done = false;
      begin(*part);
    }
    const bool done = wait_for([&] { return all_done(); }, kLongEnough);
    if (done) static_cast<void>(wait_for([] { return false; }, seconds{2}));
    stop_all();
    if (violation()) return;
    witness_.check_after_ageing();
  }
}

// --- Runs that wait, and keys ---------------------------------------------------------------

void Simulation::wait_long() {
  static_cast<void>(wait_for([] { return false; }, minutes{1}));
  zone_.clock->jump(scenario_.ages.bodies + scenario_.ages.records + seconds{1});
  static_cast<void>(engine::Housekeeper::retire(*zone_.inner, [] { return false; }));
  witness_.retired();
  start_late();
  flow_parts_->let_signals_come();
}

void Simulation::start_late() {
  const Part& part = add_flow_part("latecomer", &FlowParts::start);
  static_cast<void>(wait_for([&] { return part.done; }, kLongEnough));
}

void Simulation::start_when_keys_are_kept() {
  const Duration left = flows_->keys_kept_until() - zone_.inner->now() - minutes{1};
  if (left < Duration{0}) return;
  zone_.clock->jump(left);
  start_late();
}

void Simulation::start_when_keys_expired() {
  zone_.clock->jump(scenario_.flow->flow.key_ttl + seconds{1});
  flows_->keys_expired();
  ending_ = false;
  start_late();
  stop_all();
}

bool Simulation::all_ended() const {
  return std::all_of(processes_.begin(), processes_.end(),
                     [](const auto& process) { return process->ended(); });
}

bool Simulation::wait_for(const std::function<bool()>& so, Duration limit) {
  Instant look = world_.now();
  const auto looked = [&] {
    if (world_.now() < look) return false;
    look = world_.now() + milliseconds{100};
    return so();
  };
  return world_.run_until(looked, world_.now() + limit) || (!violation() && so());
}

}  // namespace once::sim
