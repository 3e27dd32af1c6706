#include "store/nats/queues/unrouted_count.h"

#include <algorithm>

#include "store/nats/log/entry_codec.h"

namespace once::store::nats {

void UnroutedCount::restart(const std::string& queues) {
  queues_ = queues;
  seen_ = whole_ = count_ = 0;
}

Result<void> UnroutedCount::read_on(const std::vector<KnownQueue>& queues) {
  return zone_.client.each(
      zone_.subjects.log_stream(), zone_.subjects.logs(">"), seen_ + 1, JetStreamClient::kToTheEnd,
      [&](const StreamMessage& message) -> Result<void> {
        const auto note = log_note_from(message, zone_.clock);
        seen_ = message.sequence;
        ++whole_;
        if (!note) return {};  // no once wrote it
        const bool taken = std::any_of(queues.begin(), queues.end(), [&](const KnownQueue& queue) {
          return queue.has(note->topic, note->sequence);
        });
        count_ += taken ? 0 : 1;
        return {};
      });
}

Result<std::uint64_t> UnroutedCount::count() {
  const auto queues = registry_.all();
  if (!queues) return queues.error();
  std::string signature;
  for (const KnownQueue& queue : *queues) signature += queue.consumer() + ' ';
  const std::lock_guard lock(mutex_);
  if (queues_ != signature) restart(signature);
  for (int round = 0; round < 2; ++round) {
    if (auto read = read_on(*queues); !read) return read.error();
    const auto whole = zone_.client.count(zone_.subjects.log_stream(), zone_.subjects.logs(">"));
    if (!whole) return whole.error();
    if (*whole >= whole_) break;
    restart(signature);  // some are gone since
  }
  return count_;
}

}  // namespace once::store::nats
