#include "store/nats/feed/clock_redelivery.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace once::store::nats {

std::shared_ptr<Redelivery> ClockRedelivery::under(const std::shared_ptr<Clock>& clock) {
  using Lists = std::map<std::weak_ptr<Clock>, std::shared_ptr<Redelivery>, std::owner_less<>>;
  static std::mutex mutex;
  static Lists lists;
  const std::lock_guard lock(mutex);
  std::erase_if(lists, [](const auto& list) { return list.first.expired(); });
  auto& list = lists[clock];
  if (!list) list = std::make_shared<ClockRedelivery>();
  return list;
}

void ClockRedelivery::keep(const std::string& consumer, PulledMessage message, StoreTime due) {
  const std::lock_guard lock(mutex_);
  // A wake takes the place of an earlier one of its entry.
  if (message.wake)
    std::erase_if(items_, [&](const auto& item) {
      return item.second.message.wake && item.second.consumer == consumer &&
             item.second.message.sequence == message.sequence;
    });
  std::string reply = message.reply;
  items_[std::move(reply)] = {consumer, std::move(message), due};
}

void ClockRedelivery::handed_over(const std::string& consumer, const PulledMessage& message,
                                  const Entry& entry, StoreTime due) {
  PulledMessage copy = message;
  if (!copy.wake) copy.entry = entry;
  copy.handed_over = true;
  copy.after = {};
  keep(consumer, std::move(copy), due);
}

bool ClockRedelivery::put_off(const std::string& consumer, PulledMessage& message, Duration again,
                              ZoneClock& clock) {
  const StoreTime due = clock.now() + std::max(again, Duration{0});
  if (message.sequence) {
    keep(consumer, std::move(message), due);
    return true;
  }
  const std::lock_guard lock(mutex_);
  const auto found = items_.find(message.reply);
  if (found != items_.end()) found->second.due = due;
  return true;
}

void ClockRedelivery::answered(const std::string& reply) {
  const std::lock_guard lock(mutex_);
  items_.erase(reply);
}

void ClockRedelivery::wake_removed(const std::string& consumer, Sequence sequence) {
  const std::lock_guard lock(mutex_);
  std::erase_if(items_, [&](const auto& item) {
    return item.second.message.wake && item.second.consumer == consumer &&
           item.second.message.sequence == sequence;
  });
}

bool ClockRedelivery::is_due(const std::string& consumer, ZoneClock& clock) const {
  const StoreTime now = clock.now();
  const std::lock_guard lock(mutex_);
  return std::any_of(items_.begin(), items_.end(), [&](const auto& item) {
    return item.second.consumer == consumer && item.second.due <= now;
  });
}

std::vector<PulledMessage> ClockRedelivery::take_due(const std::string& consumer, ZoneClock& clock,
                                                     std::size_t limit, std::size_t again) {
  const StoreTime now = clock.now();
  const std::lock_guard lock(mutex_);
  std::vector<std::tuple<StoreTime, Sequence, std::string>> due;
  for (const auto& [reply, item] : items_)
    if (item.consumer == consumer && item.due <= now)
      due.emplace_back(item.due, item.message.sequence, reply);
  std::sort(due.begin(), due.end());
  std::set<Sequence> entries;
  std::vector<PulledMessage> taken;
  for (const auto& [when, sequence, reply] : due) {
    const auto item = items_.find(reply);
    if (!entries.contains(sequence)) {
      if (entries.size() == limit) continue;
      if (item->second.message.handed_over) {
        if (again == 0) continue;
        --again;
      }
      entries.insert(sequence);
    }
    taken.push_back(std::move(item->second.message));
    items_.erase(item);
  }
  return taken;
}

}  // namespace once::store::nats
