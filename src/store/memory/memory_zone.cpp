#include "store/memory/memory_zone.h"

#include <algorithm>
#include <chrono>

#include "core/names.h"

namespace once::store::memory {

void FeedItem::keep(core::Order wanted, StoreTime now) {
  if (order) return;
  order = std::move(wanted);
  ordered_at = now;
  carried = 0;
}

void FeedItem::drop_order() { order.reset(); }

void QueueRows::look_at(Sequence sequence, FeedItem& item, std::optional<StoreTime> when) {
  if (item.due) due.erase({*item.due, sequence});
  item.due = when;
  if (when) due.insert({*when, sequence});
}

const Stored* QueueRows::find(const Address& at) const {
  switch (at.kind) {
    case Address::Kind::task: {
      const auto found = keys.find(at.key);
      return found == keys.end() ? nullptr : &found->second;
    }
    case Address::Kind::entry: {
      const auto found = entries.find(at.sequence);
      return found == entries.end() ? nullptr : &found->second;
    }
    case Address::Kind::lone: {
      const auto found = lone.find(at.key);
      return found == lone.end() ? nullptr : &found->second;
    }
  }
  return nullptr;
}

const Stored* QueueRows::standing(Sequence sequence) const {
  if (const auto own = entries.find(sequence); own != entries.end()) return &own->second;
  const auto key = key_of.find(sequence);
  return key == key_of.end() ? nullptr : &keys.at(key->second);
}

bool QueueRows::has(const Entry& entry) const {
  return entry.sequence.value >= definition.from.value_or(0) && matches(entry.topic);
}

bool QueueRows::matches(std::string_view topic) const {
  return !definition.ledger && core::matches(definition.topic, topic);
}

void QueueRows::put(const Address& at, Stored stored) {
  switch (at.kind) {
    case Address::Kind::task:
      if (const auto old = keys.find(at.key); old != keys.end())
        key_of.erase(old->second.record.sequence);
      if (stored.record.sequence) key_of[stored.record.sequence] = at.key;
      keys[at.key] = std::move(stored);
      return;
    case Address::Kind::entry: entries[at.sequence] = std::move(stored); return;
    case Address::Kind::lone: lone[at.key] = std::move(stored); return;
  }
}

void QueueRows::forget_records(Sequence sequence) {
  entries.erase(sequence);
  if (const auto key = key_of.find(sequence); key != key_of.end()) {
    keys.erase(key->second);
    key_of.erase(key);
  }
}

StoreTime MemoryZone::now() {
  const auto reading =
      clock ? clock->now().time_since_epoch()
            : std::chrono::floor<Duration>(std::chrono::steady_clock::now().time_since_epoch());
  last_now = std::max(last_now, StoreTime{reading});
  return last_now;
}

Time MemoryZone::wall() const {
  return clock ? clock->now() : std::chrono::floor<Duration>(std::chrono::system_clock::now());
}

QueueRows* MemoryZone::queue(std::string_view name) {
  const auto found = queues.find(name);
  return found == queues.end() ? nullptr : &found->second;
}

bool MemoryZone::routed(Sequence sequence) const {
  return std::any_of(queues.begin(), queues.end(),
                     [&](const auto& queue) { return queue.second.feed.contains(sequence); });
}

bool MemoryZone::gone(const Record& record) const {
  return record.member && !workers.contains(record.member);
}

Stored MemoryZone::as_read(Stored stored) const {
  stored.holder_gone = gone(stored.record);
  return stored;
}

Stored MemoryZone::write(QueueRows& rows, const Address& at, const Record& record) {
  Stored stored{.record = record, .revision = {++last_revision.value}, .stamp = now()};
  rows.put(at, stored);
  return as_read(std::move(stored));
}

void MemoryZone::follow(QueueRows& rows, Sequence sequence, const Stored& stored) {
  const auto item = rows.feed.find(sequence);
  if (item == rows.feed.end()) return;
  std::optional<StoreTime> when;
  if (const auto again = core::look_again(stored.record)) when = stored.stamp + *again;
  if (stored.record.state == State::running && gone(stored.record)) when = now();
  if (item->second.order && !when) when = now();
  rows.look_at(sequence, item->second, when);
  changed();
}

void MemoryZone::leave(Member member) {
  workers.erase(member);
  for (auto& [name, rows] : queues)
    for (auto& [sequence, item] : rows.feed) {
      const Stored* stored = rows.standing(sequence);
      const bool left =
          stored && (stored->record.state == State::running || stored->record.reply_due);
      if (item.due && left && stored->record.member == member) rows.look_at(sequence, item, now());
    }
  changed();
}

void MemoryZone::changed() {
  ++changes;
  change.notify_all();
}

}  // namespace once::store::memory
