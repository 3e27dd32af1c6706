#include "store/nats/ledger/sole_writer.h"

namespace once::store::nats {
namespace {

// Then what is missing before them is another's, and does not come any more; and of those that are
// open others have settled most.
constexpr std::size_t kMostKnownRecords = 4096;

}  // namespace

void SoleWriter::pass_seal() {
  const std::lock_guard lock(mutex_);
  through_ = 1;
  messages_ = 1;
}

void SoleWriter::wrote(const LedgerWrite& record) {
  const std::lock_guard lock(mutex_);
  if (record.sequence <= through_) start_anew();  // the stream lost what it had
  Known& known = queues_[record.queue];
  const auto open = known.open.find(record.subject);
  if (!record.settled)
    known.open[record.subject] = record.sequence;
  else if (open != known.open.end() && open->second < record.sequence)
    known.open.erase(open);
  if (known.open.size() > kMostKnownRecords) {
    known.open.clear();
    known.seen.reset();
  }
  beyond_.emplace(record.sequence, record.is_new);
  if (beyond_.size() > kMostKnownRecords) {
    begins_ = through_ = beyond_.begin()->first - 1;
    messages_.reset();
  }
  join_on();
}

void SoleWriter::saw_all_settled(const std::string& queue, const Ledger& before) {
  const std::lock_guard lock(mutex_);
  if (before.last >= through_) {
    // Somebody removed or wrote what is not ours: the other queues may have lost some of theirs.
    if (before.last != through_ || before.messages != messages_)
      for (auto& [name, other] : queues_) other.seen.reset();
    beyond_.erase(beyond_.begin(), beyond_.upper_bound(before.last));
    begins_ = through_ = before.last;
    messages_ = before.messages;
  }
  Known& known = queues_[queue];
  known.seen = before.last;
  std::erase_if(known.open, [&](const auto& each) { return each.second <= before.last; });
  join_on();
}

bool SoleWriter::all_settled(const std::string& queue, const Ledger& now) {
  const std::lock_guard lock(mutex_);
  const Known& known = queues_[queue];
  return through_ == now.last && messages_ == now.messages && known.seen &&
         *known.seen >= begins_ && known.open.empty();
}

// With mutex_ held.
void SoleWriter::join_on() {
  while (!beyond_.empty() && beyond_.begin()->first == through_ + 1) {
    ++through_;
    if (messages_) *messages_ += beyond_.begin()->second ? 1 : 0;
    beyond_.erase(beyond_.begin());
  }
}

// With mutex_ held.
void SoleWriter::start_anew() {
  begins_ = through_ = 0;
  beyond_.clear();
  messages_.reset();
  for (auto& [name, known] : queues_) known.seen.reset();
}

}  // namespace once::store::nats
