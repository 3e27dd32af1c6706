// The store as one simulated process sees it: the memory store behind a network and a machine on which
// everything goes wrong that the seam allows. Calls take time; the process dies before or after they
// took effect; answers are lost, or a write arrives after its sender has given up on it; batches are
// done by half; deliveries come unclaimed, twice, late, or are forgotten by the feed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "once/zone.h"
#include "simulation/process.h"
#include "store/store.h"

namespace once::sim {

class Witness;

// The store's time, and wall time: goes at its own speed and jumps. The store never lets it go back.
class SimClock final : public Clock {
 public:
  SimClock(World& world, std::int64_t speed) : world_(world), speed_(speed) {}
  Time now() override {
    return Time{Duration{1'700'000'000'000 +
                         world_.now().time_since_epoch().count() * speed_ / 1'000'000}} +
           jumped_;
  }
  void jump(Duration by) { jumped_ += by; }
  bool punctual() const { return speed_ == 1000; }

 private:
  World& world_;
  const std::int64_t speed_;  // in thousandths
  Duration jumped_{};
};

// How often what goes wrong, per call.
struct Weather {
  double dies = 0;
  double freezes = 0;
  double away = 0;
  double lost = 0;       // the answer, or the call
  double late = 0;       // the write arrives after its sender has given up
  double half = 0;       // some of a batch is done, some answers are lost
  double slow = 0;       // the call or its answer takes as long as a lease
  double unclaimed = 0;  // fetch leaves it to the caller to claim
  double twice = 0;      // a delivery comes once more, to whoever fetches then
  double forgotten = 0;  // the feed counts an entry as done that is not
};

// What the handles of all processes share.
struct SimZone {
  SimZone(World& its_world, std::int64_t clock_speed);

  World& world;
  std::shared_ptr<SimClock> clock;  // shared with the memory store
  std::unique_ptr<store::Store> inner;
  Witness* witness = nullptr;
  Weather weather{};
  bool presence = true;     // the store sees that a worker died
  Duration longest_slow{};  // of a slow call
  Instant away_until{};     // for everybody
  WaitQueue changed{};      // fetches wait for a word of it

  struct Copy {
    store::Delivery delivery;
    std::string queue;
    Instant from;
  };
  // Does it after a while, whatever has become of its sender.
  void later(std::function<void()> write);
  // Nothing is on its way any more.
  bool quiet() const { return copies.empty() && writes_on_the_way == 0; }

  int writes_on_the_way = 0;
  std::vector<Copy> copies{};                                   // deliveries that come once more
  std::vector<std::unique_ptr<store::Membership>> lingering{};  // of the dead, as nobody sees it
};

class SimStore final : public store::Store, private store::KeyValue {
 public:
  SimStore(SimZone& zone, Process& process) : zone_(zone), process_(process) {}

  std::vector<Result<store::AppendResult>> append(std::span<const store::Append> items) override;
  Result<std::vector<store::Entry>> read(core::Sequence after, std::size_t limit,
                                         std::string_view filter) override;
  Result<std::optional<store::Entry>> find(std::string_view id) override;

  std::vector<Result<store::SwapResult>> swap(std::span<const store::Swap> items) override;
  CommitResult commit(std::span<const store::Swap> items, const store::Fetch& request) override;
  std::vector<Result<std::optional<store::Stored>>> get(
      std::span<const store::Address> items) override;

  store::KeyValue& key_values() override { return *this; }
  std::vector<Result<std::optional<store::Value>>> get(std::span<const store::Key> keys) override;
  std::vector<Result<store::KeyWriteResult>> write(std::span<const store::KeyWrite> items) override;
  Result<bool> remove(const store::Key& key, core::Revision revision) override;
  Result<store::KeyPage> list(const store::KeyList& query) override;

  Result<void> settle(std::span<const store::Settlement> items) override;
  Result<OverlookedPage> overlooked(std::string_view queue, core::Sequence after,
                                    std::size_t limit) override;
  Result<void> wake(std::string_view queue, std::span<const store::Wake> items) override;

  Result<std::optional<store::Entry>> entry(std::string_view queue,
                                            core::Sequence sequence) override;

  std::string uuid() override { return "zone"; }
  core::StoreTime now() override { return zone_.inner->now(); }
  Time wall() override { return zone_.inner->wall(); }
  Result<QueueAdded> add_queue(const Queue& queue) override;
  Result<bool> set_queue(const Queue& queue, const Queue& expected) override;
  Result<std::vector<Queue>> queues() override;
  Result<void> remove_queue(std::string_view name) override;
  Result<std::unique_ptr<store::Membership>> join(std::string_view queue,
                                                  std::string_view worker) override;
  Result<store::Counts> counts(std::string_view queue) override;
  Result<bool> all_settled(std::string_view queue) override;
  Result<std::uint64_t> unrouted() override;
  Result<Inventory> inventory(core::Sequence after, std::size_t limit) override;
  Result<Strays> strays(std::string_view queue, const std::string& after) override;
  Result<VerifyPage> verify(Depth depth, const std::string& after) override;
  Result<core::Past> past(std::string_view queue) override;
  Result<Page> rows(const store::RowFilter& filter, const store::Row* after,
                    std::size_t limit) override;
  Result<Retention> retention() override;
  Result<void> set_retention(const Retention& ages) override;
  Result<RetirePage> retire(core::Sequence after, std::size_t limit) override;

 private:
  enum class Fate { well, dies_before, dies_after, away, call_lost, answer_lost, late, half };

  // The call is on its way, which takes a while.
  Fate send(std::string_view what, std::uint64_t number);
  // So is its answer. False: nobody is there any more to hear it.
  bool arrives(Fate fate);
  void travel();
  template <class Apply>
  auto undisturbed(Apply apply);
  template <class Apply>
  auto read_call(std::string_view what, Apply apply) -> decltype(apply());
  template <class Apply, class Later>
  auto write_call(std::string_view what, Apply apply, Later later) -> decltype(apply());
  template <class Apply>
  auto read_batch(std::string_view what, std::size_t count, Apply apply) -> decltype(apply());
  template <class T, class Item, class Apply>
  std::vector<Result<T>> write_batch(std::string_view what, std::span<const Item> items,
                                     Apply apply);

  static std::vector<Result<store::SwapResult>> swap_now(SimZone& zone, Process& process,
                                                         std::span<const store::Swap> items);
  static std::vector<Result<store::KeyWriteResult>> write_now(
      SimZone& zone, Process& process, std::span<const store::KeyWrite> items);
  static Result<void> settle_now(SimZone& zone, Process& process,
                                 std::span<const store::Settlement> items);
  Result<std::vector<store::Delivery>> fetch_within_wait(const store::Fetch& request);
  Result<std::vector<store::Delivery>> fetch_now(const store::Fetch& request);
  void add_copies(const store::Fetch& request, std::vector<store::Delivery>& deliveries);
  void make_copies(const std::string& queue, const std::vector<store::Delivery>& deliveries);
  void forget(const std::string& queue, const std::vector<store::Delivery>& deliveries);

  SimZone& zone_;
  Process& process_;
};

}  // namespace once::sim
