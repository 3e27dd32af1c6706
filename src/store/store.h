// The seam between the engine and what remembers and delivers: a log, a feed of deliveries per
// queue, a ledger of records, and a little about the zone. memory/ is the reference, sqlite/ the
// default; both pass tests/contract.
//
// - Calls take batches, block, and answer per item; one bad item does not fail its batch. A batch
//   is not atomic. A swap by itself is.
// - A store never decides: it compares revisions, and asks the core where a rule is needed
//   (judge_append, look_again, may_forget; the claim it is handed in fetch()).
// - An error with in_doubt means that the write may have happened. An append that is repeated with
//   its nonce, and a swap that is read back, find out.
// - Any thread may call anything.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "core/audit.h"
#include "core/decide.h"
#include "core/retention.h"
#include "once/doctor.h"
#include "once/view.h"

namespace once::store {

using core::Digest;
using core::Member;
using core::Nonce;
using core::Record;
using core::Revision;
using core::Sequence;
using core::Stored;
using core::StoreTime;

// --- Log ------------------------------------------------------------------------------------

struct Append {
  std::string id{};
  std::string topic{};
  Body body{};
  std::map<std::string, std::string> headers{};
  Digest digest{};
  Nonce nonce{};
  Duration delay{};                 // not to be run before so long after the append
  std::optional<Duration> lives{};  // not to be begun later than so long after the append
};

struct Appended {
  core::AppendVerdict verdict{};
  Sequence sequence{};  // of the entry in the log
  Digest digest{};      // of the entry in the log
  bool unrouted{};      // no queue's filter matches its topic
};

struct Entry {
  Sequence sequence{};
  std::string id{};
  std::string topic{};
  std::optional<Body> body{};  // none: retired
  std::map<std::string, std::string> headers{};
  Digest digest{};
  Time published_at{};
  std::uint64_t duplicates{};  // appends answered with it
  StoreTime appended_at{};
  Duration delay{};                 // as in Append
  std::optional<Duration> lives{};  // as in Append

  StoreTime not_before() const { return appended_at + delay; }
  // Of one that is to wait at all: who looks may have a clock that is a little behind.
  bool waits_at(StoreTime now) const { return delay > Duration{0} && now < not_before(); }
};

class Log {
 public:
  virtual ~Log() = default;
  // An accepted item is durable when this returns. A duplicate is counted, durably, before the
  // answer. Within one batch a repeated id is a duplicate (or conflict) of the first.
  virtual std::vector<Result<Appended>> append(std::span<const Append> items) = 0;
  // Entries after `after` whose topic matches `filter` (empty: all, Once's own too), in order, at
  // most `limit`.
  // May answer fewer than there are, but an empty answer means the end.
  virtual Result<std::vector<Entry>> read(Sequence after, std::size_t limit,
                                          std::string_view filter) = 0;
  virtual Result<std::optional<Entry>> find(std::string_view id) = 0;
  // For the audit: like read() of everything, without headers, with empty bodies where they are not
  // retired; and what is not there.
  struct Inventory {
    std::vector<Entry> entries{};
    // Given out, and forgotten by nobody, among those that the page covers.
    core::Sequences missing{};
    Sequence next{};  // where to go on; zero: the end
    Sequence last{};  // that was given out, about
  };
  virtual Result<Inventory> inventory(Sequence after, std::size_t limit) = 0;
};

// --- Ledger ---------------------------------------------------------------------------------

// Answers a swap that would give an entry a second place to stand: a record of its own beside one of
// its key that is bound to it, or one under its key beside a settled one of its own. Nothing was
// written.
inline Error stands_elsewhere(Sequence sequence) {
  return {.code = Code::wrong_state,
          .message = "task #" + std::to_string(sequence.value) +
                     " has a record elsewhere by now: nothing was recorded; look again",
          .retryable = true};
}

// Where a record lives.
struct Address {
  enum class Kind {
    task,   // under the queue and the task's key; `sequence` names the entry that is asked about.
            // In a queue that is a ledger alone: under its key, without an entry (sequence zero);
            // such records are counted and listed like tasks.
    entry,  // under the queue and the entry's own sequence: for what has none under its key
    lone,   // under the queue and a name, without a log entry (slots, elections)
  };
  Kind kind = Kind::task;
  std::string queue{};
  std::string key{};    // task: the key (the id, when the queue has no template); lone: the name
  Sequence sequence{};  // task, entry

  friend bool operator==(const Address&, const Address&) = default;
};

struct Swap {
  Address at{};
  Revision expected{};  // zero: there must be none
  Record record{};
  // Of the delivery that this answers; empty: none. Once the record is durable, and only then, the
  // delivery is done with when look_again(record) is none, else handed over again after that long.
  std::string handle{};
};

struct Swapped {
  bool written = false;
  std::optional<Stored> current{};  // written: the record with its revision and stamp;
                                    // refused: what is there instead (none: nothing)
};

// A record with all its results is kept whole, however large the results are. A swap that changes no
// large result does not write it again, and a record's values go with the record.
class Ledger {
 public:
  virtual ~Ledger() = default;
  virtual std::vector<Result<Swapped>> swap(std::span<const Swap> items) = 0;
  virtual std::vector<Result<std::optional<Stored>>> get(std::span<const Address> items) = 0;
  // For the audit: records about entries that the log does not have. Looks at some records after
  // `after`, which is empty or the `next` of the page before.
  struct Strays {
    std::vector<Address> records{};
    std::string next{};  // empty: the end
  };
  virtual Result<Strays> strays(std::string_view queue, const std::string& after) = 0;
};

// --- Feed -----------------------------------------------------------------------------------

// How the engine claims, handed to fetch() so that a store that can do so reads, asks and writes in
// one commit.
class Claimer {
 public:
  virtual ~Claimer() = default;
  // Where the entry's record lives; none: the entry has no key (a path is missing).
  virtual std::optional<Address> address(const struct Entry& entry) = 0;
  // The record to write over what is stored (null: nothing); none: do not claim. `order` came with
  // the wake that hands the entry over (null: none did). Called in the middle of a write: must not
  // call the store.
  virtual std::optional<Record> claim(const Entry& entry, const Stored* stored,
                                      const core::Order* order, core::Now now) = 0;
};

struct Delivery {
  Entry entry{};
  std::string handle{};  // the store's own; give it back in Swap or Settlement
  // What the ledger holds at the entry's address, if it was read. An entry with a settled record of
  // its own comes with that, and is not claimed.
  std::optional<Stored> stored{};
  bool claimed = false;                // `stored` is what claim() gave and is durable
  bool unanswered = false;             // `stored` is what claim() gave, and may be durable
  std::optional<core::Order> order{};  // what the wake that hands it over carries
};

struct Fetch {
  std::string queue{};
  // Who asks; zero: nobody who joined. not_found when the queue that it joined was removed, though
  // there may be another of that name by now.
  Member member{};
  std::size_t limit = 1;
  std::size_t again = SIZE_MAX;  // how many of them may be entries that were handed over before
  Claimer* claimer = nullptr;
  Duration wait{};         // how long to wait for the first one; zero: do not
  std::stop_token stop{};  // ends the wait; once it is requested, nothing is handed over
};

struct Settlement {
  std::string queue{};
  Sequence sequence{};
  std::string handle{};
  std::optional<Duration> again{};  // none: done with
};

// Makes the feed hand an entry over again, now.
struct Wake {
  Sequence sequence{};
  // Stays with the entry, durably, until a delivery that carried it is answered by a write under
  // the entry's own record, or settled as done with. Of two orders for one entry the first stands.
  std::optional<core::Order> order{};
};

class Feed {
 public:
  virtual ~Feed() = default;
  // Hands over entries of the queue that nobody has been handed and whose not-before has come, or
  // whose time to be looked at again has come. A paused queue hands nothing over. Handed over and not answered, an entry comes again after the queue's lease, or
  // at once when the store sees that the worker is gone. A store may leave deliveries unclaimed;
  // the caller then claims by swap(). An error with in_doubt means that everything that claim() gave
  // may be durable.
  virtual Result<std::vector<Delivery>> fetch(const Fetch& request) = 0;
  // Answers deliveries for which there was nothing to write.
  virtual Result<void> settle(std::span<const Settlement> items) = 0;
  // For the sweeper: entries after `after` that the feed counts as handed over and done with while
  // their record is missing, unsettled or owes a reply. At most `limit`; `next` is where to go on
  // (zero: the end).
  struct Overlooked {
    std::vector<Sequence> sequences{};
    std::vector<Sequence> perhaps{};  // of these: overdue, and may be handed over all the same
    // Of these: they were answered as done with, which needs a record, and the leader has none. They
    // may have run. The sweep must not make them run again as if they were new.
    std::vector<Sequence> unrecorded{};
    Sequence next{};
    // All entries after `after` and up to this one are settled and owe no reply, or are scheduled and
    // were never handed over; at least `after`.
    Sequence settled{};
  };
  virtual Result<Overlooked> overlooked(std::string_view queue, Sequence after,
                                        std::size_t limit) = 0;
  virtual Result<void> wake(std::string_view queue, std::span<const Wake> items) = 0;
};

// --- Zone -----------------------------------------------------------------------------------

// A worker's presence. While it lives (and the inherited lock with it), claims made under its
// number are known to be held; a store without such a lock goes by leases alone.
class Membership {
 public:
  virtual ~Membership() = default;
  virtual Member number() const = 0;
  virtual int inheritable_fd() const = 0;  // -1: none. Programs inherit it.
};

struct Counts {
  std::map<State, std::uint64_t> tasks{};  // every state is present
  std::uint64_t workers{};
  std::optional<Duration> oldest_waiting{};
  std::optional<Duration> oldest_in_doubt{};
};

struct Row {
  Entry entry{};  // without body; empty in a queue that is a ledger alone
  std::string queue{};
  std::string key{};
  std::optional<Stored> stored{};      // none: never claimed
  bool own = false;                    // `stored` is the entry's own record, not the one of its key
  std::optional<core::Order> order{};  // waits to be carried out
  bool damaged =
      false;  // its record cannot be read; of it `stored` has the state, if that is known
  std::string contradicts{};  // what the store notes of the record, and the record denies
};

// When it was published; of a ledger alone, when it was first claimed.
inline Time published(const Row& row) {
  if (row.entry.sequence) return row.entry.published_at;
  if (!row.stored) return {};
  const core::Record& record = row.stored->record;
  return record.attempts.empty() ? record.since : record.attempts.front().started_at;
}

// Where a row stands, by one rule for every store: scheduled before its not-before, waiting while an
// order waits for a worker, else what its record says.
inline State state_of(const Row& row, StoreTime now) {
  if (!row.stored) return row.entry.waits_at(now) ? State::scheduled : State::waiting;
  const State state = row.stored->record.state;
  return row.order && (state == State::dead || state == State::in_doubt) ? State::waiting : state;
}

// What it counts for in an audit.
inline core::Accounted accounted(const Row& row, StoreTime now) {
  core::Accounted task{.state = state_of(row, now)};
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

// Answers add_queue() of a queue on a stream of others' in a store that has none.
inline Error has_no_streams(const Queue& queue) {
  return {.code = Code::invalid_input,
          .message = "queue '" + queue.name + "': the stream '" + queue.stream +
                     "' can only be taken by a zone on NATS JetStream; nothing was added. Open the "
                     "zone with --store nats://HOST:PORT/ZONE, or leave out the stream."};
}

class Meta {
 public:
  virtual ~Meta() = default;
  virtual std::string uuid() = 0;
  virtual StoreTime now() = 0;
  virtual Time wall() = 0;

  struct QueueAdded {
    bool added = false;  // false: `existing` stands, whatever it says
    Queue existing{};
    std::uint64_t found{};  // tasks of the log that it matches
  };
  virtual Result<QueueAdded> add_queue(const Queue& queue) = 0;
  // Changes the definition of a queue, known by its name, when it is `expected` now; false: it is
  // another one. The caller has seen to it that topic, key, from, stream and ledger stay as they are.
  // Waiting fetches see it at once. The same definition again finishes a change that was cut off.
  virtual Result<bool> set_queue(const Queue& queue, const Queue& expected) = 0;
  virtual Result<std::vector<Queue>> queues() = 0;
  virtual Result<void> remove_queue(std::string_view name) = 0;

  virtual Result<std::unique_ptr<Membership>> join(std::string_view queue,
                                                   std::string_view worker) = 0;

  virtual Result<Counts> counts(std::string_view queue) = 0;
  // How many are alive now, as counts() says; for less where a store can.
  virtual Result<std::uint64_t> workers(std::string_view queue) {
    const auto counted = counts(queue);
    if (!counted) return counted.error();
    return counted->workers;
  }
  // Whether every task of the queue is settled, as counts() says, and none owes a reply (of which this
  // knows nothing: each store adds it); for less where a store can.
  virtual Result<bool> all_settled(std::string_view queue) {
    const auto counted = counts(queue);
    if (!counted) return counted.error();
    for (const auto& [state, tasks] : counted->tasks)
      if (!core::settled(state) && tasks > 0) return false;
    return true;
  }
  // Entries that no queue takes; those of Once's own topics are not counted.
  virtual Result<std::uint64_t> unrouted() = 0;
  // Rows in (queue, sequence) order, in a queue that is a ledger alone in (queue, key) order;
  // `after` is the last row of the page before. At most `limit`, fewer where they are large.
  struct Page {
    std::vector<Row> rows{};
    bool more = false;  // there may be
  };
  virtual Result<Page> rows(const RowFilter& filter, const Row* after, std::size_t limit) = 0;

  virtual Result<Retention> retention() = 0;
  virtual Result<void> set_retention(const Retention& ages) = 0;
  // Applies may_forget() to a page of entries after `after`, and with the first page to the records
  // of queues that are ledgers alone.
  struct RetirePage {
    Retired retired{};
    Sequence next{};  // zero: the end
  };
  virtual Result<RetirePage> retire(Sequence after, std::size_t limit) = 0;
  // The totals of what retention took of a queue's tasks, without their numbers. A task is counted there or is one of rows(),
  // whenever the store stops.
  virtual Result<core::Past> past(std::string_view queue) = 0;
};

// --- Health ---------------------------------------------------------------------------------

// What of a queue can be told without counting its tasks.
struct QueueGlance {
  std::uint64_t waiting{};  // never handed over
  std::uint64_t workers{};
  Sequence open_after{};  // whatever is not settled comes after it
  bool readable = true;   // a page of rows costs no more than its length
};

// What only a store can see of itself and around it. It judges its own settings and nothing of tasks.
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

class Store : public Log, public Ledger, public Feed, public Meta {
 public:
  // swap(), and then what fetch() hands over now. A store does both in one commit, or leaves the
  // fetch to the caller and hands over nothing. When the commit fails, both have its error.
  struct TurnResult {
    std::vector<Result<Swapped>> swapped{};
    Result<std::vector<Delivery>> delivered = std::vector<Delivery>{};
  };
  virtual TurnResult turn(std::span<const Swap> items, const Fetch&) {
    return {.swapped = swap(items)};
  }
  virtual bool turns() const { return false; }  // whether turn() hands anything over

  // Reads only, and no more than a bounded part of the tasks unless `options` say deep.
  virtual Result<Examination> examine(const DoctorOptions&) { return Examination{}; }
  // Compares what the store holds with what it holds elsewhere about the same. Quick: what one query
  // tells, such as a counter that was set back. Deep: also every digest and every index, a bounded part
  // per call. A store that only crashes, however often, has no damage. Reads only. `after` is empty or
  // the `next` of the page before.
  enum class Depth { quick, deep };
  struct Verified {
    std::vector<Damage> damages{};
    std::string next{};  // empty: the end
    double done{};       // of 1, about
  };
  virtual Result<Verified> verify(Depth depth, const std::string& after) = 0;
  // The entry of that sequence where the queue takes its tasks from, bound to be one of its own; none:
  // there is none any more. Sequences of a queue on a stream of others' are that stream's.
  virtual Result<std::optional<Entry>> entry(std::string_view, Sequence sequence) {
    auto entries = read(Sequence{sequence.value - 1}, 1, {});
    if (!entries) return entries.error();
    if (entries->empty() || entries->front().sequence != sequence) return std::optional<Entry>{};
    return std::optional<Entry>(std::move(entries->front()));
  }
};

}  // namespace once::store
