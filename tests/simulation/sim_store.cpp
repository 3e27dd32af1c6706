#include "simulation/sim_store.h"

#include <algorithm>

#include "simulation/witness.h"
#include "store/memory/memory_store.h"

namespace once::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using store::Delivery;

Error gone() {
  return {.code = Code::not_found, .message = "this process is dead: nothing was done"};
}
Error away() {
  return {.code = Code::store_unavailable,
          .message = "the store is away; nothing was done: call again",
          .retryable = true};
}
Error unknown() {
  return {.code = Code::outcome_unknown,
          .message = "the answer was lost; it may have been done: call again",
          .retryable = true,
          .in_doubt = true};
}

// Lets the engine claim some of what it is handed, as a store does that cannot claim by itself.
class PickyClaimer final : public store::Claimer {
 public:
  PickyClaimer(store::Claimer& claimer, Random& random, double unclaimed)
      : claimer_(claimer), random_(random), unclaimed_(unclaimed) {}
  std::optional<store::Address> address(const store::Entry& entry) override {
    return claimer_.address(entry);
  }
  std::optional<core::Record> claim(const store::Entry& entry, const core::Stored* stored,
                                    const core::Order* order, core::Now now) override {
    if (random_.chance(unclaimed_)) return std::nullopt;
    return claimer_.claim(entry, stored, order, now);
  }

 private:
  store::Claimer& claimer_;
  Random& random_;
  const double unclaimed_;
};

// Of a process that may die: then the store sees it at once, after a while, or never.
class SimMembership final : public store::Membership {
 public:
  SimMembership(SimZone& zone, Process& process, std::unique_ptr<store::Membership> inner)
      : zone_(zone), process_(process), inner_(std::move(inner)) {}
  ~SimMembership() override {
    process_.leave();
    if (process_.dead() && !zone_.presence) {
      zone_.lingering.push_back(std::move(inner_));
    } else {
      inner_.reset();
      zone_.world.notify_all(zone_.changed);
    }
  }
  SimMembership(const SimMembership&) = delete;
  SimMembership& operator=(const SimMembership&) = delete;
  core::Member number() const override { return inner_->number(); }
  int inheritable_fd() const override { return -1; }

 private:
  SimZone& zone_;
  Process& process_;
  std::unique_ptr<store::Membership> inner_;
};

}  // namespace

SimZone::SimZone(World& its_world, std::int64_t clock_speed)
    : world(its_world),
      clock(std::make_shared<SimClock>(its_world, clock_speed)),
      inner(store::open_memory(clock)) {}

void SimZone::later(std::function<void()> write) {
  ++writes_on_the_way;
  world.after(milliseconds{world.random().between(1, longest_slow.count())},
              [this, write = std::move(write)] {
                --writes_on_the_way;
                write();
                world.notify_all(changed);
              });
}

// --- One call -------------------------------------------------------------------------------

SimStore::Fate SimStore::send(std::string_view what, std::uint64_t number) {
  if (process_.dead()) return Fate::dies_before;
  Random& random = zone_.world.random();
  const Weather& weather = zone_.weather;
  Fate fate = Fate::well;
  const auto strikes = [&](double probability, Fate its_fate) {
    if (fate == Fate::well && probability > 0 && random.chance(probability)) fate = its_fate;
  };
  if (zone_.world.now() < zone_.away_until) fate = Fate::away;
  strikes(weather.dies / 2, Fate::dies_before);
  strikes(weather.dies / 2, Fate::dies_after);
  strikes(weather.away, Fate::away);
  strikes(weather.lost / 2, Fate::call_lost);
  strikes(weather.lost / 2, Fate::answer_lost);
  strikes(weather.late, Fate::late);
  strikes(weather.half, Fate::half);
  if (weather.freezes > 0 && random.chance(weather.freezes))
    process_.freeze(random.between(1, 3) * zone_.longest_slow);
  static constexpr std::string_view kFates[] = {"",
                                                ": dies before",
                                                ": dies after",
                                                ": away",
                                                ": call lost",
                                                ": answer lost",
                                                ": arrives late",
                                                ": half done"};
  Trace& trace = zone_.world.trace();
  const std::uint64_t noted = number * 16 + static_cast<std::uint64_t>(fate);
  if (fate == Fate::well && !trace.tells_everything()) {
    trace.note(zone_.world.now(), process_.name(), what, noted);
  } else {
    trace.note(zone_.world.now(), process_.name(), what, noted, [&] {
      return "(" + std::to_string(number) + ")" +
             std::string(kFates[static_cast<std::size_t>(fate)]);
    });
  }
  travel();
  if (fate == Fate::dies_before) process_.die();
  return process_.dead() ? Fate::dies_before : fate;
}

bool SimStore::arrives(Fate fate) {
  if (fate == Fate::dies_after) {
    process_.die();
  } else if (zone_.world.random().chance(0.3)) {
    travel();
  }
  return !process_.dead();
}

void SimStore::travel() {
  Random& random = zone_.world.random();
  const bool slow = zone_.weather.slow > 0 && random.chance(zone_.weather.slow);
  const auto longest = std::chrono::duration_cast<microseconds>(zone_.longest_slow).count();
  process_.sleep(microseconds{slow ? random.between(3000, longest) : random.between(50, 3000)});
}

template <class Apply>
auto SimStore::undisturbed(Apply apply) {
  const World::Undisturbed alone(zone_.world);
  return apply();
}

template <class Apply>
auto SimStore::read_call(std::string_view what, Apply apply) -> decltype(apply()) {
  const Fate fate = send(what, 0);
  if (fate == Fate::dies_before) return gone();
  if (fate == Fate::away || fate == Fate::call_lost || fate == Fate::answer_lost) return away();
  auto answer = undisturbed(apply);
  if (!arrives(fate)) return gone();
  return answer;
}

template <class Apply>
auto SimStore::read_batch(std::string_view what, std::size_t count, Apply apply)
    -> decltype(apply()) {
  const auto all = [&](const Error& error) { return decltype(apply())(count, error); };
  const Fate fate = send(what, count);
  if (fate == Fate::dies_before) return all(gone());
  if (fate == Fate::away || fate == Fate::call_lost || fate == Fate::answer_lost)
    return all(away());
  auto answers = undisturbed(apply);
  if (!arrives(fate)) return all(gone());
  return answers;
}

// `later` does the same without its sender, who has given up.
template <class Apply, class Later>
auto SimStore::write_call(std::string_view what, Apply apply, Later later) -> decltype(apply()) {
  const Fate fate = send(what, 0);
  if (fate == Fate::dies_before) return gone();
  if (fate == Fate::away) return away();
  if (fate == Fate::late) {
    zone_.later(later);
  } else if (fate != Fate::call_lost) {
    auto answer = undisturbed(apply);
    zone_.world.notify_all(zone_.changed);
    if (!arrives(fate)) return gone();
    if (fate == Fate::well) return answer;
  }
  if (!arrives(Fate::well)) return gone();
  return unknown();
}

template <class T, class Item, class Apply>
std::vector<Result<T>> SimStore::write_batch(std::string_view what, std::span<const Item> items,
                                             Apply apply) {
  const auto all = [&](const Error& error) {
    return std::vector<Result<T>>(items.size(), Result<T>(error));
  };
  Random& random = zone_.world.random();
  const Fate fate = send(what, items.size());
  if (fate == Fate::dies_before) return all(gone());
  if (fate == Fate::away) return all(away());
  std::vector<Result<T>> answers = all(unknown());
  if (fate == Fate::late) {
    zone_.later([apply, copies = std::vector<Item>(items.begin(), items.end())] {
      static_cast<void>(apply(std::span<const Item>(copies)));
    });
  } else if (fate != Fate::call_lost) {
    const std::size_t some = fate == Fate::half ? random.below(items.size() + 1) : items.size();
    auto done = undisturbed([&] { return apply(items.first(some)); });
    zone_.world.notify_all(zone_.changed);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const bool heard = fate == Fate::half ? random.chance(0.5) : fate != Fate::answer_lost;
      if (heard) answers[i] = i < some ? std::move(done[i]) : Result<T>(away());
    }
  }
  if (!arrives(fate)) return all(gone());
  return answers;
}

// --- Log ------------------------------------------------------------------------------------

std::vector<Result<store::AppendResult>> SimStore::append(std::span<const store::Append> items) {
  return write_batch<store::AppendResult>("append", items, [&zone = zone_](auto some) {
    auto answers = zone.inner->append(some);
    for (std::size_t i = 0; i < some.size(); ++i)
      if (answers[i] && answers[i]->verdict == core::AppendVerdict::accepted)
        zone.witness->appended(some[i]);
    return answers;
  });
}

Result<std::vector<store::Entry>> SimStore::read(core::Sequence after, std::size_t limit,
                                                 std::string_view filter) {
  return read_call("read", [&] { return zone_.inner->read(after, limit, filter); });
}

Result<std::optional<store::Entry>> SimStore::find(std::string_view id) {
  return read_call("find", [&] { return zone_.inner->find(id); });
}

Result<std::optional<store::Entry>> SimStore::entry(std::string_view queue,
                                                    core::Sequence sequence) {
  return read_call("entry", [&] { return zone_.inner->entry(queue, sequence); });
}

// --- Ledger ---------------------------------------------------------------------------------

std::vector<Result<store::SwapResult>> SimStore::swap(std::span<const store::Swap> items) {
  return write_batch<store::SwapResult>(
      "swap", items,
      [&zone = zone_, &process = process_](auto some) { return swap_now(zone, process, some); });
}

std::vector<Result<store::SwapResult>> SimStore::swap_now(SimZone& zone, Process& process,
                                                          std::span<const store::Swap> items) {
  std::vector<Result<store::SwapResult>> answers;
  for (const store::Swap& item : items) {
    answers.push_back(std::move(zone.inner->swap(std::span(&item, 1)).front()));
    if (answers.back() && answers.back()->written)
      zone.witness->wrote(process, item.at, *answers.back()->current, Witness::Write::swap);
  }
  return answers;
}

std::vector<Result<std::optional<store::Stored>>> SimStore::get(
    std::span<const store::Address> items) {
  return read_batch("get", items.size(), [&] { return zone_.inner->get(items); });
}

// --- Key-value ------------------------------------------------------------------------------

std::vector<Result<std::optional<store::Value>>> SimStore::get(std::span<const store::Key> keys) {
  return read_batch("get values", keys.size(), [&] { return zone_.inner->key_values().get(keys); });
}

std::vector<Result<store::KeyWriteResult>> SimStore::write(std::span<const store::KeyWrite> items) {
  return write_batch<store::KeyWriteResult>(
      "write values", items,
      [&zone = zone_, &process = process_](auto some) { return write_now(zone, process, some); });
}

std::vector<Result<store::KeyWriteResult>> SimStore::write_now(
    SimZone& zone, Process& process, std::span<const store::KeyWrite> items) {
  auto answers = zone.inner->key_values().write(items);
  for (std::size_t i = 0; i < items.size(); ++i)
    if (answers[i] && answers[i]->written) zone.witness->wrote(process, items[i]);
  return answers;
}

Result<bool> SimStore::remove(const store::Key& key, core::Revision revision) {
  const auto apply = [&zone = zone_, key, revision] {
    return zone.inner->key_values().remove(key, revision);
  };
  return write_call("remove value", apply, [apply] { static_cast<void>(apply()); });
}

Result<store::KeyPage> SimStore::list(const store::KeyList& query) {
  return read_call("list values", [&] { return zone_.inner->key_values().list(query); });
}

// --- Feed -----------------------------------------------------------------------------------

Result<std::vector<Delivery>> SimStore::fetch_within_wait(const store::Fetch& request) {
  Random& random = zone_.world.random();
  const Fate fate = send("fetch", request.limit);
  if (fate == Fate::dies_before) return gone();
  if (fate == Fate::away || fate == Fate::call_lost) return away();
  const engine::Moment deadline = process_.now() + request.wait;
  Result<std::vector<Delivery>> deliveries = undisturbed([&] { return fetch_now(request); });
  while (deliveries && deliveries->empty() && process_.now() < deadline &&
         !request.stop.stop_requested()) {
    const engine::Moment look = process_.now() + milliseconds{random.between(20, 400)};
    process_.wait(&zone_.changed, std::min(look, deadline));
    if (process_.dead()) return gone();
    deliveries = undisturbed([&] { return fetch_now(request); });
  }
  if (deliveries && !deliveries->empty()) {
    zone_.world.notify_all(zone_.changed);
    make_copies(request.queue, *deliveries);
    forget(request.queue, *deliveries);
  }
  if (!arrives(fate)) return gone();
  if (fate == Fate::answer_lost || fate == Fate::late) return unknown();
  if (deliveries && fate == Fate::half)
    for (Delivery& delivery : *deliveries)
      if (delivery.claimed && random.chance(0.5)) {
        delivery.unanswered = true;
        delivery.claimed = false;
      }
  return deliveries;
}

// Like a store that does both in one commit, or like one that does not.
store::Store::CommitResult SimStore::commit(std::span<const store::Swap> items,
                                            const store::Fetch& request) {
  if (items.empty()) return {.delivered = fetch_within_wait(request)};
  if (zone_.world.random().chance(0.5)) return {.swapped = swap(items)};
  const auto both = [&](const Error& error) {
    return CommitResult{.swapped = std::vector<Result<store::SwapResult>>(items.size(), error),
                        .delivered = error};
  };
  const Fate fate = send("commit", items.size());
  if (fate == Fate::dies_before) return both(gone());
  if (fate == Fate::away || fate == Fate::half) return both(away());
  CommitResult done = both(unknown());
  if (fate == Fate::late) {  // its claims are nobody's by then
    zone_.later([&zone = zone_, &process = process_,
                 copies = std::vector<store::Swap>(items.begin(), items.end())] {
      static_cast<void>(swap_now(zone, process, copies));
    });
  } else if (fate != Fate::call_lost) {
    done.swapped = undisturbed([&] { return swap_now(zone_, process_, items); });
    done.delivered = undisturbed([&] { return fetch_now(request); });
    zone_.world.notify_all(zone_.changed);
    if (done.delivered) {
      make_copies(request.queue, *done.delivered);
      forget(request.queue, *done.delivered);
    }
  }
  if (!arrives(fate)) return both(gone());
  if (fate == Fate::answer_lost) return both(unknown());
  return done;
}

Result<std::vector<Delivery>> SimStore::fetch_now(const store::Fetch& request) {
  std::optional<PickyClaimer> claimer;
  if (request.claimer)
    claimer.emplace(*request.claimer, zone_.world.random(), zone_.weather.unclaimed);
  store::Fetch now = request;
  now.wait = Duration{0};
  now.claimer = claimer ? &*claimer : nullptr;
  if (zone_.world.random().chance(zone_.weather.unclaimed)) now.claimer = nullptr;
  auto deliveries = zone_.inner->fetch(now);
  if (!deliveries) return deliveries;
  for (const Delivery& delivery : *deliveries) {
    zone_.world.trace().note(zone_.world.now(), process_.name(), "is handed",
                             delivery.entry.sequence.value, [&] {
                               return "#" + std::to_string(delivery.entry.sequence.value) +
                                      (delivery.claimed ? " claimed" : " unclaimed") +
                                      (delivery.order ? " with an order" : "");
                             });
    if (delivery.claimed)
      zone_.witness->wrote(process_, *request.claimer->address(delivery.entry), *delivery.stored,
                           Witness::Write::claim);
  }
  if (!request.stop.stop_requested()) add_copies(request, *deliveries);
  return deliveries;
}

// Copies are late, out of order, and go to whoever comes; what has been forgotten since is not handed
// over, nor a body that is gone.
void SimStore::add_copies(const store::Fetch& request, std::vector<Delivery>& deliveries) {
  std::size_t again = 0;
  std::erase_if(zone_.copies, [&](SimZone::Copy& copy) {
    if (copy.queue != request.queue || copy.from > zone_.world.now()) return false;
    if (deliveries.size() >= request.limit || again >= request.again) return false;
    const auto entry = zone_.inner->entry(request.queue, copy.delivery.entry.sequence);
    if (!*entry || !(*entry)->body) return true;
    ++again;
    zone_.world.trace().note(
        zone_.world.now(), process_.name(), "is handed again", copy.delivery.entry.sequence.value,
        [&] { return "#" + std::to_string(copy.delivery.entry.sequence.value); });
    deliveries.push_back(std::move(copy.delivery));
    return true;
  });
}

void SimStore::make_copies(const std::string& queue, const std::vector<Delivery>& deliveries) {
  Random& random = zone_.world.random();
  for (const Delivery& delivery : deliveries) {
    if (!random.chance(zone_.weather.twice)) continue;
    Delivery copy = delivery;
    copy.claimed = false;
    copy.stored.reset();
    const auto wait = milliseconds{random.between(0, 2 * zone_.longest_slow.count())};
    zone_.copies.push_back({std::move(copy), queue, zone_.world.now() + wait});
  }
}

// As when a late acknowledgement of an earlier hand-over is taken for one of the last.
void SimStore::forget(const std::string& queue, const std::vector<Delivery>& deliveries) {
  for (const Delivery& delivery : deliveries) {
    if (delivery.order || !zone_.world.random().chance(zone_.weather.forgotten)) continue;
    const store::Settlement done{
        .queue = queue, .sequence = delivery.entry.sequence, .handle = delivery.handle};
    zone_.world.after(milliseconds{1}, [&zone = zone_, done] {
      zone.world.trace().note(zone.world.now(), "the feed", "forgets", done.sequence.value,
                              [&] { return "#" + std::to_string(done.sequence.value); });
      static_cast<void>(zone.inner->settle(std::span(&done, 1)));
    });
  }
}

Result<void> SimStore::settle(std::span<const store::Settlement> items) {
  const std::vector<store::Settlement> copies(items.begin(), items.end());
  const auto apply = [&zone = zone_, &process = process_, copies] {
    return settle_now(zone, process, copies);
  };
  return write_call("settle", apply, [apply] { static_cast<void>(apply()); });
}

Result<void> SimStore::settle_now(SimZone& zone, Process& process,
                                  std::span<const store::Settlement> items) {
  for (const store::Settlement& item : items)
    if (!item.again) zone.witness->acknowledged(process, item.queue, item.sequence);
  return zone.inner->settle(items);
}

Result<store::Store::OverlookedPage> SimStore::overlooked(std::string_view queue,
                                                          core::Sequence after, std::size_t limit) {
  return read_call("overlooked", [&] { return zone_.inner->overlooked(queue, after, limit); });
}

Result<void> SimStore::wake(std::string_view queue, std::span<const store::Wake> items) {
  const auto apply = [&zone = zone_, name = std::string(queue),
                      copies = std::vector<store::Wake>(items.begin(), items.end())] {
    return zone.inner->wake(name, copies);
  };
  return write_call("wake", apply, [apply] { static_cast<void>(apply()); });
}

// --- Zone -----------------------------------------------------------------------------------

Result<store::Store::QueueAdded> SimStore::add_queue(const Queue& queue) {
  return read_call("add_queue", [&] { return zone_.inner->add_queue(queue); });
}

Result<bool> SimStore::set_queue(const Queue& queue, const Queue& expected) {
  return read_call("set_queue", [&] { return zone_.inner->set_queue(queue, expected); });
}

Result<std::vector<Queue>> SimStore::queues() {
  return read_call("queues", [&] { return zone_.inner->queues(); });
}

Result<void> SimStore::remove_queue(std::string_view name) {
  return read_call("remove_queue", [&] { return zone_.inner->remove_queue(name); });
}

Result<std::unique_ptr<store::Membership>> SimStore::join(std::string_view queue,
                                                          std::string_view worker) {
  auto joined = read_call("join", [&] { return zone_.inner->join(queue, worker); });
  if (!joined) return joined;
  return std::unique_ptr<store::Membership>(
      std::make_unique<SimMembership>(zone_, process_, std::move(*joined)));
}

Result<bool> SimStore::all_settled(std::string_view queue) {
  return read_call("all_settled", [&] { return zone_.inner->all_settled(queue); });
}

Result<store::Counts> SimStore::counts(std::string_view queue) {
  return read_call("counts", [&] { return zone_.inner->counts(queue); });
}

Result<std::uint64_t> SimStore::unrouted() {
  return read_call("unrouted", [&] { return zone_.inner->unrouted(); });
}

Result<store::Log::Inventory> SimStore::inventory(core::Sequence after, std::size_t limit) {
  return read_call("inventory", [&] { return zone_.inner->inventory(after, limit); });
}

Result<store::Ledger::Strays> SimStore::strays(std::string_view queue, const std::string& after) {
  return read_call("strays", [&] { return zone_.inner->strays(queue, after); });
}

Result<store::Store::VerifyPage> SimStore::verify(Depth depth, const std::string& after) {
  return read_call("verify", [&] { return zone_.inner->verify(depth, after); });
}

Result<core::Past> SimStore::past(std::string_view queue) {
  return read_call("past", [&] { return zone_.inner->past(queue); });
}

Result<store::Store::Page> SimStore::rows(const store::RowFilter& filter, const store::Row* after,
                                          std::size_t limit) {
  return read_call("rows", [&] { return zone_.inner->rows(filter, after, limit); });
}

Result<Retention> SimStore::retention() {
  return read_call("retention", [&] { return zone_.inner->retention(); });
}

Result<void> SimStore::set_retention(const Retention& ages) {
  return read_call("set_retention", [&] { return zone_.inner->set_retention(ages); });
}

Result<store::Store::RetirePage> SimStore::retire(core::Sequence after, std::size_t limit) {
  return read_call("retire", [&] {
    auto page = zone_.inner->retire(after, limit);
    zone_.witness->retired();
    return page;
  });
}

}  // namespace once::sim
