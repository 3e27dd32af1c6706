// Keeps the counts of queues in memory and brings them up to date from what was written since the last
// look. Any thread may call it. A caller holds the mutex of the counts that it reads or brings up to
// date.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "store/nats/queues/queue_counts.h"
#include "store/nats/zone_connection.h"

namespace once::store::nats {

class CountsKeeper {
 public:
  explicit CountsKeeper(ZoneConnection& zone) : zone_(zone) {}

  std::shared_ptr<SharedCounts> of(
      const KnownQueue& queue);  // shared with callers that count just now
  // Reads everything that was there when the call began, of the log up to `log_up_to`. True if there was
  // something new.
  Result<bool> catch_up(const KnownQueue& queue, QueueCounts& counts, std::uint64_t log_up_to);
  // The same up to the end. Also notices what was removed.
  Result<void> bring_up_to_date(const KnownQueue& queue, QueueCounts& counts);

 private:
  // The number of the newest message of each kind; zero if there is none.
  struct Newest {
    std::uint64_t record{};
    std::uint64_t entry{};
    std::uint64_t old{};
  };
  Result<Newest> newest_of(const KnownQueue& queue) const;
  Result<bool> read_news(const KnownQueue& queue, QueueCounts& counts, std::uint64_t log_up_to);
  Result<bool> read_records(const KnownQueue& queue, QueueCounts& counts) const;
  Result<bool> agrees_with_server(const KnownQueue& queue, const QueueCounts& counts) const;

  ZoneConnection& zone_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<SharedCounts>> counts_;  // by consumer
};

}  // namespace once::store::nats
