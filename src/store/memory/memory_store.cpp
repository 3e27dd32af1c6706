#include "store/memory/memory_store.h"

#include <algorithm>
#include <chrono>

#include "core/names.h"
#include "store/memory/memory_zone.h"
#include "store/uuid.h"

namespace once::store {
namespace {

using core::AppendVerdict;
using memory::FeedItem;
using memory::LogRow;
using memory::MemoryZone;
using memory::QueueRows;

// A given clock may be moved without a word to us: while waiting, look at it this often.
constexpr std::chrono::milliseconds kClockLook{5};
// Entries that one call of verify() looks at.
constexpr std::size_t kVerified = 1'000;
// Bytes of values after which a page of list() ends.
constexpr std::size_t kPageBytes = 16 << 20;
// Longer waits would overflow the deadline.
constexpr Duration kLongestWait{std::chrono::hours{24 * 365}};

Error no_queue(std::string_view name) {
  return {.code = Code::not_found,
          .message = "there is no queue " + std::string(name) + "; nothing was done: add it first"};
}

std::uint64_t number(const std::string& handle) {
  const bool digits = !handle.empty() && handle.size() < 20 &&
                      handle.find_first_not_of("0123456789") == std::string::npos;
  return digits ? std::stoull(handle) : 0;
}

class MemoryMembership final : public Membership {
 public:
  MemoryMembership(std::shared_ptr<MemoryZone> zone, Member number)
      : zone_(std::move(zone)), number_(number) {}
  ~MemoryMembership() override {
    const std::lock_guard lock(zone_->mutex);
    zone_->leave(number_);
  }
  MemoryMembership(const MemoryMembership&) = delete;
  MemoryMembership& operator=(const MemoryMembership&) = delete;

  Member number() const override { return number_; }
  int inheritable_fd() const override { return -1; }

 private:
  std::shared_ptr<MemoryZone> zone_;  // shared with the store, which may go first
  Member number_;
};

class MemoryStore final : public Store, private KeyValue {
 public:
  explicit MemoryStore(std::shared_ptr<Clock> clock)
      : zone_(std::make_shared<MemoryZone>(std::move(clock))) {}

  // --- Log ----------------------------------------------------------------------------------

  std::vector<Result<AppendResult>> append(std::span<const Append> items) override {
    const std::lock_guard lock(zone_->mutex);
    std::vector<Result<AppendResult>> answers;
    answers.reserve(items.size());
    for (const Append& item : items) answers.emplace_back(append_one(item));
    zone_->changed();
    return answers;
  }

  Result<std::vector<Entry>> read(Sequence after, std::size_t limit,
                                  std::string_view filter) override {
    const std::lock_guard lock(zone_->mutex);
    std::vector<Entry> found;
    for (auto it = zone_->log.upper_bound(after); it != zone_->log.end() && found.size() < limit;
         ++it)
      if (filter.empty() || core::matches(filter, it->second.entry.topic))
        found.push_back(it->second.entry);
    return found;
  }

  Result<std::optional<Entry>> find(std::string_view id) override {
    const std::lock_guard lock(zone_->mutex);
    const auto known = zone_->ids.find(id);
    if (known == zone_->ids.end()) return std::optional<Entry>{};
    return std::optional<Entry>{zone_->log.at(known->second).entry};
  }

  // --- Ledger -------------------------------------------------------------------------------

  std::vector<Result<SwapResult>> swap(std::span<const Swap> items) override {
    const std::lock_guard lock(zone_->mutex);
    std::vector<Result<SwapResult>> answers;
    answers.reserve(items.size());
    for (const Swap& item : items) answers.push_back(swap_one(item));
    return answers;
  }

  std::vector<Result<std::optional<Stored>>> get(std::span<const Address> items) override {
    const std::lock_guard lock(zone_->mutex);
    std::vector<Result<std::optional<Stored>>> answers;
    answers.reserve(items.size());
    for (const Address& at : items) {
      if (const QueueRows* rows = zone_->queue(at.queue))
        answers.emplace_back(as_read(rows->find(at)));
      else
        answers.emplace_back(no_queue(at.queue));
    }
    return answers;
  }

  // --- Key-value ----------------------------------------------------------------------------

  KeyValue& key_values() override { return *this; }

  std::vector<Result<std::optional<Value>>> get(std::span<const Key> keys) override {
    const std::lock_guard lock(zone_->mutex);
    std::vector<Result<std::optional<Value>>> answers;
    for (const Key& key : keys) answers.emplace_back(live(joined(key)));
    return answers;
  }

  std::vector<Result<KeyWriteResult>> write(std::span<const KeyWrite> items) override {
    const std::lock_guard lock(zone_->mutex);
    std::vector<Result<KeyWriteResult>> answers;
    for (const KeyWrite& item : items) answers.emplace_back(write_one(item));
    return answers;
  }

  Result<bool> remove(const Key& key, Revision revision) override {
    const std::lock_guard lock(zone_->mutex);
    const auto found = zone_->values.find(joined(key));
    if (found == zone_->values.end() || found->second.revision != revision) return false;
    zone_->values.erase(found);
    return true;
  }

  Result<KeyPage> list(const KeyList& query) override {
    const std::lock_guard lock(zone_->mutex);
    const std::string prefix = joined(query.prefix);
    const auto end = zone_->values.lower_bound(prefix + kBehindKeys);
    auto next = query.after.empty() ? zone_->values.lower_bound(prefix + kKeySeparator)
                                    : zone_->values.upper_bound(query.after);
    KeyPage page;
    std::size_t size = 0;
    for (; next != end; ++next) {
      const Value& value = next->second;
      if (value.expired(zone_->now()) || (query.lasting && value.lives)) continue;
      if (page.values.size() >= query.limit || size > kPageBytes) {
        page.next = joined(page.values.back().first);
        break;
      }
      size += value.bytes.size();
      page.values.emplace_back(split_key(next->first), value);
    }
    return page;
  }

  // --- Feed ---------------------------------------------------------------------------------

  CommitResult commit(std::span<const Swap> records, const Fetch& request) override {
    auto swapped = swap(records);
    const Duration wait = records.empty() ? std::min(request.wait, kLongestWait) : Duration{0};
    return {.swapped = std::move(swapped), .delivered = hand_over_within(wait, request)};
  }

  Result<std::vector<Delivery>> hand_over_within(Duration wait, const Fetch& request) {
    using std::chrono::steady_clock;
    std::unique_lock lock(zone_->mutex);
    const auto deadline = steady_clock::now() + wait;
    while (true) {
      QueueRows* rows = zone_->queue(request.queue);
      if (!rows) return no_queue(request.queue);
      if (const auto worker = zone_->workers.find(request.member);
          worker != zone_->workers.end() && worker->second.queue != request.queue)
        return no_queue(request.queue);
      if (request.stop.stop_requested()) return std::vector<Delivery>{};
      const StoreTime looked = zone_->now();
      std::vector<Delivery> deliveries = hand_over(*rows, request, looked);
      const auto now = steady_clock::now();
      if (!deliveries.empty() || request.limit == 0 || now >= deadline) return deliveries;
      auto until = deadline;
      if (zone_->clock)
        until = std::min(until, now + kClockLook);
      else if (const auto next = next_due(*rows, request, looked))
        until = std::min(until, now + (*next - looked));
      zone_->change.wait_until(lock, request.stop, until,
                               [&, seen = zone_->changes] { return zone_->changes != seen; });
    }
  }

  Result<void> settle(std::span<const Settlement> items) override {
    const std::lock_guard lock(zone_->mutex);
    for (const Settlement& item : items) {
      QueueRows* rows = zone_->queue(item.queue);
      FeedItem* delivered = rows ? answered(*rows, item.sequence, item.handle) : nullptr;
      if (!delivered) continue;
      if (delivered->order) {
        // An order that came since waits for a delivery that carries it.
        if (!delivered->carried_by(number(item.handle))) continue;
        if (!item.again) delivered->drop_order();
      }
      std::optional<StoreTime> when;
      if (item.again) when = zone_->now() + *item.again;
      rows->look_at(item.sequence, *delivered, when);
    }
    zone_->changed();
    return {};
  }

  Result<OverlookedPage> overlooked(std::string_view queue, Sequence after,
                                    std::size_t limit) override {
    const std::lock_guard lock(zone_->mutex);
    const QueueRows* rows = zone_->queue(queue);
    if (!rows) return no_queue(queue);
    OverlookedPage page{.settled = after};
    bool all_settled = true;
    for (auto it = rows->feed.upper_bound(after); it != rows->feed.end(); ++it) {
      const Stored* stored = rows->standing(it->first);
      const bool settled =
          stored && core::settled(stored->record.state) && !stored->record.reply_due;
      all_settled = all_settled && settled;
      if (all_settled) page.settled = it->first;
      if (it->second.due || settled) continue;
      if (page.sequences.size() == limit) {
        page.next = limit > 0 ? page.sequences.back() : after;
        break;
      }
      page.sequences.push_back(it->first);
    }
    return page;
  }

  Result<void> wake(std::string_view queue, std::span<const Wake> items) override {
    const std::lock_guard lock(zone_->mutex);
    QueueRows* rows = zone_->queue(queue);
    if (!rows) return no_queue(queue);
    for (const Wake& wake : items) {
      const auto item = rows->feed.find(wake.sequence);
      if (item == rows->feed.end()) continue;
      if (wake.order) item->second.keep(*wake.order, zone_->now());
      StoreTime when = zone_->now();
      // What was never claimed is still not run before its time.
      if (!rows->standing(wake.sequence))
        when = std::max(when, zone_->log.at(wake.sequence).entry.not_before());
      rows->look_at(wake.sequence, item->second, when);
    }
    zone_->changed();
    return {};
  }

  // --- Zone ---------------------------------------------------------------------------------

  std::string uuid() override { return uuid_; }

  StoreTime now() override {
    const std::lock_guard lock(zone_->mutex);
    return zone_->now();
  }

  Time wall() override {
    const std::lock_guard lock(zone_->mutex);
    return zone_->wall();
  }

  Result<QueueAdded> add_queue(const Queue& queue) override {
    if (!queue.stream.empty()) return has_no_streams(queue);
    const std::lock_guard lock(zone_->mutex);
    const auto [it, added] = zone_->queues.try_emplace(queue.name);
    QueueRows& rows = it->second;
    if (added) {
      rows.definition = queue;
      // What has lost its body cannot be run any more: it was settled before this queue came.
      for (const auto& [sequence, row] : zone_->log)
        if (row.stage == core::Stage::whole) route(rows, row);
      zone_->changed();
    }
    return QueueAdded{
        .added = added, .existing = rows.definition, .found = added ? rows.feed.size() : 0};
  }

  Result<bool> set_queue(const Queue& queue, const Queue& expected) override {
    const std::lock_guard lock(zone_->mutex);
    QueueRows* rows = zone_->queue(queue.name);
    if (!rows) return no_queue(queue.name);
    if (rows->definition != expected) return false;
    rows->definition = queue;
    zone_->changed();
    return true;
  }

  Result<std::vector<Queue>> queues() override {
    const std::lock_guard lock(zone_->mutex);
    std::vector<Queue> all;
    for (const auto& [name, rows] : zone_->queues) all.push_back(rows.definition);
    return all;
  }

  Result<void> remove_queue(std::string_view name) override {
    const std::lock_guard lock(zone_->mutex);
    const auto found = zone_->queues.find(name);
    if (found == zone_->queues.end()) return no_queue(name);
    zone_->queues.erase(found);
    // A queue of that name that comes later is another one.
    for (auto& [number, worker] : zone_->workers)
      if (worker.queue == name) worker.queue.clear();
    zone_->changed();
    return {};
  }

  Result<std::unique_ptr<Membership>> join(std::string_view queue,
                                           std::string_view worker) override {
    const std::lock_guard lock(zone_->mutex);
    if (!zone_->queue(queue)) return no_queue(queue);
    const Member number{++zone_->last_member.value};
    zone_->workers[number] = {.queue = std::string(queue), .name = std::string(worker)};
    return std::unique_ptr<Membership>(std::make_unique<MemoryMembership>(zone_, number));
  }

  Result<Counts> counts(std::string_view queue) override {
    const std::lock_guard lock(zone_->mutex);
    const QueueRows* rows = zone_->queue(queue);
    if (!rows) return no_queue(queue);
    Counts counts;
    for (const State state :
         {State::scheduled, State::waiting, State::running, State::retrying, State::in_doubt,
          State::completed, State::dead, State::cancelled, State::duplicate})
      counts.tasks[state] = 0;
    const StoreTime now = zone_->now();
    const auto count = [&](State state, StoreTime since) {
      const Duration age = now - since;
      ++counts.tasks[state];
      if (state == State::waiting)
        counts.oldest_waiting = std::max(counts.oldest_waiting.value_or(age), age);
      if (state == State::in_doubt)
        counts.oldest_in_doubt = std::max(counts.oldest_in_doubt.value_or(age), age);
    };
    for (const auto& [sequence, item] : rows->feed) {
      const Entry& entry = zone_->log.at(sequence).entry;
      const Stored* stored = rows->standing(sequence);
      Row row{.entry = {.appended_at = entry.appended_at, .delay = entry.delay},
              .order = item.order};
      if (stored) row.stored = Stored{.record = {.state = stored->record.state}};
      const State state = state_of(row, now);
      if (!stored)
        count(state, entry.not_before());
      else
        count(state, state == stored->record.state ? stored->stamp : item.ordered_at);
    }
    if (rows->definition.ledger)
      for (const auto& [key, stored] : rows->keys) count(stored.record.state, stored.stamp);
    for (const auto& [number, worker] : zone_->workers)
      if (worker.queue == queue) ++counts.workers;
    return counts;
  }

  Result<bool> all_settled(std::string_view queue) override {
    auto settled = Store::all_settled(queue);
    if (!settled || !*settled) return settled;
    const std::lock_guard lock(zone_->mutex);
    const QueueRows* rows = zone_->queue(queue);
    if (!rows) return no_queue(queue);
    return std::none_of(rows->feed.begin(), rows->feed.end(), [&](const auto& item) {
      const Stored* stored = rows->standing(item.first);
      return stored && stored->record.reply_due;
    });
  }

  Result<std::uint64_t> unrouted() override {
    const std::lock_guard lock(zone_->mutex);
    return static_cast<std::uint64_t>(
        std::count_if(zone_->log.begin(), zone_->log.end(), [&](const auto& row) {
          return row.second.stage == core::Stage::whole && !zone_->routed(row.first) &&
                 !core::own_topic(row.second.entry.topic);
        }));
  }

  Result<Page> rows(const RowFilter& filter, const Row* after, std::size_t limit) override {
    const std::lock_guard lock(zone_->mutex);
    Page page;
    for (const auto& [name, queue] : zone_->queues) {
      if (!filter.queue.empty() && name != filter.queue) continue;
      if (after && name < after->queue) continue;
      const Row* last = after && name == after->queue ? after : nullptr;
      const auto add = [&](Row row) {
        if (!passes(filter, row)) return true;
        page.more = page.rows.size() == limit;
        if (!page.more) page.rows.push_back(std::move(row));
        return !page.more;
      };
      if (queue.definition.ledger) {
        for (auto it = last ? queue.keys.upper_bound(last->key) : queue.keys.begin();
             it != queue.keys.end(); ++it)
          if (!add({.queue = name, .key = it->first, .stored = as_read(&it->second)})) return page;
        continue;
      }
      for (auto it = queue.feed.upper_bound(last ? last->entry.sequence : Sequence{});
           it != queue.feed.end() && (!filter.up_to || it->first <= filter.up_to); ++it)
        if (!add(row_of(queue, it->first))) return page;
    }
    return page;
  }

  Result<Retention> retention() override {
    const std::lock_guard lock(zone_->mutex);
    return zone_->ages;
  }

  Result<void> set_retention(const Retention& ages) override {
    const std::lock_guard lock(zone_->mutex);
    zone_->ages = ages;
    return {};
  }

  Result<Inventory> inventory(Sequence after, std::size_t limit) override {
    const std::lock_guard lock(zone_->mutex);
    Inventory page{.last = zone_->last_sequence};
    core::Sequences accounted_for = zone_->forgotten;
    for (auto it = zone_->log.upper_bound(after);
         it != zone_->log.end() && page.entries.size() < limit; ++it) {
      page.entries.push_back(it->second.entry);
      if (page.entries.back().body) page.entries.back().body = Body();
      page.entries.back().headers.clear();
      accounted_for.add(it->first.value);
    }
    if (page.entries.size() == limit) page.next = page.entries.back().sequence;
    const Sequence to = page.next ? page.next : page.last;
    page.missing = accounted_for.missing(after.value, to.value);
    return page;
  }

  Result<Strays> strays(std::string_view queue, const std::string&) override {
    const std::lock_guard lock(zone_->mutex);
    const QueueRows* rows = zone_->queue(queue);
    if (!rows) return no_queue(queue);
    Strays page;
    for (const auto& [key, stored] : rows->keys)
      if (stored.record.sequence && !zone_->log.contains(stored.record.sequence))
        page.records.push_back(
            {.queue = std::string(queue), .key = key, .sequence = stored.record.sequence});
    for (const auto& [sequence, stored] : rows->entries)
      if (!zone_->log.contains(sequence))
        page.records.push_back(
            {.kind = Address::Kind::entry, .queue = std::string(queue), .sequence = sequence});
    return page;
  }

  // Nobody can reach into this store; what its callers gave it can still contradict itself.
  Result<VerifyPage> verify(Depth depth, const std::string& after) override {
    const std::lock_guard lock(zone_->mutex);
    VerifyPage page;
    if (depth == Depth::quick) return page;
    std::size_t looked = 0;
    for (auto it = zone_->log.upper_bound({number(after)}); it != zone_->log.end(); ++it) {
      if (++looked > kVerified) {
        page.next = std::to_string(std::prev(it)->first.value);
        break;
      }
      zone_->verify(it->second, page.damages);
    }
    page.done = page.next.empty() ? 1 : 0.5;
    return page;
  }

  Result<core::Past> past(std::string_view queue) override {
    const std::lock_guard lock(zone_->mutex);
    const QueueRows* rows = zone_->queue(queue);
    if (!rows) return no_queue(queue);
    return core::Past{.hours = rows->past};
  }

  Result<RetirePage> retire(Sequence after, std::size_t limit) override {
    const std::lock_guard lock(zone_->mutex);
    RetirePage page;
    if (!after) {
      retire_ledger_only(page.retired);
      const StoreTime now = zone_->now();
      page.retired.records += std::erase_if(
          zone_->values, [&](const auto& value) { return value.second.expired(now); });
    }
    auto it = zone_->log.upper_bound(after);
    for (std::size_t looked = 0; looked < limit && it != zone_->log.end(); ++looked) {
      page.next = it->first;
      LogRow& row = (it++)->second;
      retire_one(row, page.retired);
    }
    if (it == zone_->log.end()) page.next = {};
    return page;
  }

 private:
  // All of these with the zone's mutex held.

  std::optional<Value> live(const std::string& key) const {
    const auto found = zone_->values.find(key);
    if (found == zone_->values.end() || found->second.expired(zone_->now())) return std::nullopt;
    return found->second;
  }

  KeyWriteResult write_one(const KeyWrite& item) {
    const std::string key = joined(item.key);
    const auto current = live(key);
    const auto there = zone_->values.find(key);
    const bool same = item.expected
                          ? there != zone_->values.end() && there->second.revision == item.expected
                          : !current;
    if (!same) return {.current = current};
    Value& value = zone_->values[key];
    value = {.bytes = item.bytes,
             .revision = {++zone_->last_revision.value},
             .stamp = zone_->now(),
             .lives = item.lives};
    return {.written = true, .revision = value.revision};
  }

  AppendResult append_one(const Append& item) {
    const auto [known, is_new] =
        zone_->ids.try_emplace(item.id, Sequence{zone_->last_sequence.value + 1});
    if (!is_new) {
      LogRow& row = zone_->log.at(known->second);
      const AppendVerdict verdict =
          core::judge_append(item.nonce, item.digest, row.nonce, row.entry.digest);
      if (verdict == AppendVerdict::duplicate) ++row.entry.duplicates;
      return answer(verdict, row.entry);
    }
    zone_->last_sequence = known->second;
    const StoreTime now = zone_->now();
    const LogRow& row = zone_->log[known->second] = {.entry = {.sequence = known->second,
                                                               .id = item.id,
                                                               .topic = item.topic,
                                                               .body = item.body,
                                                               .headers = item.headers,
                                                               .digest = item.digest,
                                                               .published_at = zone_->wall(),
                                                               .appended_at = now,
                                                               .delay = item.delay,
                                                               .lives = item.lives},
                                                     .nonce = item.nonce,
                                                     .stage_since = now};
    for (auto& [name, rows] : zone_->queues) route(rows, row);
    return answer(AppendVerdict::accepted, row.entry);
  }

  AppendResult answer(AppendVerdict verdict, const Entry& entry) const {
    const bool unrouted =
        std::none_of(zone_->queues.begin(), zone_->queues.end(),
                     [&](const auto& queue) { return queue.second.matches(entry.topic); });
    return {.verdict = verdict,
            .sequence = entry.sequence,
            .digest = entry.digest,
            .unrouted = unrouted};
  }

  // Gives the entry to the queue when it is one of the queue's. Its first time is now or its
  // not-before, so that the feed goes by sequence among the fresh and no retry waits for all of
  // them.
  void route(QueueRows& rows, const LogRow& row) {
    const Sequence sequence = row.entry.sequence;
    if (!rows.has(row.entry)) return;
    rows.look_at(sequence, rows.feed[sequence], std::max(zone_->now(), row.entry.not_before()));
  }

  static bool stands_elsewhere_already(const QueueRows& rows, const Swap& item) {
    const Sequence sequence = item.record.sequence;
    if (item.at.kind == Address::Kind::entry) return rows.key_of.contains(sequence);
    const auto own = rows.entries.find(sequence);
    return item.at.kind == Address::Kind::task && own != rows.entries.end() &&
           core::settled(own->second.record.state);
  }

  Result<SwapResult> swap_one(const Swap& item) {
    QueueRows* rows = zone_->queue(item.at.queue);
    if (!rows) return no_queue(item.at.queue);
    const Stored* current = rows->find(item.at);
    if ((current ? current->revision : Revision{}) != item.expected)
      return SwapResult{.written = false, .current = as_read(current)};
    if (!current && !has_place(*rows, item))
      return Error{
          .code = Code::not_found,
          .message = "there is no task '" + item.at.key + "' in the log: nothing was recorded"};
    if (!current && stands_elsewhere_already(*rows, item))
      return stands_elsewhere(item.record.sequence);
    Stored stored = zone_->write(*rows, item.at, item.record);
    if (!item.handle.empty()) answer_delivery(*rows, item, stored);
    return SwapResult{.written = true, .current = std::move(stored)};
  }

  // A record that is to be about an entry must name one.
  bool has_place(const QueueRows& rows, const Swap& item) const {
    if (item.at.kind != Address::Kind::task || rows.definition.ledger) return true;
    if (item.record.sequence || item.at.sequence) return true;
    return rows.definition.key.empty() && zone_->ids.contains(item.at.key);
  }

  // Also by the handle of an earlier hand-over: nobody has written since, so the record decides.
  void answer_delivery(QueueRows& rows, const Swap& item, const Stored& stored) {
    const auto delivered = rows.feed.find(item.at.sequence);
    if (delivered == rows.feed.end()) return;
    const bool its_own =
        item.at.kind == Address::Kind::entry || stored.record.sequence == item.at.sequence;
    if (delivered->second.carried_by(number(item.handle)) &&
        (its_own || !core::look_again(stored.record)))
      delivered->second.drop_order();
    zone_->follow(rows, item.at.sequence, stored);
  }

  std::optional<Stored> as_read(const Stored* stored) const {
    if (!stored) return std::nullopt;
    return zone_->as_read(*stored);
  }

  // The item whose last hand-over the handle names, or null: then the entry went to somebody else
  // since, who will answer.
  static FeedItem* answered(QueueRows& rows, Sequence sequence, const std::string& handle) {
    const auto item = rows.feed.find(sequence);
    const std::uint64_t delivery = number(handle);
    return delivery != 0 && item != rows.feed.end() && item->second.delivery == delivery
               ? &item->second
               : nullptr;
  }

  // When something is due next of which the request may be handed more.
  static std::optional<StoreTime> next_due(const QueueRows& rows, const Fetch& request,
                                           StoreTime now) {
    if (rows.definition.paused) return std::nullopt;
    for (auto it = rows.due.upper_bound({now, Sequence{UINT64_MAX}}); it != rows.due.end(); ++it)
      if (request.again > 0 || rows.feed.at(it->second).delivery == 0) return it->first;
    return std::nullopt;
  }

  std::vector<Delivery> hand_over(QueueRows& rows, const Fetch& request, StoreTime now) {
    if (rows.definition.paused) return {};
    std::vector<Sequence> ready;
    std::size_t again = 0;
    for (auto it = rows.due.begin();
         it != rows.due.end() && it->first <= now && ready.size() < request.limit; ++it) {
      if (rows.feed.at(it->second).delivery != 0 && ++again > request.again) continue;
      ready.push_back(it->second);
    }
    std::vector<Delivery> deliveries;
    deliveries.reserve(ready.size());
    for (const Sequence sequence : ready)
      deliveries.push_back(hand_over_one(rows, sequence, request.claimer, now));
    return deliveries;
  }

  Delivery hand_over_one(QueueRows& rows, Sequence sequence, Claimer* claimer, StoreTime now) {
    FeedItem& item = rows.feed.at(sequence);
    item.delivery = ++zone_->last_delivery;
    Delivery delivery{.entry = zone_->log.at(sequence).entry,
                      .handle = std::to_string(item.delivery),
                      .order = item.order};
    if (item.order && item.carried == 0) item.carried = item.delivery;
    rows.look_at(sequence, item, now + rows.definition.lease);

    if (const auto own = rows.entries.find(sequence);
        own != rows.entries.end() && core::settled(own->second.record.state)) {
      delivery.stored = as_read(&own->second);
      return delivery;
    }
    const auto at = claimer ? claimer->address(delivery.entry) : std::nullopt;
    if (!at) return delivery;
    delivery.stored = as_read(rows.find(*at));
    const auto claim = claimer->claim(delivery.entry, delivery.stored ? &*delivery.stored : nullptr,
                                      delivery.order ? &*delivery.order : nullptr,
                                      {.store = now, .wall = zone_->wall()});
    if (!claim) return delivery;
    delivery.stored = zone_->write(rows, *at, *claim);
    delivery.claimed = true;
    if (claim->sequence == sequence) item.drop_order();
    zone_->follow(rows, sequence, *delivery.stored);
    return delivery;
  }

  Row row_of(const QueueRows& rows, Sequence sequence) const {
    Row row{.entry = zone_->log.at(sequence).entry, .queue = rows.definition.name};
    row.entry.body.reset();
    row.stored = as_read(rows.standing(sequence));
    row.own = rows.entries.contains(sequence);
    row.order = rows.feed.at(sequence).order;
    if (const auto key = rows.key_of.find(sequence); key != rows.key_of.end())
      row.key = key->second;
    else if (rows.definition.key.empty())
      row.key = row.entry.id;
    return row;
  }

  bool passes(const RowFilter& filter, const Row& row) {
    const Time since = row.stored ? row.stored->record.since : row.entry.published_at;
    return (!filter.state || *filter.state == state_of(row, zone_->now())) &&
           (!filter.since || since >= *filter.since) &&
           (filter.topic.empty() || core::matches(filter.topic, row.entry.topic));
  }

  void retire_ledger_only(Retired& retired) {
    const StoreTime now = zone_->now();
    for (auto& [name, rows] : zone_->queues) {
      if (!rows.definition.ledger) continue;
      retired.records += std::erase_if(rows.keys, [&](const auto& record) {
        const Stored& stored = record.second;
        const bool old =
            core::may_forget_ledger_only({stored.record.state, stored.stamp}, zone_->ages, now);
        if (old) remember(rows, {.stored = stored});
        return old;
      });
    }
  }

  void remember(QueueRows& rows, const Row& row) {
    core::account(accounted(row, zone_->now()), rows.past[core::hour_of(published(row))]);
  }

  void retire_one(LogRow& row, Retired& retired) {
    const Sequence sequence = row.entry.sequence;
    const StoreTime now = zone_->now();
    std::vector<core::Standing> standings;
    for (const auto& [name, rows] : zone_->queues) {
      if (!rows.feed.contains(sequence)) continue;
      const Stored* stored = rows.standing(sequence);
      standings.push_back(
          stored ? core::Standing{stored->record.state, stored->stamp, stored->record.reply_due}
                 : core::Standing{State::waiting, row.entry.appended_at});
    }
    switch (core::may_forget(row.stage, row.stage_since, standings, zone_->ages, now)) {
      case core::Forget::nothing: return;
      case core::Forget::body:
        row.entry.body.reset();
        row.stage = core::Stage::body_retired;
        row.stage_since = now;
        ++retired.bodies;
        return;
      case core::Forget::records:
        for (auto& [name, rows] : zone_->queues) {
          if (rows.feed.contains(sequence)) remember(rows, row_of(rows, sequence));
          rows.forget_records(sequence);
          if (const auto item = rows.feed.find(sequence); item != rows.feed.end()) {
            rows.look_at(sequence, item->second, std::nullopt);
            rows.feed.erase(item);
          }
        }
        row.stage = core::Stage::records_dropped;
        row.stage_since = now;
        ++retired.records;
        return;
      case core::Forget::id:
        for (auto& [name, rows] : zone_->queues)
          if (row.entry.duplicates > 0 && rows.has(row.entry))
            rows.past[core::hour_of(row.entry.published_at)].duplicates_at_append +=
                row.entry.duplicates;
        zone_->forgotten.add(sequence.value);
        zone_->ids.erase(row.entry.id);
        zone_->log.erase(sequence);  // `row` ends here
        ++retired.ids;
        return;
    }
  }

  const std::string uuid_ = random_uuid();
  std::shared_ptr<MemoryZone> zone_;  // shared with the memberships, which may outlive the store
};

}  // namespace

std::unique_ptr<Store> open_memory(std::shared_ptr<Clock> clock) {
  return std::make_unique<MemoryStore>(std::move(clock));
}

}  // namespace once::store
