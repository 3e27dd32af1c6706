#include "store/sqlite/queue_set.h"

#include <algorithm>

#include "codec/record_codec.h"
#include "core/names.h"

namespace once::store::sqlite {
namespace {

constexpr std::size_t kTopicsKept = 10'000;

}  // namespace

bool KnownQueue::has(std::string_view topic, std::uint64_t sequence) const {
  return !ledger_only() && sequence >= first() && core::matches(definition.topic, topic);
}

QueueSet QueueSet::load(Connection& db, std::int64_t version) {
  QueueSet set;
  set.version_ = version;
  Query query = db.query("SELECT qid, definition FROM queue ORDER BY name");
  while (query.step())
    set.queues_.push_back({.qid = query.integer(0),
                           .definition = encoding::decode_queue(query.bytes(1)).value(),
                           .place = set.queues_.size()});
  return set;
}

const KnownQueue* QueueSet::find(std::string_view name) const {
  const auto found = std::lower_bound(queues_.begin(), queues_.end(), name,
                                      [](const KnownQueue& queue, std::string_view wanted) {
                                        return queue.definition.name < wanted;
                                      });
  return found != queues_.end() && found->definition.name == name ? &*found : nullptr;
}

const KnownQueue& QueueSet::get(std::string_view name) const {
  if (const KnownQueue* found = find(name)) return *found;
  throw Failure(
      {.code = Code::not_found,
       .message = "there is no queue " + std::string(name) + ": nothing was done; add it first"});
}

bool TopicFilter::matches(std::string_view topic) {
  if (nothing_) return false;
  if (filter_.empty()) return true;
  if (!asked_ || topic != last_) {
    asked_ = true;
    last_ = topic;
    answer_ = core::matches(filter_, topic);
  }
  return answer_;
}

const std::vector<std::size_t>& TopicRoutes::of(const QueueSet& queues, std::string_view topic) {
  if (version_ != queues.version() || known_.size() > kTopicsKept) {
    known_.clear();
    version_ = queues.version();
  }
  const auto found = known_.find(topic);
  if (found != known_.end()) return found->second;
  std::vector<std::size_t> places;
  for (const KnownQueue& queue : queues.all())
    if (!queue.ledger_only() && core::matches(queue.definition.topic, topic))
      places.push_back(queue.place);
  return known_.emplace(topic, std::move(places)).first->second;
}

}  // namespace once::store::sqlite
