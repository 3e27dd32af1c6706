// The contract: what store.h promises, as tests that every store passes. The fixture gives a test
// one empty zone in its own folder under a clock that the test moves, and words to speak to it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "once/testing.h"
#include "store/store.h"
#include "support/temp_folder.h"

namespace once::contract {

using core::AppendVerdict;
using core::Member;
using core::Nonce;
using core::Record;
using core::Revision;
using core::Sequence;
using core::Stored;
using core::StoreTime;
using store::Address;
using store::Append;
using store::AppendResult;
using store::Counts;
using store::Delivery;
using store::Entry;
using store::Membership;
using store::Row;
using store::RowFilter;
using store::Store;
using store::Swap;
using store::SwapResult;
using store::Wake;
using namespace std::chrono_literals;

struct StoreUnderTest {
  std::string name;
  // Opens the zone that lives in the folder, making it when it is not there.
  std::function<std::unique_ptr<Store>(const std::filesystem::path& folder,
                                       std::shared_ptr<Clock> clock)>
      open;
  bool persists;        // what is opened again is the same zone; so is what is opened twice
  bool knows_who_left;  // sees at once that a worker is gone
};
std::vector<StoreUnderTest> stores();
// Those whose messages are bounded, with a bound so low that every large result meets it.
std::vector<StoreUnderTest> stores_of_small_messages();
inline void PrintTo(const StoreUnderTest& store, std::ostream* out) { *out << store.name; }

// The address of a task's record: under `key`, or under its id.
Address task_at(std::string queue, const Entry& entry, std::string key = {});
Address entry_at(std::string queue, Sequence sequence);
Address lone_at(std::string queue, std::string name);

// A record of a task in a state, as short as it can be.
Record record_of(const Entry& entry, State state);
// An append with a nonce of its own; the digest follows from topic and body.
Append task(std::string id, std::string topic = "orders.new", std::string json = "{}");
Nonce fresh_nonce();
Append delayed_task(std::string id, Duration delay);
Queue queue_of(std::string name, std::string topic = ">");
// A ledger-only queue, and where its record of a key is.
Queue ledger_of(std::string name);
Address ledger_only_at(std::string queue, std::string key);
// What a person asks of a task that died or is in doubt after so many claims, with a nonce of its
// own.
core::Order order_of(std::string by, std::uint32_t claims = 1,
                     core::Order::Kind kind = core::Order::Kind::retry);

// Runs `body(i)` on `count` threads that begin together; joins them.
void at_once(int count, const std::function<void(int)>& body);

// Claims as the engine does, by the rules of the core, for one worker.
class TestClaimer final : public store::Claimer {
 public:
  explicit TestClaimer(Queue queue, Member member = {})
      : queue_(std::move(queue)), member_(member) {}
  // By default a task's key is its id.
  std::function<std::optional<std::string>(const Entry&)> key{};
  std::optional<Address> address(const Entry& entry) override;
  std::optional<Record> claim(const Entry& entry, const Stored* stored, const core::Order* order,
                              core::Now now) override;

 private:
  Queue queue_;
  Member member_;
};

// A task that is ours now.
struct Held {
  Entry entry{};
  std::string handle{};
  Address at{};
  Stored stored{};
};

class Contract : public ::testing::TestWithParam<StoreUnderTest> {
 protected:
  Contract() : store_(open()) {}

  Store& store() { return *store_; }
  std::unique_ptr<Store> open() { return GetParam().open(folder_.path(), clock_); }
  void reopen();
  void pass(Duration time) { clock_->advance(time); }
  void set_back(Duration time) { clock_->advance(-time); }

  AppendResult append(const Append& item);
  Entry publish(std::string id, std::string topic = "orders.new", std::string json = "{}");
  Entry publish_delayed(std::string id, Duration delay);
  std::vector<Entry> publish_many(std::size_t count, std::string_view prefix = "task");
  Entry entry(std::string_view id);
  std::vector<std::string> ids_in_log(std::string_view filter = {});
  Queue add(Queue queue);
  Queue add(std::string name, std::string topic = ">") { return add(queue_of(name, topic)); }

  SwapResult swap(Address at, Revision expected, Record record, std::string handle = {});
  // The written record; fails the test when it was refused.
  Stored write(Address at, Revision expected, Record record, std::string handle = {});
  std::optional<Stored> get(const Address& at);

  // What is handed over without waiting and without a claim, at most `limit`.
  std::vector<Delivery> fetch(const std::string& queue, std::size_t limit = 1);
  // Everything that is ready.
  std::vector<Delivery> drain(const std::string& queue);
  std::vector<std::string> handed_over(const std::string& queue);
  // Fetches one and claims it, in fetch() where the store does that, else by swap(). None: nothing
  // was claimable (what was handed over and could not be claimed is answered).
  std::optional<Held> claim_one(const Queue& queue, Member member = {}, Store* from = nullptr);
  // Writes the claimed task's record in another state and answers its delivery.
  Stored settle_as(const Held& held, State state, Duration delay = {});
  Stored complete(const Held& held) { return settle_as(held, State::completed); }
  // Publishes, claims and completes.
  Held completed_task(const Queue& queue, const std::string& id,
                      const std::string& topic = "orders.new");
  void settle(const Delivery& delivery, const std::string& queue,
              std::optional<Duration> again = {});

  void wake(const std::string& queue, Sequence sequence, std::optional<core::Order> order = {});

  std::uint64_t count(std::string_view queue, State state);
  std::uint64_t unrouted() { return store().unrouted().value(); }
  // All pages, `page` rows at a time.
  std::vector<Row> rows(const RowFilter& filter, std::size_t page = 100);
  std::vector<Sequence> overlooked(std::string_view queue, std::size_t page = 100);
  Retired retire(std::size_t page = 100);
  // What the store contradicts itself in.
  std::vector<store::Damage> damages(Store::Depth depth = Store::Depth::deep);

 private:
  testing::TempFolder folder_;
  std::shared_ptr<testing::VirtualClock> clock_ = std::make_shared<testing::VirtualClock>();
  std::unique_ptr<Store> store_;
};

std::vector<std::string> ids(const std::vector<Delivery>& deliveries);
std::vector<std::string> ids(const std::vector<Row>& rows);

}  // namespace once::contract

#define ONCE_FOR_EVERY_STORE(suite)                                \
  INSTANTIATE_TEST_SUITE_P(, suite, ::testing::ValuesIn(stores()), \
                           [](const auto& tested) { return tested.param.name; })
