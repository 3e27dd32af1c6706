// The seam between the engine and a store: a log, a feed of deliveries per queue, a ledger of
// records, and the zone itself. memory/ is the reference, sqlite/ the default, nats/ the store for
// many machines. All three pass tests/contract. Store, at the end of this file, has all parts.
//
// - Calls take batches, block, and answer per item; one bad item does not fail its batch. A batch
//   is not atomic. A swap by itself is.
// - A store never decides: it compares revisions, and asks the core where a rule is needed
//   (judge_append, look_again, may_forget; the Claimer that commit() is given).
// - An error with in_doubt means that the write may have happened. To find out, the caller repeats
//   an append with the same nonce, and reads a swapped record back.
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
#include "store/key_value.h"

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
  Duration delay{};                 // the task must not start earlier than this after the append
  std::optional<Duration> lives{};  // the task must not start later than this after the append
};

struct AppendResult {
  core::AppendVerdict verdict{};
  Sequence sequence{};  // of the entry in the log
  Digest digest{};      // of the entry in the log
  bool unrouted{};      // no queue's filter matches its topic
};

struct Entry {
  Sequence sequence{};
  std::string id{};
  std::string topic{};
  std::optional<Body> body{};  // nullopt if retention has removed it
  std::map<std::string, std::string> headers{};
  Digest digest{};
  Time published_at{};
  std::uint64_t duplicates{};  // how many appends were answered as duplicates of it
  StoreTime appended_at{};
  Duration delay{};                 // as in Append
  std::optional<Duration> lives{};  // as in Append

  StoreTime not_before() const { return appended_at + delay; }
  // False for an entry without a delay, even if `now` is slightly behind appended_at.
  bool waits_at(StoreTime now) const { return delay > Duration{0} && now < not_before(); }
};

class Log {
 public:
  virtual ~Log() = default;
  // An accepted item is durable when this returns. A duplicate is counted, durably, before the
  // answer. Within one batch a repeated id is a duplicate (or conflict) of the first.
  virtual std::vector<Result<AppendResult>> append(std::span<const Append> items) = 0;
  // Entries after `after` whose topic matches `filter`, in order, at most `limit`. An empty filter
  // matches all topics, also those of Once itself. May return fewer entries than there are. An
  // empty result means the end of the log.
  virtual Result<std::vector<Entry>> read(Sequence after, std::size_t limit,
                                          std::string_view filter) = 0;
  virtual Result<std::optional<Entry>> find(std::string_view id) = 0;
  // For the audit: entries without headers, and the sequences that are missing. A body that is not
  // retired is present and empty.
  struct Inventory {
    std::vector<Entry> entries{};
    // Sequences of this page that the store gave out, that retention did not remove, and that the
    // log does not have.
    core::Sequences missing{};
    Sequence next{};  // `after` of the next page; zero if this is the last page
    Sequence last{};  // the last sequence that was given out, approximately
  };
  virtual Result<Inventory> inventory(Sequence after, std::size_t limit) = 0;
};

// --- Ledger ---------------------------------------------------------------------------------

// The error for a swap that would give an entry two records. Either the entry has the record of its
// key and would get an own record, or it has a settled own record and would get the record of its
// key. Nothing was written.
inline Error stands_elsewhere(Sequence sequence) {
  return {.code = Code::wrong_state,
          .message = "task #" + std::to_string(sequence.value) +
                     " has a record elsewhere by now: nothing was recorded; look again",
          .retryable = true};
}

// Where a record lives.
struct Address {
  enum class Kind {
    task,   // under the queue and the task's key; `sequence` names the entry.
            // In a ledger-only queue: under its key, without an entry (sequence zero);
            // such records are counted and listed like tasks.
    entry,  // an own record: under the queue and the entry's sequence
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
  Revision expected{};  // zero: there must be no record
  Record record{};
  // The handle of the delivery that this write answers; empty if there is none. The store answers
  // the delivery after the record is durable. If look_again(record) returns nullopt, the delivery
  // is finished. Otherwise the store hands the entry over again after that delay.
  std::string handle{};
};

struct SwapResult {
  bool written = false;
  std::optional<Stored> current{};  // written: the record with its revision and stamp;
                                    // refused: the record that is there, or nullopt
};

// The ledger keeps a record with all its results, however large these are. A swap does not write an
// unchanged large result again. If a record is removed, its large results are removed with it.
class Ledger {
 public:
  virtual ~Ledger() = default;
  virtual std::vector<Result<SwapResult>> swap(std::span<const Swap> items) = 0;
  virtual std::vector<Result<std::optional<Stored>>> get(std::span<const Address> items) = 0;
  // For the audit: records about entries that the log does not have. Reads some records after
  // `after`, which is empty or the `next` of the last page.
  struct Strays {
    std::vector<Address> records{};
    std::string next{};  // empty: the end
  };
  virtual Result<Strays> strays(std::string_view queue, const std::string& after) = 0;
};

// --- Feed -----------------------------------------------------------------------------------

// The engine's side of a claim; Intake::Round implements it. A store that can do so reads the
// record, asks the Claimer and writes the claim in one commit.
class Claimer {
 public:
  virtual ~Claimer() = default;
  // The address of the entry's record. Returns nullopt if the entry has no key (a path is missing).
  virtual std::optional<Address> address(const struct Entry& entry) = 0;
  // Returns the record to write over `stored`, or nullopt if the store must not claim the entry.
  // `stored` is null if there is no record. `order` is null if no wake brought one. The store calls
  // this in the middle of a write, so it must not call the store.
  virtual std::optional<Record> claim(const Entry& entry, const Stored* stored,
                                      const core::Order* order, core::Now now) = 0;
};

struct Delivery {
  Entry entry{};
  std::string handle{};  // the store's own text; the caller returns it in Swap or Settlement
  // The record at the entry's address, if the store read it. If the entry has a settled own record,
  // it is that one, and the entry is not claimed.
  std::optional<Stored> stored{};
  bool claimed = false;                // `stored` is what claim() returned, and is durable
  bool unanswered = false;             // `stored` is what claim() returned, and may be durable
  std::optional<core::Order> order{};  // the order in the wake that brought the entry
};

struct Fetch {
  std::string queue{};
  // The worker that fetches; zero if it did not join. The result is not_found if the queue that the
  // worker joined was removed, even if a new queue has its name.
  Member member{};
  std::size_t limit = 1;
  std::size_t again = SIZE_MAX;  // at most this many entries that were handed over before
  Claimer* claimer = nullptr;
  Duration wait{};         // how long to wait for the first delivery; zero: not at all
  std::stop_token stop{};  // ends the wait; after a stop request nothing is handed over
};

// The answer to a delivery that needs no write of a record.
struct Settlement {
  std::string queue{};
  Sequence sequence{};
  std::string handle{};
  std::optional<Duration> again{};  // when to hand the entry over again; nullopt: it is finished
};

// Makes the feed hand an entry over again, now.
struct Wake {
  Sequence sequence{};
  // The order stays with the entry, durably, until a delivery that carried it is answered. The
  // answer is a write of the record that is about this entry, or a Settlement that finishes it. If
  // there are two orders for one entry, the first one counts.
  std::optional<core::Order> order{};
};

class Feed {
 public:
  virtual ~Feed() = default;
  // Answers deliveries that need no write of a record. It does not change a task's state.
  virtual Result<void> settle(std::span<const Settlement> items) = 0;
  // For the sweep: entries after `after` that the feed will not hand over again although their
  // record is missing, unsettled or owes a reply. At most `limit`.
  struct OverlookedPage {
    std::vector<Sequence> sequences{};
    std::vector<Sequence> perhaps{};  // those of `sequences` that the feed may still hand over
    // Those of `sequences` that were acknowledged and have no record. An acknowledgement needs a
    // record, so these tasks may have run. The sweep must not run them again as new tasks.
    std::vector<Sequence> unrecorded{};
    Sequence next{};  // `after` of the next page; zero if this is the last page
    // All entries after `after` and up to this one are settled and owe no reply, or are scheduled
    // and were never handed over. At least `after`.
    Sequence settled{};
  };
  virtual Result<OverlookedPage> overlooked(std::string_view queue, Sequence after,
                                            std::size_t limit) = 0;
  virtual Result<void> wake(std::string_view queue, std::span<const Wake> items) = 0;
};

// --- Zone -----------------------------------------------------------------------------------

// A worker's presence in a queue. As long as the worker or a program that inherited its lock runs,
// the store knows that the worker's claims are held. A store without such a lock uses only leases.
class Membership {
 public:
  virtual ~Membership() = default;
  virtual Member number() const = 0;
  virtual int inheritable_fd() const = 0;  // the lock that programs inherit; -1 if there is none
};

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

// The error of add_queue() for a queue on a stream of others, in a store that has no streams.
inline Error has_no_streams(const Queue& queue) {
  return {
      .code = Code::invalid_input,
      .message = "queue '" + queue.name + "': the stream '" + queue.stream +
                 "' can only be taken by a zone on NATS JetStream; nothing was added. Open such "
                 "a zone, or leave out the stream.",
      .reason = Reason::stream_needs_nats,
      .facts = {{"queue", queue.name}, {"stream", queue.stream}}};
}

class Meta {
 public:
  virtual ~Meta() = default;
  virtual std::string uuid() = 0;
  virtual StoreTime now() = 0;
  virtual Time wall() = 0;

  struct QueueAdded {
    bool added = false;  // false: the name is taken by `existing`, which did not change
    Queue existing{};
    std::uint64_t found{};  // tasks of the log that it matches
  };
  virtual Result<QueueAdded> add_queue(const Queue& queue) = 0;
  // Replaces the definition of the queue of that name if it is `expected`. Returns false if it is
  // another one. The caller ensures that topic, key, from, stream and ledger do not change. Waiting
  // fetches see the change at once. The same call again finishes a change that was cut off.
  virtual Result<bool> set_queue(const Queue& queue, const Queue& expected) = 0;
  virtual Result<std::vector<Queue>> queues() = 0;
  virtual Result<void> remove_queue(std::string_view name) = 0;

  virtual Result<std::unique_ptr<Membership>> join(std::string_view queue,
                                                   std::string_view worker) = 0;

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

  virtual Result<Retention> retention() = 0;
  virtual Result<void> set_retention(const Retention& ages) = 0;
  // Applies may_forget() to a page of entries after `after`. The first page also applies it to the
  // records of ledger-only queues, and removes expired values of key_values().
  struct RetirePage {
    Retired retired{};
    Sequence next{};  // zero: the end
  };
  virtual Result<RetirePage> retire(Sequence after, std::size_t limit) = 0;
  // The totals of the tasks that retention removed from a queue. At any time, even after a crash, a
  // task is counted either here or in rows().
  virtual Result<core::Past> past(std::string_view queue) = 0;
};

// --- Health ---------------------------------------------------------------------------------

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

class Store : public Log, public Ledger, public Feed, public Meta {
 public:
  virtual KeyValue& key_values() = 0;  // lives as long as the store

  struct CommitResult {
    std::vector<Result<SwapResult>> swapped{};
    Result<std::vector<Delivery>> delivered = std::vector<Delivery>{};
  };
  // Writes the records, then hands over deliveries. A store does both in one commit if it can. If that
  // commit fails, both parts return its error.
  //
  // The store hands over entries that no worker has received and whose not-before has passed. It also
  // hands over entries that are due again. A paused queue hands over nothing. If a delivery is not
  // answered, the store hands the entry over again after the queue's lease, or at once if the store
  // sees that the worker is gone. A store may leave deliveries unclaimed; the caller then claims them
  // by swap(). If `delivered` is an error with in_doubt, every claim that the Claimer returned may be
  // durable.
  //
  // A commit with records does not wait for a delivery. A store may then hand over fewer deliveries
  // than are due, or none.
  virtual CommitResult commit(std::span<const Swap> records, const Fetch& request) = 0;
  // A commit without records.
  Result<std::vector<Delivery>> fetch(const Fetch& request) {
    return std::move(commit({}, request).delivered);
  }

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
  // The entry of that sequence in the queue's source: the zone's log, or the stream of others that
  // the queue is on. The caller knows that the entry belongs to the queue. Returns nullopt if the
  // entry is gone.
  virtual Result<std::optional<Entry>> entry(std::string_view, Sequence sequence) {
    auto entries = read(Sequence{sequence.value - 1}, 1, {});
    if (!entries) return entries.error();
    if (entries->empty() || entries->front().sequence != sequence) return std::optional<Entry>{};
    return std::optional<Entry>(std::move(entries->front()));
  }
};

}  // namespace once::store
