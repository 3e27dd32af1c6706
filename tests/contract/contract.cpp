#include "contract/contract.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>

#include "codec/digest.h"

namespace once::contract {
namespace {

template <class Items>
std::vector<std::string> ids_of(const Items& items) {
  std::vector<std::string> found;
  for (const auto& item : items) found.push_back(item.entry.id);
  return found;
}

}  // namespace

std::vector<store::Damage> Contract::damages(store::Store::Depth depth) {
  std::vector<store::Damage> all;
  std::string after;
  do {
    auto page = store().verify(depth, after).value();
    all.insert(all.end(), page.damages.begin(), page.damages.end());
    after = page.next;
  } while (!after.empty());
  return all;
}

Address task_at(std::string queue, const Entry& entry, std::string key) {
  return {.kind = Address::Kind::task,
          .queue = std::move(queue),
          .key = key.empty() ? entry.id : std::move(key),
          .sequence = entry.sequence};
}

Address entry_at(std::string queue, Sequence sequence) {
  return {.kind = Address::Kind::entry, .queue = std::move(queue), .sequence = sequence};
}

Address lone_at(std::string queue, std::string name) {
  return {.kind = Address::Kind::lone, .queue = std::move(queue), .key = std::move(name)};
}

Record record_of(const Entry& entry, State state) {
  return {.sequence = entry.sequence,
          .digest = entry.digest,
          .state = state,
          .lease = 30s,
          .since = entry.published_at};
}

Append task(std::string id, std::string topic, std::string json) {
  const core::Digest digest = encoding::content_digest(topic, Body::json(json).value()).value();
  return {.id = std::move(id),
          .topic = std::move(topic),
          .body = Body::json(json).value(),
          .digest = digest,
          .nonce = fresh_nonce()};
}

Append delayed_task(std::string id, Duration delay) {
  Append item = task(std::move(id));
  item.delay = delay;
  return item;
}

Nonce fresh_nonce() {
  static std::atomic<std::uint64_t> last{0};
  const std::uint64_t number = ++last;
  Nonce nonce;
  std::memcpy(nonce.bytes.data(), &number, sizeof number);
  return nonce;
}

Queue queue_of(std::string name, std::string topic) {
  Queue queue;
  queue.name = std::move(name);
  queue.topic = std::move(topic);
  return queue;
}

Queue ledger_of(std::string name) {
  Queue queue = queue_of(std::move(name), {});
  queue.ledger = true;
  return queue;
}

Address ledger_only_at(std::string queue, std::string key) {
  return {.kind = Address::Kind::task, .queue = std::move(queue), .key = std::move(key)};
}

core::Order order_of(std::string by, std::uint32_t claims, core::Order::Kind kind) {
  core::Order order{.kind = kind,
                    .nonce = fresh_nonce(),
                    .claims = claims,
                    .by = std::move(by),
                    .why = "it can work"};
  if (kind == core::Order::Kind::complete_step) {
    order.step = "pay";
    order.result = Body::json(R"({"paid":12})").value();
  }
  return order;
}

void at_once(int count, const std::function<void(int)>& body) {
  std::barrier start(count);
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      body(i);
    });
}

std::optional<Address> TestClaimer::address(const Entry& entry) {
  if (!key) return task_at(queue_.name, entry);
  const auto made = key(entry);
  if (!made) return std::nullopt;
  return task_at(queue_.name, entry, *made);
}

std::optional<Record> TestClaimer::claim(const Entry& entry, const Stored* stored,
                                         const core::Order* order, core::Now now) {
  core::Claim claim{.sequence = entry.sequence,
                    .digest = entry.digest,
                    .worker = "tester",
                    .member = member_,
                    .nonce = fresh_nonce(),
                    .not_before = entry.not_before()};
  if (order) claim.order = *order;
  auto decision = core::decide(stored, claim, core::policy_of(queue_), now);
  if (decision.verdict != core::Verdict::claimed) return std::nullopt;
  return std::move(decision.next);
}

void Contract::reopen() {
  store_.reset();
  store_ = open();
}

AppendResult Contract::append(const Append& item) {
  auto answers = store().append(std::span(&item, 1));
  EXPECT_EQ(answers.size(), 1U);
  return std::move(answers.at(0)).value();
}

Entry Contract::publish(std::string id, std::string topic, std::string json) {
  const AppendResult appended = append(task(id, std::move(topic), std::move(json)));
  EXPECT_EQ(appended.verdict, AppendVerdict::accepted);
  return entry(id);
}

Entry Contract::publish_delayed(std::string id, Duration delay) {
  EXPECT_EQ(append(delayed_task(id, delay)).verdict, AppendVerdict::accepted);
  return entry(id);
}

std::vector<Entry> Contract::publish_many(std::size_t count, std::string_view prefix) {
  std::vector<Append> items;
  for (std::size_t i = 1; i <= count; ++i)
    items.push_back(task(std::string(prefix) + "-" + std::to_string(i)));
  std::vector<Entry> entries;
  auto answers = store().append(items);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const AppendResult appended = std::move(answers.at(i)).value();
    EXPECT_EQ(appended.verdict, AppendVerdict::accepted);
    entries.push_back({.sequence = appended.sequence,
                       .id = items[i].id,
                       .topic = items[i].topic,
                       .digest = appended.digest,
                       .published_at = store().wall()});
  }
  return entries;
}

Entry Contract::entry(std::string_view id) { return store().find(id).value().value(); }

std::vector<std::string> Contract::ids_in_log(std::string_view filter) {
  std::vector<std::string> found;
  Sequence after;
  while (true) {
    const auto page = store().read(after, 100, filter).value();
    if (page.empty()) return found;
    for (const Entry& read : page) found.push_back(read.id);
    after = page.back().sequence;
  }
}

Queue Contract::add(Queue queue) {
  EXPECT_TRUE(store().add_queue(queue).value().added);
  return queue;
}

SwapResult Contract::swap(Address at, Revision expected, Record record, std::string handle) {
  const Swap item{.at = std::move(at),
                  .expected = expected,
                  .record = std::move(record),
                  .handle = std::move(handle)};
  auto answers = store().swap(std::span(&item, 1));
  EXPECT_EQ(answers.size(), 1U);
  return std::move(answers.at(0)).value();
}

Stored Contract::write(Address at, Revision expected, Record record, std::string handle) {
  const SwapResult swapped = swap(std::move(at), expected, std::move(record), std::move(handle));
  EXPECT_TRUE(swapped.written);
  return swapped.current.value();
}

std::optional<Stored> Contract::get(const Address& at) {
  auto answers = store().get(std::span(&at, 1));
  EXPECT_EQ(answers.size(), 1U);
  return std::move(answers.at(0)).value();
}

std::vector<Delivery> Contract::fetch(const std::string& queue, std::size_t limit) {
  return store().fetch({.queue = queue, .limit = limit}).value();
}

std::vector<Delivery> Contract::drain(const std::string& queue) {
  std::vector<Delivery> all;
  while (true) {
    auto some = fetch(queue, 100);
    if (some.empty()) return all;
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
}

std::vector<std::string> Contract::handed_over(const std::string& queue) {
  return ids(drain(queue));
}

std::optional<Held> Contract::claim_one(const Queue& queue, Member member, Store* from) {
  Store& asked = from ? *from : store();
  TestClaimer claimer(queue, member);
  auto deliveries = asked.fetch({.queue = queue.name, .limit = 1, .claimer = &claimer}).value();
  EXPECT_LE(deliveries.size(), 1U);
  if (deliveries.empty()) return std::nullopt;
  Delivery& delivery = deliveries.front();
  const Address at = *claimer.address(delivery.entry);
  if (delivery.claimed)
    return Held{std::move(delivery.entry), delivery.handle, at, delivery.stored.value()};

  // The store left the claim to us. Another may be faster; then what it left decides.
  while (true) {
    const auto stored = std::move(asked.get(std::span(&at, 1)).at(0)).value();
    const auto record = claimer.claim(delivery.entry, stored ? &*stored : nullptr,
                                      delivery.order ? &*delivery.order : nullptr,
                                      {.store = asked.now(), .wall = asked.wall()});
    if (!record) break;
    const Swap item{.at = at,
                    .expected = stored ? stored->revision : Revision{},
                    .record = *record,
                    .handle = delivery.handle};
    auto swapped = std::move(asked.swap(std::span(&item, 1)).at(0)).value();
    if (swapped.written)
      return Held{std::move(delivery.entry), delivery.handle, at, swapped.current.value()};
  }
  const auto stored = std::move(asked.get(std::span(&at, 1)).at(0)).value().value();
  const auto again = core::look_again(stored.record);
  const store::Settlement answer{
      .queue = queue.name,
      .sequence = delivery.entry.sequence,
      .handle = delivery.handle,
      .again = again ? std::optional(stored.stamp + *again - asked.now()) : std::nullopt};
  asked.settle(std::span(&answer, 1)).value();
  return std::nullopt;
}

Stored Contract::settle_as(const Held& held, State state, Duration delay) {
  Record next = held.stored.record;
  next.state = state;
  next.delay = delay;
  next.since = store().wall();
  return write(held.at, held.stored.revision, std::move(next), held.handle);
}

Held Contract::completed_task(const Queue& queue, const std::string& id, const std::string& topic) {
  publish(id, topic);
  auto held = claim_one(queue).value();
  EXPECT_EQ(held.entry.id, id);
  held.stored = complete(held);
  return held;
}

void Contract::settle(const Delivery& delivery, const std::string& queue,
                      std::optional<Duration> again) {
  const store::Settlement answer{.queue = queue,
                                 .sequence = delivery.entry.sequence,
                                 .handle = delivery.handle,
                                 .again = again};
  store().settle(std::span(&answer, 1)).value();
}

void Contract::wake(const std::string& queue, Sequence sequence, std::optional<core::Order> order) {
  const Wake item{.sequence = sequence, .order = std::move(order)};
  store().wake(queue, std::span(&item, 1)).value();
}

std::uint64_t Contract::count(std::string_view queue, State state) {
  return store().counts(queue).value().tasks.at(state);
}

std::vector<Row> Contract::rows(const RowFilter& filter, std::size_t page) {
  std::vector<Row> all;
  while (true) {
    const Row last = all.empty() ? Row{} : all.back();
    auto next = store().rows(filter, all.empty() ? nullptr : &last, page).value();
    EXPECT_LE(next.rows.size(), page);
    std::move(next.rows.begin(), next.rows.end(), std::back_inserter(all));
    if (!next.more) return all;
    if (next.rows.empty()) {
      ADD_FAILURE() << "an empty page cannot be gone on from";
      return all;
    }
  }
}

std::vector<Sequence> Contract::overlooked(std::string_view queue, std::size_t page) {
  std::vector<Sequence> all;
  Sequence after;
  do {
    const auto next = store().overlooked(queue, after, page).value();
    EXPECT_LE(next.sequences.size(), page);
    all.insert(all.end(), next.sequences.begin(), next.sequences.end());
    EXPECT_TRUE(!next.next || next.next > after) << "a page must go on";
    after = next.next;
  } while (after);
  return all;
}

Retired Contract::retire(std::size_t page) {
  Retired total;
  Sequence after;
  do {
    const auto next = store().retire(after, page).value();
    total.bodies += next.retired.bodies;
    total.records += next.retired.records;
    total.ids += next.retired.ids;
    EXPECT_TRUE(!next.next || next.next > after) << "a page must go on";
    after = next.next;
  } while (after);
  return total;
}

std::vector<std::string> ids(const std::vector<Delivery>& deliveries) { return ids_of(deliveries); }
std::vector<std::string> ids(const std::vector<Row>& rows) { return ids_of(rows); }

}  // namespace once::contract
