// Forgets tasks of the log, in an order that a crash may cut anywhere: the note that the id is known is
// written before the task goes, and goes last. Any thread may call it.
#pragma once

#include <span>
#include <vector>

#include "store/nats/log/task_log.h"
#include "store/nats/retention/past_totals.h"
#include "store/nats/retention/record_remover.h"

namespace once::store::nats {

class LogRetention {
 public:
  LogRetention(ZoneConnection& zone, const TaskLog& log, PastTotals& past)
      : zone_(zone), log_(log), past_(past) {}

  // Forgets what is old enough in a page of the log after `after`.
  Result<Meta::RetirePage> retire(const std::vector<KnownQueue>& queues, const Retention& ages,
                                  Sequence after, std::size_t limit);

 private:
  // What may be forgotten of an entry, and the records that go with it.
  struct Forgettable {
    LogEntry entry{};
    core::Forget forget{};
    std::vector<RecordAt> records{};
    std::vector<std::pair<const KnownQueue*, Row>> rows{};  // as its queues have it
    std::vector<core::Standing> standings{};
  };
  using Items = std::vector<const Forgettable*>;
  class Records;  // of some entries in all queues

  Result<std::vector<LogEntry>> read_page(Sequence after, std::size_t limit);
  Result<std::vector<Forgettable>> forgettable(const std::vector<KnownQueue>& queues,
                                               const Retention& ages, std::vector<LogEntry> entries,
                                               bool by_leader);
  Result<Takings> takings_of(core::Forget step, const Items& items,
                             const std::vector<KnownQueue>& queues);
  // The same step for many entries, in bursts. Each returns for how many it was done. For the others
  // another process was faster.
  Result<std::uint64_t> forget(core::Forget step, const Items& items);
  Result<std::uint64_t> forget_ids(const Items& items);
  Result<std::uint64_t> forget_bodies(const Items& items);
  Result<std::uint64_t> forget_records(const Items& items);
  Result<std::uint64_t> replace(const Items& items, core::Stage stage);

  ZoneConnection& zone_;
  const TaskLog& log_;
  PastTotals& past_;
};

}  // namespace once::store::nats
