// A decorator around any store in which calls go wrong by a FaultPlan: they fail, their answer is
// lost, half of a batch happens, or the process is killed before or after. Without a plan it is the
// store that it wraps (and passes the contract).
//
//   auto store = std::make_unique<FaultyStore>(store::open_memory(clock),
//                                              FaultPlan{}.on(Seam::swap, 2, Fault::answer_lost));
//
// Any thread may call; calls of a method are numbered in the order in which they begin.
#pragma once

#include <signal.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "store/store.h"
#include "support/fault_plan.h"

namespace once::testing {

class FaultyStore : public store::Store, private store::KeyValue {
 public:
  explicit FaultyStore(std::unique_ptr<store::Store> inner, FaultPlan plan = {})
      : inner_(std::move(inner)), plan_(std::move(plan)) {}

  // From the next call on; the numbering of calls goes on.
  void set_plan(FaultPlan plan) {
    const std::lock_guard lock(mutex_);
    plan_ = std::move(plan);
  }
  // How many calls of the method have begun.
  std::uint64_t calls(Seam seam) const {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(seam);
    return found == calls_.end() ? 0 : found->second;
  }
  // How many calls have met a fault.
  std::uint64_t faults() const {
    const std::lock_guard lock(mutex_);
    return faults_;
  }
  store::Store& inner() { return *inner_; }

  std::vector<Result<store::AppendResult>> append(std::span<const store::Append> items) override {
    return batch<store::AppendResult>(Seam::append, items,
                                      [&](auto part) { return inner_->append(part); });
  }
  Result<std::vector<store::Entry>> read(core::Sequence after, std::size_t limit,
                                         std::string_view filter) override {
    return call(Seam::read, [&] { return inner_->read(after, limit, filter); });
  }
  Result<std::optional<store::Entry>> find(std::string_view id) override {
    return call(Seam::find, [&] { return inner_->find(id); });
  }

  std::vector<Result<store::SwapResult>> swap(std::span<const store::Swap> items) override {
    return batch<store::SwapResult>(Seam::swap, items,
                                    [&](auto part) { return inner_->swap(part); });
  }
  std::vector<Result<std::optional<store::Stored>>> get(
      std::span<const store::Address> items) override {
    return batch<std::optional<store::Stored>>(Seam::get, items,
                                               [&](auto part) { return inner_->get(part); });
  }

  store::KeyValue& key_values() override { return *this; }
  std::vector<Result<std::optional<store::Value>>> get(std::span<const store::Key> keys) override {
    return batch<std::optional<store::Value>>(
        Seam::get_values, keys, [&](auto part) { return inner_->key_values().get(part); });
  }
  std::vector<Result<store::KeyWriteResult>> write(
      std::span<const store::KeyWrite> items) override {
    return batch<store::KeyWriteResult>(
        Seam::write_values, items, [&](auto part) { return inner_->key_values().write(part); });
  }
  Result<bool> remove(const store::Key& key, core::Revision revision) override {
    return call(Seam::remove_value, [&] { return inner_->key_values().remove(key, revision); });
  }
  Result<store::KeyPage> list(const store::KeyList& query) override {
    return call(Seam::list_values, [&] { return inner_->key_values().list(query); });
  }

  // Without records it is Seam::fetch. With records, faults of Seam::commit hit the one commit, and
  // faults of Seam::swap and Seam::fetch hit its parts.
  CommitResult commit(std::span<const store::Swap> items, const store::Fetch& request) override {
    if (items.empty()) return {.delivered = fetch_with_faults(request)};
    const auto fault = begin(Seam::commit);
    const auto both = [&](const Error& error) {
      return CommitResult{.swapped = std::vector<Result<store::SwapResult>>(items.size(), error),
                          .delivered = error};
    };
    if (fault == Fault::kill_before) die();
    if (fault == Fault::fails) return both(unavailable());
    if (!fault) {
      store::Fetch now = request;
      now.wait = Duration{0};
      auto swapped = swap(items);
      return {.swapped = std::move(swapped), .delivered = fetch_with_faults(now)};
    }
    inner_->commit(items, request);
    if (fault == Fault::kill_after) die();
    return both(unknown());
  }
  Result<void> settle(std::span<const store::Settlement> items) override {
    return call(
        Seam::settle, [&] { return inner_->settle(items); },
        [&] { return inner_->settle(items.first(items.size() / 2)); });
  }
  Result<OverlookedPage> overlooked(std::string_view queue, core::Sequence after,
                                    std::size_t limit) override {
    return call(Seam::overlooked, [&] { return inner_->overlooked(queue, after, limit); });
  }
  Result<void> wake(std::string_view queue, std::span<const store::Wake> items) override {
    return call(
        Seam::wake, [&] { return inner_->wake(queue, items); },
        [&] { return inner_->wake(queue, items.first(items.size() / 2)); });
  }

  Result<std::optional<store::Entry>> entry(std::string_view queue,
                                            core::Sequence sequence) override {
    return call(Seam::read, [&] { return inner_->entry(queue, sequence); });
  }

  Result<store::Examination> examine(const DoctorOptions& options) override {
    return inner_->examine(options);
  }

  std::string uuid() override { return inner_->uuid(); }
  core::StoreTime now() override { return inner_->now(); }
  Time wall() override { return inner_->wall(); }
  Result<QueueAdded> add_queue(const Queue& queue) override {
    return call(Seam::add_queue, [&] { return inner_->add_queue(queue); });
  }
  Result<bool> set_queue(const Queue& queue, const Queue& expected) override {
    return call(Seam::set_queue, [&] { return inner_->set_queue(queue, expected); });
  }
  Result<std::vector<Queue>> queues() override {
    return call(Seam::queues, [&] { return inner_->queues(); });
  }
  Result<void> remove_queue(std::string_view name) override {
    return call(Seam::remove_queue, [&] { return inner_->remove_queue(name); });
  }
  Result<std::unique_ptr<store::Membership>> join(std::string_view queue,
                                                  std::string_view worker) override {
    return call(Seam::join, [&] { return inner_->join(queue, worker); });
  }
  Result<store::Counts> counts(std::string_view queue) override {
    return call(Seam::counts, [&] { return inner_->counts(queue); });
  }
  Result<bool> all_settled(std::string_view queue) override {
    return call(Seam::counts, [&] { return inner_->all_settled(queue); });
  }
  Result<std::uint64_t> unrouted() override {
    return call(Seam::unrouted, [&] { return inner_->unrouted(); });
  }
  Result<Page> rows(const store::RowFilter& filter, const store::Row* after,
                    std::size_t limit) override {
    return call(Seam::rows, [&] { return inner_->rows(filter, after, limit); });
  }
  Result<Inventory> inventory(core::Sequence after, std::size_t limit) override {
    return call(Seam::inventory, [&] { return inner_->inventory(after, limit); });
  }
  Result<Strays> strays(std::string_view queue, const std::string& after) override {
    return call(Seam::strays, [&] { return inner_->strays(queue, after); });
  }
  Result<VerifyPage> verify(Depth depth, const std::string& after) override {
    return call(Seam::verify, [&] { return inner_->verify(depth, after); });
  }
  Result<core::Past> past(std::string_view queue) override {
    return call(Seam::past, [&] { return inner_->past(queue); });
  }
  Result<Retention> retention() override {
    return call(Seam::retention, [&] { return inner_->retention(); });
  }
  Result<void> set_retention(const Retention& ages) override {
    return call(Seam::set_retention, [&] { return inner_->set_retention(ages); });
  }
  Result<RetirePage> retire(core::Sequence after, std::size_t limit) override {
    return call(Seam::retire, [&] { return inner_->retire(after, limit); });
  }

 private:
  Result<std::vector<store::Delivery>> fetch_with_faults(const store::Fetch& request) {
    const auto fault = begin(Seam::fetch);
    if (fault == Fault::kill_before) die();
    if (fault == Fault::fails) return unavailable();
    auto deliveries = inner_->fetch(request);
    if (fault == Fault::kill_after) die();
    if (fault == Fault::half_done) return half_answered(std::move(deliveries));
    if (fault) return unknown();
    return deliveries;
  }

  static Error unavailable() {
    return {.code = Code::store_unavailable,
            .message = "the store is away by plan; nothing was done: call again",
            .retryable = true};
  }
  static Error unknown() {
    return {.code = Code::outcome_unknown,
            .message = "the answer was lost by plan; it may have been done: call again",
            .retryable = true,
            .in_doubt = true};
  }
  [[noreturn]] static void die() {
    raise(SIGKILL);
    std::abort();
  }

  // The answers to every second claim are lost, from the first one on.
  static Result<std::vector<store::Delivery>> half_answered(
      Result<std::vector<store::Delivery>> deliveries) {
    if (!deliveries) return deliveries;
    bool lost = true;
    for (store::Delivery& delivery : *deliveries) {
      if (!delivery.claimed) continue;
      delivery.unanswered = lost;
      delivery.claimed = !lost;
      lost = !lost;
    }
    return deliveries;
  }

  std::optional<Fault> begin(Seam seam) {
    const std::lock_guard lock(mutex_);
    const auto fault = plan_.next(seam, ++calls_[seam]);
    if (fault) ++faults_;
    return fault;
  }

  // `half` is what Fault::half_done does instead.
  template <class Whole, class Half>
  auto call(Seam seam, Whole whole, Half half) -> decltype(whole()) {
    const auto fault = begin(seam);
    if (fault == Fault::kill_before) die();
    if (fault == Fault::fails) return unavailable();
    auto answer = fault == Fault::half_done ? half() : whole();
    if (fault == Fault::kill_after) die();
    if (fault) return unknown();
    return answer;
  }
  template <class Whole>
  auto call(Seam seam, Whole whole) -> decltype(whole()) {
    return call(seam, whole, whole);
  }

  template <class T, class Item, class Whole>
  std::vector<Result<T>> batch(Seam seam, std::span<const Item> items, Whole whole) {
    const auto all = [&](const Error& error) {
      return std::vector<Result<T>>(items.size(), Result<T>(error));
    };
    const auto fault = begin(seam);
    if (fault == Fault::kill_before) die();
    if (fault == Fault::fails) return all(unavailable());
    auto answers = whole(fault == Fault::half_done ? items.first(items.size() / 2) : items);
    if (fault == Fault::kill_after) die();
    if (fault) return all(unknown());
    return answers;
  }

  std::unique_ptr<store::Store> inner_;
  mutable std::mutex mutex_;  // guards what follows
  FaultPlan plan_;
  std::map<Seam, std::uint64_t> calls_;
  std::uint64_t faults_ = 0;
};

}  // namespace once::testing
