// The tasks of queues as people see them. Rows are read a page of the log at a time, with the records of
// just these entries. Any thread may call it.
#pragma once

#include "store/nats/log/task_log.h"
#include "store/nats/queues/queue_status.h"

namespace once::store::nats {

class RowReader {
 public:
  RowReader(ZoneConnection& zone, QueueRegistry& registry, const TaskLog& log,
            const PastTotals& past, const ValueChunks& values, QueueStatus& status)
      : zone_(zone),
        registry_(registry),
        log_(log),
        past_(past),
        values_(values),
        status_(status) {}

  Result<Inspection::Page> rows(const RowFilter& filter, const Row* after, std::size_t limit);

 private:
  struct Call;     // one call of rows()
  struct LogPage;  // a page of the log with its records
  // Each adds the rows of one queue after `after`. True if there are more of them.
  Result<bool> add_log(const KnownQueue& queue, const Row* after, Call& call);
  Result<bool> add_ledger_only(const KnownQueue& queue, const Row* after, Call& call);
  Result<bool> add_foreign(const KnownQueue& queue, const Row* after, Call& call);
  // Adds the rows of one page of the log. Returns where to go on; zero is the end.
  Result<Sequence> add_page(const KnownQueue& queue, Sequence after, Call& call);
  Result<LogPage> read_page(const KnownQueue& queue, Sequence after, std::size_t limit) const;
  // nullopt if the entry is none of the queue's tasks, or the filter leaves it out.
  Result<std::optional<Row>> row_of(const KnownQueue& queue, const LogPage& page, std::size_t i,
                                    const Call& call) const;

  ZoneConnection& zone_;
  QueueRegistry& registry_;
  const TaskLog& log_;
  const PastTotals& past_;
  const ValueChunks& values_;
  QueueStatus& status_;
};

}  // namespace once::store::nats
