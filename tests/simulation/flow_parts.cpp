#include "simulation/flow_parts.h"

#include "flow/definition/definition.h"

namespace once::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

void FlowParts::pause(Process& process, std::int64_t most) {
  process.sleep(milliseconds{world_.random().between(1, most)});
}

template <class Call, class Stands>
bool FlowParts::ask(Process& process, Call call, Stands stands) {
  while (!process.dead()) {
    const auto answer = call();
    if (process.dead()) break;
    if (answer || stands(answer.error())) return true;
    pause(process, 500);
  }
  return false;
}

bool FlowParts::open(Process& process, Desk& desk) {
  const auto parsed = encoding::parse_definition(plan_.flow.definition());
  if (!parsed) {
    world_.broken("F4: the workflow is refused: " + parsed.error().message);
    return false;
  }
  const auto never = [](const Error&) { return false; };
  return ask(
             process, [&] { return desk.run_store.make_event_queue(); }, never) &&
         ask(
             process, [&] { return desk.run_store.add(*parsed); }, never);
}

std::optional<std::string> FlowParts::start_one(Process& process, Desk& desk, const Order& order) {
  using Asked = FlowWitness::Asked;
  std::string run;
  const auto start = [&](Asked asked) {
    auto answer = desk.starter.start(
        {.workflow = "order",
         .input = *Body::json(asked == Asked::same ? order.input() : order.other_input())});
    if (!process.dead()) witness_.answered(process, order, asked, answer);
    if (answer) run = answer->run;
    return answer;
  };
  if (!ask(
          process, [&] { return start(Asked::same); }, [](const Error&) { return false; }))
    return std::nullopt;
  // Now it has a run: then another input is a conflict.
  if (world_.random().chance(0.2)) static_cast<void>(start(Asked::other_input));
  return process.dead() ? std::nullopt : std::optional(run);
}

bool FlowParts::start(Process& process, store::Store& store) {
  Desk desk(store, process);
  if (!open(process, desk)) return false;
  std::vector<Order> orders = plan_.orders;
  while (!orders.empty()) {
    const std::size_t which = world_.random().below(orders.size());
    if (!start_one(process, desk, orders[which])) return false;
    if (!world_.random().chance(0.3)) orders.erase(orders.begin() + static_cast<long>(which));
    if (!calm_) pause(process, 4000);
  }
  return !process.dead();
}

bool FlowParts::signal(Process& process, store::Store& store) {
  Desk desk(store, process);
  if (!open(process, desk)) return false;
  while (plan_.patient && !signals_ && !process.dead()) process.sleep(seconds{1});
  for (const Order& order : plan_.orders) {
    if (!calm_) pause(process, 8000);
    const auto run = start_one(process, desk, order);
    const auto signal = [&](const char* id, std::string_view body) {
      return ask(
          process,
          [&] {
            auto sent = desk.control.signal(*run, "paid", *Body::json(body), id, {.who = "bank"});
            if (sent && (sent->first.id != "first" || sent->counts != (sent->first.id == id)))
              world_.broken("F7: signal " + std::string(id) + " of " + *run + " is told that " +
                            sent->first.id + " counts");
            return sent;
          },
          [](const Error& error) { return error.code == Code::wrong_state; });
    };
    if (!run || !signal("first", testing::kPaid)) return false;
    if (world_.random().chance(0.3) && !signal("second", "\"other\"")) return false;
  }
  return !process.dead();
}

bool FlowParts::cancel(Process& process, store::Store& store) {
  Desk desk(store, process);
  if (!open(process, desk)) return false;
  if (!calm_) pause(process, 20'000);
  const auto run = start_one(process, desk, plan_.orders.front());
  return run && ask(
                    process, [&] { return desk.control.cancel(*run, {.who = "person"}); },
                    [](const Error& error) { return error.code == Code::wrong_state; });
}

// What failed is retried, and what is over otherwise is done with.
bool FlowParts::retry(Process& process, store::Store& store) {
  Desk desk(store, process);
  if (!open(process, desk)) return false;
  for (const Order& order : plan_.orders) {
    const auto run = start_one(process, desk, order);
    if (!run) return false;
    while (true) {
      const auto state = witness_.state_of(*run);
      if (state == State::completed || state == State::cancelled) break;
      if (state == State::dead) static_cast<void>(desk.control.retry(*run, {.who = "person"}));
      pause(process, 2000);
      if (process.dead() || process.stop().stop_requested()) return false;
    }
  }
  return true;
}

}  // namespace once::sim
