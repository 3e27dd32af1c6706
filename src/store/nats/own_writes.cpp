#include "store/nats/own_writes.h"

namespace once::store::nats {
namespace {

// Then what is missing before them is another's: it does not come any more.
constexpr std::size_t kMostBeyond = 4096;

}  // namespace

void OwnWrites::wrote(const Written& record) {
  const std::lock_guard lock(mutex_);
  auto& open = queues_[record.queue].open;
  if (record.settled)
    open.erase(record.subject);
  else
    open[record.subject] = record.sequence;
  if (record.sequence > through_) beyond_.emplace(record.sequence, record.is_new);
  if (beyond_.size() > kMostBeyond) {
    begins_ = through_ = beyond_.begin()->first - 1;
    messages_.reset();
  }
  join_on();
}

void OwnWrites::saw_all_settled(const std::string& queue, const Ledger& before) {
  const std::lock_guard lock(mutex_);
  Known& known = queues_[queue];
  known.seen = before.last;
  std::erase_if(known.open, [&](const auto& each) { return each.second <= before.last; });
  if (before.last < through_) return;
  beyond_.erase(beyond_.begin(), beyond_.upper_bound(before.last));
  begins_ = through_ = before.last;
  messages_ = before.messages;
  join_on();
}

bool OwnWrites::all_settled(const std::string& queue, const Ledger& now) {
  const std::lock_guard lock(mutex_);
  const Known& known = queues_[queue];
  return through_ == now.last && messages_ == now.messages && known.seen >= begins_ &&
         known.open.empty();
}

// With mutex_ held.
void OwnWrites::join_on() {
  while (!beyond_.empty() && beyond_.begin()->first == through_ + 1) {
    ++through_;
    if (messages_) *messages_ += beyond_.begin()->second ? 1 : 0;
    beyond_.erase(beyond_.begin());
  }
}

}  // namespace once::store::nats
