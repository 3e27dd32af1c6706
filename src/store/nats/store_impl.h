// The store's parts: log.cpp, ledger.cpp, feed.cpp, pulling.cpp, wakes.cpp, queues.cpp, foreign.cpp,
// rows.cpp, retention.cpp, past.cpp, verify.cpp, membership.cpp, doctor.cpp, and nats_store.cpp, which opens it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <list>
#include <set>

#include "store/nats/batch_choice.h"
#include "store/nats/entry_codec.h"
#include "store/nats/foreign_codec.h"
#include "store/nats/jetstream_client.h"
#include "store/nats/nats_store.h"
#include "store/nats/pulled_message.h"
#include "store/nats/queue_counts.h"
#include "store/nats/sole_writer.h"
#include "store/nats/subjects.h"
#include "store/nats/watch.h"
#include "store/nats/zone_clock.h"

namespace once::store::nats {

// How many entries of the log no queue takes, as far as it was read.
struct Unrouted {
  std::mutex mutex{};
  std::string queues{};  // by which that was judged
  std::uint64_t seen{};
  std::uint64_t whole{};
  std::uint64_t count{};

  void restart(const std::string& by) {
    queues = by;
    seen = whole = count = 0;
  }
};

// What the store and its memberships share.
struct Zone {
  Zone(std::unique_ptr<RequestMux> opened, const NatsOptions& options);

  std::unique_ptr<RequestMux> exchange;
  JetStreamClient jet;
  Subjects subjects;
  ZoneClock clock;
  KnownValues values;
  std::shared_ptr<TimeTravel> travel;  // shared by the stores under one clock; null: real time

  std::mutex mutex;
  std::map<std::string, KnownQueue, std::less<>> queues;  // as they were read last
  std::map<Member, std::string> joined;      // which consumer's queue they joined, here
  std::list<std::shared_ptr<Bell>> waiting;  // fetches that wait; rung when a queue changes
  std::map<std::string, std::vector<std::shared_ptr<Slot>>> idle_pulls;  // by consumer's subject
  // By consumer; shared with who counts just now.
  std::map<std::string, std::shared_ptr<SharedTally>> tallies;
  Unrouted unrouted;                              // has a mutex of its own
  BatchChoice append_batches;                     // has a mutex of its own
  BatchChoice record_batches;                     // the same
  SoleWriter own_writes;                          // the same
  std::set<std::string> in_batches;               // ids under way in one
  bool met_duplicates = false;                    // by the last batch
  std::atomic<std::size_t> task_size{512 << 10};  // the largest that came lately; at first a guess

  std::atomic<std::uint64_t> news{};  // told so far
  void ring();                        // for everyone who waits

  Watch watch;  // last: it uses the others
};

Error no_queue(std::string_view name);
// A queue's definition, as it was read. None: there is none.
Result<std::optional<KnownQueue>> known_from(const Result<std::optional<StreamMessage>>& kept);

// Everything that the ledger of a queue holds that is a ledger alone.
struct LedgerScan {
  std::map<std::string, Stored> keys{};        // by key
  std::map<Revision, StreamMessage> parted{};  // those whose large values lie elsewhere
};

// An entry's records in one queue.
struct Standings {
  std::optional<Stored> key{};  // under its key, and about it
  std::optional<Stored> own{};
  std::optional<Error> failed{};

  void read(const StreamMessage* by_key, const StreamMessage* by_itself, Sequence sequence,
            const ZoneClock& clock);
  // The record that says how the entry stands, or null.
  const Stored* standing() const { return own ? &*own : key ? &*key : nullptr; }
};

class NatsStore final : public Store {
 public:
  NatsStore(std::shared_ptr<Zone> zone, std::string uuid)
      : zone_(std::move(zone)), uuid_(std::move(uuid)) {}

  std::vector<Result<Appended>> append(std::span<const Append> items) override;
  Result<std::vector<Entry>> read(Sequence after, std::size_t limit,
                                  std::string_view filter) override;
  Result<std::optional<Entry>> find(std::string_view id) override;
  Result<Inventory> inventory(Sequence after, std::size_t limit) override;

  std::vector<Result<Swapped>> swap(std::span<const Swap> items) override;
  std::vector<Result<std::optional<Stored>>> get(std::span<const Address> items) override;
  Result<Strays> strays(std::string_view queue, const std::string& after) override;

  Result<std::vector<Delivery>> fetch(const Fetch& request) override;
  TurnResult turn(std::span<const Swap> items, const Fetch& request) override;
  bool turns() const override { return true; }
  Result<void> settle(std::span<const Settlement> items) override;
  Result<Overlooked> overlooked(std::string_view queue, Sequence after, std::size_t limit) override;
  Result<void> wake(std::string_view queue, std::span<const Wake> items) override;

  Result<std::optional<Entry>> entry(std::string_view queue, Sequence sequence) override;

  Result<Verified> verify(Depth depth, const std::string& after) override;
  Result<Examination> examine(const DoctorOptions& options) override;

  std::string uuid() override { return uuid_; }
  StoreTime now() override { return zone_->clock.now(); }
  Time wall() override { return zone_->clock.wall(); }
  Result<QueueAdded> add_queue(const Queue& queue) override;
  Result<bool> set_queue(const Queue& queue, const Queue& expected) override;
  Result<std::vector<Queue>> queues() override;
  Result<void> remove_queue(std::string_view name) override;
  Result<std::unique_ptr<Membership>> join(std::string_view queue,
                                           std::string_view worker) override;
  Result<Counts> counts(std::string_view queue) override;
  Result<std::uint64_t> workers(std::string_view queue) override;
  Result<bool> all_settled(std::string_view queue) override;
  Result<std::uint64_t> unrouted() override;
  Result<Page> rows(const RowFilter& filter, const Row* after, std::size_t limit) override;
  Result<Retention> retention() override;
  Result<void> set_retention(const Retention& ages) override;
  Result<RetirePage> retire(Sequence after, std::size_t limit) override;
  Result<core::Past> past(std::string_view queue) override;

 private:
  // --- log.cpp
  // Of what was sent in batches: the sequences of what was stored, and what may have been.
  struct Together {
    std::map<std::size_t, std::uint64_t> stored{};
    std::set<std::size_t> unknown{};
  };
  Together append_together(std::span<const Append> items, std::vector<std::size_t> open);
  // The entry that a message of the log's stream stands for, which an append met.
  Result<std::optional<LogEntry>> log_entry(std::uint64_t message);
  Result<std::optional<LogEntry>> log_entry(Result<std::optional<StreamMessage>> kept);
  // The entry of that sequence, retired or not.
  Result<std::optional<LogEntry>> entry_at(Sequence sequence);
  // Counted before they are answered, in one burst. Answers which could not be.
  std::map<std::string_view, Error> count_duplicates(
      const std::map<std::string_view, std::uint64_t>& counts);
  Result<void> read_duplicates(std::span<Entry> entries);
  // What is in the log after `after` in the order of sequences, at most `limit`, bodies gone or not.
  Result<std::uint64_t> read_retired(std::uint64_t first, std::uint64_t last, std::size_t enough,
                                     std::vector<LogEntry>& into);
  // May answer fewer than there are; an empty answer means the end.
  Result<std::vector<LogEntry>> read_log(Sequence after, std::size_t limit,
                                         std::string_view filter);

  // --- queues.cpp
  Result<std::optional<KnownQueue>> known(std::string_view name);
  Result<KnownQueue> must_know(std::string_view name);
  // As it was read last, perhaps a while ago.
  std::optional<KnownQueue> remembered(std::string_view name);
  // The same, else must_know().
  Result<KnownQueue> recall(std::string_view name);
  void remember(std::string_view name, const std::optional<KnownQueue>& queue);
  // By a replica, which may not have heard of the newest: for hints only. In two steps, the first of
  // which goes out with what is asked next.
  RequestMux::Asked begin_all_known();
  Result<std::vector<KnownQueue>> end_all_known(RequestMux::Asked asked);
  Result<std::vector<KnownQueue>> all_known_to_the_leader();
  Result<std::vector<KnownQueue>> the_one(const std::string& name);  // or none
  std::vector<Plan> consumers_of(const KnownQueue& queue) const;     // by their streams
  Result<std::uint64_t> ensure_consumers(const KnownQueue& queue);
  // Makes them again when somebody deleted or edited one.
  Result<void> restore_consumers(const KnownQueue& queue);
  Result<void> undo_add(const KnownQueue& queue);
  // Everything of a queue whose definition is gone.
  Result<void> clear(const KnownQueue& queue);

  // --- foreign.cpp: queues on streams of others'
  // The stream as the server tells it; not_found when it is not there.
  Result<encoding::Json> source_of(const Queue& queue);
  Result<bool> has_its_stream(const KnownQueue& queue);
  // The stream is the one that the queue was made on.
  Result<void> check_stream(const KnownQueue& queue);
  // The entry of that sequence where the queue takes its tasks from; of a stream of others' also from
  // its copy.
  Result<std::optional<Entry>> entry_of(const KnownQueue& queue, Sequence sequence);
  Result<std::optional<StreamMessage>> message_of(const KnownQueue& queue, Sequence sequence);
  Result<std::optional<StreamMessage>> read_copy(const KnownQueue& queue, Sequence sequence);
  // Keeps the message in the zone; fine when it is kept already, or is gone.
  Result<void> keep_copy(const KnownQueue& queue, Sequence sequence);
  // What is left of an unsettled task whose message is gone; none: it is settled.
  Result<std::optional<Entry>> left_of(const KnownQueue& queue, Sequence sequence);
  // The note for the record that is to be written.
  Result<std::string> note_for(const KnownQueue& queue, const Swap& item);
  // Before a record is written: a note of its message, and a copy of it where the record says dead or
  // held.
  Result<void> prepare_foreign(const KnownQueue& queue, const Swap& item, Outgoing& record);
  struct ForeignTask {
    Entry entry{};  // of a message that is gone, what its record notes
    bool gone = false;
    std::string key{};
    std::optional<Stored> key_record{};
    std::optional<Stored> own_record{};

    const Stored* standing() const {
      if (own_record) return &*own_record;
      return key_record ? &*key_record : nullptr;
    }
  };
  // All that the stream or the ledger knows, by sequence, without bodies.
  Result<std::map<Sequence, ForeignTask>> foreign_tasks(const KnownQueue& queue);
  // Which messages up to `last` the stream dropped before the queue was handed them. Only for a queue
  // that takes all of its stream.
  Result<core::Sequences> dropped_by_stream(const KnownQueue& queue, std::uint64_t last);
  Result<Overlooked> foreign_overlooked(const KnownQueue& queue, Sequence after, std::size_t limit);
  Result<Retired> retire_foreign(const KnownQueue& queue, const Retention& ages);

  // --- ledger.cpp
  Result<bool> has_place(const KnownQueue& queue, const Swap& item);
  // The subject under which the entry of a new record might stand already; empty: nowhere else.
  Result<std::string> other_place(const KnownQueue& queue, const Swap& item);
  struct Writing {
    const Swap* item{};  // of the caller's
    std::size_t index{};
    std::string other{};  // see other_place()
    std::vector<MovedValue> moved{};
    Revision revision{};  // once it is written
  };
  using SwapAnswers = std::vector<std::optional<Result<Swapped>>>;
  // What became of each record; and of the queues' definitions what stands there, in the same burst.
  // For who knows by now whether the queues are still what they were, or does not.
  enum class Definitions { ask, known };
  std::vector<Result<Swapped>> swap(std::span<const Swap> items, Definitions definitions);
  JetStreamClient::Burst write_records(std::span<const Outgoing> records,
                                       std::span<const std::string> definitions);
  // Of a batch. What it leaves open goes one by one.
  void write_together(std::span<const Outgoing> records, std::vector<std::size_t> batch,
                      std::span<const std::string> definitions, JetStreamClient::Burst& burst,
                      std::vector<std::size_t>& singly);
  // Of each whether its entry stands at its other place.
  std::vector<Result<bool>> stand_elsewhere(std::span<const Writing> writings);
  void note_written(const KnownQueue& queue, const std::string& subject, const Swap& item,
                    Revision revision);
  void take_back(std::vector<Writing>& written, SwapAnswers& answers);
  Result<LedgerScan> scan_ledger(const KnownQueue& queue);
  Result<void> add_to(LedgerScan& scan, StreamMessage kept);
  static constexpr int kRoundsToFollow = 50;
  static constexpr std::chrono::milliseconds kUntilReplicasFollow{20};
  static Error replicas_lag();

  // --- values.cpp
  Result<void> store_values(const std::string& record_subject, const Record& record,
                            Revision expected, const std::vector<MovedValue>& moved);
  Result<Body> read_value(const std::string& record_subject, const MovedValue& value);
  // The record that was read, with its values; none: it is gone meanwhile.
  Result<std::optional<Stored>> whole_record(StreamMessage kept);
  // The same for people's eyes: what is damaged says so in its place.
  void show_values(const StreamMessage& kept, Record& record);

  // --- verify.cpp
  void verify_task(const StreamMessage& kept, std::vector<Damage>& damages);
  Result<void> verify_ids(std::span<const StreamMessage> page, std::vector<Damage>& damages);
  Result<void> verify_record(const KnownQueue& queue, const StreamMessage& kept,
                             std::vector<Damage>& damages);

  // --- pulling.cpp
  // A pull that was sent.
  struct Pulling {
    std::shared_ptr<Bell> bell{};  // shared with the exchange
    std::shared_ptr<Slot> slot{};  // as well; none: it could not be sent
    std::size_t limit{};
    bool wakes = false;
  };
  struct Pulls {
    std::string consumer{};
    Pulling wakes{};
    Pulling fresh{};
  };
  Pulling begin_pull(const KnownQueue& queue, bool wakes, std::size_t limit);
  Result<std::vector<PulledMessage>> end_pull(const KnownQueue& queue, Pulling pulling);
  Pulls begin_pulls(const KnownQueue& queue, const Fetch& request);
  void abandon(Pulls& pulls);
  Result<std::vector<PulledMessage>> gather(const KnownQueue& queue, Pulls pulls,
                                            const Fetch& request);
  Result<std::vector<PulledMessage>> wait_for_parcels(
      const KnownQueue& queue, const Fetch& request, const std::shared_ptr<Bell>& bell,
      std::uint64_t rings, std::chrono::steady_clock::time_point deadline);
  bool behind(const KnownQueue& queue, bool wakes);
  std::optional<PulledMessage> parcel_from(const KnownQueue& queue, const Message& message);

  // --- feed.cpp
  // From now on fetches that wait are rung when a queue changes.
  void hear_news();
  Result<void> may_hand_over(const KnownQueue& queue, const Fetch& request);
  Result<std::vector<Delivery>> hand_over(const KnownQueue& queue, const Fetch& request,
                                          std::vector<PulledMessage> parcels,
                                          Definitions definitions);
  Result<void> claim(const KnownQueue& queue, Claimer& claimer, const std::vector<bool>& first_time,
                     std::vector<Delivery>& deliveries, Definitions definitions);
  struct Answering {
    std::string consumer{};
    PulledMessage parcel{};           // only its reply, when it is not known
    std::optional<Duration> again{};  // none: done with
  };
  static std::vector<Answering> given_back(const std::string& consumer,
                                           std::vector<PulledMessage> parcels);
  // An error: the server does not permit it. What is lost otherwise comes again by itself.
  std::vector<Outgoing> answers_to_send(std::vector<Answering> answers);
  Result<void> answer(std::vector<Answering> answers);
  void answer_and_go_on(std::vector<Answering> answers);
  void answer_swap(const KnownQueue& queue, const Swap& item, const Stored& stored,
                   std::vector<Answering>& answers);
  // An order was carried out by a claim: what is left of the wake only brings the entry again.
  void spend_order(const KnownQueue& queue, Sequence sequence, const std::string& reply,
                   std::optional<Duration> again);

  // --- wakes.cpp
  Result<std::map<Sequence, WakeNote>> wakes_of(const KnownQueue& queue,
                                                std::map<Sequence, StoreTime>* since = nullptr);

  // What a queue's consumer tells of its deliveries: up to where there were any, up to where all are
  // answered, and how many are not.
  struct ConsumerState {
    std::uint64_t delivered{};
    std::uint64_t floor{};
    std::uint64_t unanswered{};
    std::uint64_t pending{};  // not delivered yet
    bool as_made = false;     // nobody has changed it
  };
  Result<ConsumerState> consumer_state(const KnownQueue& queue);

  // --- rows.cpp
  // Where the records of an entry may lie in a queue.
  struct Places {
    std::string key{};  // empty: it has none
    std::string by_key{};
    std::string by_itself{};
  };
  Result<std::vector<Places>> places_of(const KnownQueue& queue, std::span<const LogEntry> entries);
  Result<Sequence> add_rows(const KnownQueue& queue, const RowFilter& filter, Sequence after,
                            std::size_t limit, Page& page);
  Result<bool> add_rows_alone(const KnownQueue& queue, const RowFilter& filter, const Row* after,
                              std::size_t limit, Page& page);
  std::shared_ptr<SharedTally> tally_of(const KnownQueue& queue);
  struct Newest {
    std::uint64_t record{};  // where the newest of each stands; zero: there is none
    std::uint64_t entry{};
    std::uint64_t old{};
  };
  Result<Newest> newest_of(const KnownQueue& queue);
  Result<bool> read_news(const KnownQueue& queue, QueueCounts& tally, std::uint64_t log_up_to);
  Result<bool> catch_up(const KnownQueue& queue, QueueCounts& tally, std::uint64_t log_up_to);
  Result<void> bring_up_to_date(const KnownQueue& queue, QueueCounts& tally);
  Result<bool> feed_is_done(const KnownQueue& queue);
  Result<std::optional<Sequence>> next_in_state(const KnownQueue& queue, State state,
                                                Sequence after);
  // Rows of a queue on a stream of others', in their order, with the time of each one's order.
  struct ForeignRow {
    Row row{};
    StoreTime ordered_at{};
  };
  Result<std::vector<ForeignRow>> foreign_rows(const KnownQueue& queue);
  Result<bool> add_foreign_rows(const KnownQueue& queue, const RowFilter& filter, const Row* after,
                                std::size_t limit, Page& page);

  // --- retention.cpp
  struct RecordAt {
    std::string subject{};
    Revision revision{};  // zero: there is none
  };
  // What may be forgotten of an entry, and the records that go with it.
  struct Forgettable {
    LogEntry entry{};
    core::Forget forget{};
    std::vector<RecordAt> records{};
    std::vector<std::pair<const KnownQueue*, Row>> rows{};  // as its queues have it
  };
  Result<std::vector<Forgettable>> forgettable(const std::vector<KnownQueue>& queues,
                                               const Retention& ages, std::vector<LogEntry> entries,
                                               bool by_leader);
  Result<std::vector<bool>> drop_records(std::span<const std::vector<RecordAt>* const> items);
  Result<std::uint64_t> forget(core::Forget step, std::span<const Forgettable* const> items);
  Result<Retired> retire_alone(const std::vector<KnownQueue>& queues, const Retention& ages);

  // --- past.cpp
  // What is to be added to the totals of the past, by subject.
  using Takings = std::map<std::string, std::vector<std::function<void(core::Past&)>>>;
  // Before anything of it is deleted. What is there twice then counts once.
  Result<void> keep_past(const Takings& takings);
  void take_records(const KnownQueue& queue, std::uint64_t number, Row row, Takings& takings);
  Result<Takings> takings_of(core::Forget step, std::span<const Forgettable* const> items,
                             const std::vector<KnownQueue>& queues);
  // Which of them are counted in the past, though their records are there: a retirement was cut off.
  Result<core::Sequences> taken_of(const KnownQueue& queue, std::span<const std::uint64_t> numbers);
  // Of these numbers of the log's stream, those that are gone and that retention did not take.
  Result<core::Sequences> missing_of(const core::Sequences& numbers);

  std::shared_ptr<Zone> zone_;  // shared with the memberships, which may outlive the store
  const std::string uuid_;
  std::once_flag hearing_;
  std::unique_ptr<RequestMux::Listener> news_;
};

}  // namespace once::store::nats
