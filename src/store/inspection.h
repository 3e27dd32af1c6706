// What people and the doctor ask of a store: counts, rows, totals and damage. Nothing here changes the zone.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/audit.h"
#include "once/doctor.h"
#include "once/view.h"
#include "store/log.h"

namespace once::store {

using core::Sequence;
using core::Stored;
using core::StoreTime;

struct Counts {
  std::map<State, std::uint64_t> tasks{};  // every state is present
  std::uint64_t workers{};
  std::optional<Duration> oldest_waiting{};
  std::optional<Duration> oldest_in_doubt{};
};

struct Row {
  Entry entry{};  // without body; empty in a ledger-only queue
  std::string queue{};
  std::string key{};
  std::optional<Stored> stored{};      // nullopt if the task was never claimed
  bool own = false;                    // `stored` is the entry's own record, not the one of its key
  std::optional<core::Order> order{};  // an order that no worker has applied yet
  bool damaged =
      false;  // its record cannot be read; of it `stored` has the state, if that is known
  std::string contradicts{};  // what the store notes of the record, and the record denies
};

// When the task was published; in a ledger-only queue, when it was first claimed.
inline Time published(const Row& row) {
  if (row.entry.sequence) return row.entry.published_at;
  if (!row.stored) return {};
  const core::Record& record = row.stored->record;
  return record.attempts.empty() ? record.since : record.attempts.front().started_at;
}

// The state that people see, by one rule for every store. A task is scheduled before its
// not-before, and waiting while an order waits for a worker. Otherwise its record says the state.
inline State state_of(const Row& row, StoreTime now) {
  if (!row.stored) return row.entry.waits_at(now) ? State::scheduled : State::waiting;
  const State state = row.stored->record.state;
  return row.order && (state == State::dead || state == State::in_doubt) ? State::waiting : state;
}

// What the row counts as in an audit.
inline core::AccountedTask accounted(const Row& row, StoreTime now) {
  core::AccountedTask task{.state = state_of(row, now)};
  if (row.stored && !row.damaged) task.record = &row.stored->record;
  if (row.entry.sequence) task.ready = row.entry.published_at + row.entry.delay;
  return task;
}

struct RowFilter {
  std::string queue{};
  std::optional<State> state{};  // by state_of()
  std::string topic{};
  std::optional<Time> since{};
  Sequence up_to{};   // no row of a later entry; zero: no bound
  bool lean = false;  // large results and logs may be missing from the records
};

// What a store can say about a queue without counting its tasks.
struct QueueGlance {
  std::uint64_t waiting{};  // entries that were never handed over
  std::uint64_t workers{};
  Sequence open_after{};  // every unsettled entry is after this one
  bool readable = true;   // a page of rows costs no more than its length
};

// What only a store can see: its files, server, streams and other processes. It does not judge
// tasks.
struct Examination {
  std::vector<Finding> findings{};
  std::vector<std::string> checked{};
  Sequence last{};        // of the log
  bool countable = true;  // counts(), unrouted() and rows by state cost little
  std::map<std::string, QueueGlance> queues{};  // where they do not
};

// Where a store contradicts itself: an index, a counter, a column or a digest.
struct Damage {
  std::string queue{};  // empty: none
  Sequence sequence{};  // of the task; zero: none
  std::string task{};   // its id or key, where it is known
  std::string what{};   // for a person
  std::string harm{};   // what can come of it
};

class Inspection {
 public:
  virtual ~Inspection() = default;
  virtual Result<Counts> counts(std::string_view queue) = 0;
  // How many workers are alive, as in counts(). A store overrides it if it can answer cheaper.
  virtual Result<std::uint64_t> workers(std::string_view queue) {
    const auto counted = counts(queue);
    if (!counted) return counted.error();
    return counted->workers;
  }
  // Whether every task of the queue is settled and none owes a reply. This default does not know of
  // replies, so each store overrides it.
  virtual Result<bool> all_settled(std::string_view queue) {
    const auto counted = counts(queue);
    if (!counted) return counted.error();
    for (const auto& [state, tasks] : counted->tasks)
      if (!core::settled(state) && tasks > 0) return false;
    return true;
  }
  // The number of entries that match no queue. Entries of Once's own topics are not counted.
  virtual Result<std::uint64_t> unrouted() = 0;
  // Rows in (queue, sequence) order, in a ledger-only queue in (queue, key) order. `after` is the
  // last row of the last page. At most `limit` rows; fewer if they are large.
  struct Page {
    std::vector<Row> rows{};
    bool more = false;  // there may be
  };
  virtual Result<Page> rows(const RowFilter& filter, const Row* after, std::size_t limit) = 0;
  // The totals of the tasks that retention removed from a queue. At any time, even after a crash, a
  // task is counted either here or in rows().
  virtual Result<core::Past> past(std::string_view queue) = 0;

  // Reads only, and no more than a bounded part of the tasks unless `options` say deep.
  virtual Result<Examination> examine(const DoctorOptions&) { return Examination{}; }
  // Checks whether the store contradicts itself. Reads only. A quick check is one query, for
  // example for a counter that was set back. A deep check also covers every digest and every index,
  // one bounded page per call. Crashes alone never cause damage. `after` is empty or the `next` of
  // the last page.
  enum class Depth { quick, deep };
  struct VerifyPage {
    std::vector<Damage> damages{};
    std::string next{};  // empty: the end
    double done{};       // the part that is checked, from 0 to 1, approximately
  };
  virtual Result<VerifyPage> verify(Depth depth, const std::string& after) = 0;
};

}  // namespace once::store
