#include "store/memory/memory_zone.h"

#include <algorithm>
#include <chrono>

#include "codec/digest.h"
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

void MemoryZone::verify(const LogRow& row, std::vector<Damage>& damages) const {
  const Entry& entry = row.entry;
  const auto tell = [&](std::string what, std::string harm) {
    damages.push_back({.sequence = entry.sequence,
                       .task = entry.id,
                       .what = "#" + std::to_string(entry.sequence.value) + ": " + what,
                       .harm = std::move(harm)});
  };
  const auto known = ids.find(entry.id);
  if (known == ids.end() || known->second != entry.sequence)
    tell("the index of ids does not lead to it",
         "a publish of the same id is accepted and runs a second time");
  bool has_records = false;
  for (const auto& [name, rows] : queues) {
    const Stored* stored = rows.standing(entry.sequence);
    if (!stored) continue;
    has_records = true;
    const Record& record = stored->record;
    if (auto wrong = core::contradiction(record, {.state = record.state,
                                                  .member = record.member,
                                                  .sequence = entry.sequence,
                                                  .revision = stored->revision,
                                                  .digest = &entry.digest});
        !wrong.empty()) {
      tell(std::move(wrong), "the task may run again, or never");
      damages.back().queue = name;
    }
  }
  if (auto wrong = core::contradiction(row.stage, entry.body.has_value(), has_records);
      !wrong.empty())
    tell(std::move(wrong), "the task cannot run, or is forgotten too early");
  if (!entry.body) return;
  const auto digest = encoding::content_digest(entry.topic, *entry.body);
  if (!digest || *digest != entry.digest)
    tell("its topic and body do not match its digest",
         "a handler gets what nobody published, or a true repetition is refused as a conflict");
}

}  // namespace once::store::memory
