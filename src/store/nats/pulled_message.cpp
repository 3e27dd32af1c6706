#include "store/nats/pulled_message.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace once::store::nats {

std::string nak(Duration delay) {
  if (delay <= Duration{0}) return "-NAK";
  return "-NAK {\"delay\":" + std::to_string(delay.count()) + "000000}";
}

// $JS.ACK.<stream>.<consumer>.<times>.<sequence>.<delivery>.<time>.<pending>, and since 2.10 perhaps
// with <domain>.<account> before the stream and a random token at the end.
std::optional<AckSubject> ack_subject(std::string_view reply) {
  std::vector<std::string> tokens;
  for (std::size_t at = 0; at <= reply.size();) {
    const std::size_t dot = std::min(reply.find('.', at), reply.size());
    tokens.emplace_back(reply.substr(at, dot - at));
    at = dot + 1;
  }
  if (tokens.size() < 9 || tokens[0] != "$JS" || tokens[1] != "ACK") return std::nullopt;
  const std::size_t first = tokens.size() == 9 ? 2 : 4;
  if (tokens.size() < first + 7) return std::nullopt;
  const auto number = [&](std::size_t i) {
    return std::strtoull(tokens[first + i].c_str(), nullptr, 10);
  };
  return AckSubject{.stream = tokens[first],
                    .times = number(2),
                    .sequence = number(3),
                    .time = Time{Duration{static_cast<Duration::rep>(number(5) / 1'000'000)}}};
}

std::shared_ptr<TimeTravel> TimeTravel::under(const std::shared_ptr<Clock>& clock) {
  using Lists = std::map<std::weak_ptr<Clock>, std::shared_ptr<TimeTravel>, std::owner_less<>>;
  static std::mutex mutex;
  static Lists lists;
  const std::lock_guard lock(mutex);
  std::erase_if(lists, [](const auto& list) { return list.first.expired(); });
  auto& list = lists[clock];
  if (!list) list = std::make_shared<TimeTravel>();
  return list;
}

void TimeTravel::keep(const std::string& consumer, PulledMessage parcel, StoreTime due) {
  const std::lock_guard lock(mutex_);
  // A wake takes the place of an earlier one of its entry.
  if (parcel.wake)
    std::erase_if(items_, [&](const auto& item) {
      return item.second.parcel.wake && item.second.consumer == consumer &&
             item.second.parcel.sequence == parcel.sequence;
    });
  std::string reply = parcel.reply;
  items_[std::move(reply)] = {consumer, std::move(parcel), due};
}

bool TimeTravel::put_off(const std::string& reply, StoreTime due) {
  const std::lock_guard lock(mutex_);
  const auto found = items_.find(reply);
  if (found == items_.end()) return false;
  found->second.due = due;
  return true;
}

void TimeTravel::forget(const std::string& reply) {
  const std::lock_guard lock(mutex_);
  items_.erase(reply);
}

void TimeTravel::forget_wake(const std::string& consumer, Sequence sequence) {
  const std::lock_guard lock(mutex_);
  std::erase_if(items_, [&](const auto& item) {
    return item.second.parcel.wake && item.second.consumer == consumer &&
           item.second.parcel.sequence == sequence;
  });
}

bool TimeTravel::due(const std::string& consumer, StoreTime now) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(items_.begin(), items_.end(), [&](const auto& item) {
    return item.second.consumer == consumer && item.second.due <= now;
  });
}

std::vector<PulledMessage> TimeTravel::take(const std::string& consumer, StoreTime now,
                                            std::size_t limit, std::size_t again) {
  const std::lock_guard lock(mutex_);
  std::vector<std::tuple<StoreTime, Sequence, std::string>> due;
  for (const auto& [reply, item] : items_)
    if (item.consumer == consumer && item.due <= now)
      due.emplace_back(item.due, item.parcel.sequence, reply);
  std::sort(due.begin(), due.end());
  std::set<Sequence> entries;
  std::vector<PulledMessage> taken;
  for (const auto& [when, sequence, reply] : due) {
    const auto item = items_.find(reply);
    if (!entries.contains(sequence)) {
      if (entries.size() == limit) continue;
      if (item->second.parcel.handed_over) {
        if (again == 0) continue;
        --again;
      }
      entries.insert(sequence);
    }
    taken.push_back(std::move(item->second.parcel));
    items_.erase(item);
  }
  return taken;
}

}  // namespace once::store::nats
