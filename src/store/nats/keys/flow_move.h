// Moves the workflows of an older version, which kept them as records of the ledger (moved_flows.h), so
// that an old process and a new one never both begin a run for one key.
//
//   1. The definitions of the four queues are replaced by ones that an old process does not use. A zone
//      without these queues gets them, too: an old process then adds no workflow.
//   2. Each record is sealed: replaced, by compare-and-swap, by one that an old process cannot read.
//   3. Each sealed record is copied, unless the key has a value already.
//
// A process may die anywhere in here; the next one does all of it again. Only a write moves anything: until
// then get() and list() read the records where they are.
//
// An old process that knows the four queues may go on for some time. So for a week a key's place in the
// ledger is sealed before its value is created. An old starter then cannot take the key. An old runner
// fails to read the run and leaves its events to others. A record that an old process wrote after the move
// is late. It counts as the key's value until the first write seals it and copies it.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "store/key_value.h"
#include "store/nats/client/jetstream_client.h"
#include "store/nats/subjects.h"
#include "store/nats/zone_clock.h"

namespace once::store::nats {

class FlowMove {
 public:
  // A record of the ledger with its large values; nullopt: it is gone.
  using ReadRecord = std::function<Result<std::optional<Stored>>(StreamMessage)>;
  using ReadAges = std::function<Result<Retention>()>;
  // Creates a value, unless there is one.
  using Create = std::function<Result<void>(const KeyWrite&)>;

  FlowMove(const JetStreamClient& client, const Subjects& subjects, ZoneClock& clock,
           ReadRecord read_record, ReadAges ages, Create create)
      : client_(client),
        subjects_(subjects),
        clock_(clock),
        read_record_(std::move(read_record)),
        ages_(std::move(ages)),
        create_(std::move(create)) {}

  // Whether the zone has workflows of an older version. Learns where they are.
  Result<bool> find_old();
  // Keeps old processes from the zone's workflows, and moves what they have written.
  Result<void> run();

  // Whether an old process may still write records.
  bool may_be_late() const;
  // The values of records of an older version: all of them before the move, the late ones after it. Their
  // revisions are none that a value can have, so a write over one is refused with the value as copied.
  struct Found {
    std::vector<Result<std::optional<Value>>> values{};
    bool sealed = false;  // another process is moving them, or has moved them
  };
  Found get(std::span<const Key> keys) const;
  Result<KeyPage> list(const KeyList& query) const;
  // Whether the record was moved, or only stands in the way of old processes. It cannot be decoded.
  static bool is_sealed(const StreamMessage& record);
  static bool is_old(std::string_view page) { return page.starts_with(kOldPage); }
  // Before the first value of each key is written, and before a write over a revision from above.
  static bool is_old(core::Revision revision) { return (revision.value & kOldRevision) != 0; }
  std::vector<Result<void>> seal_places(std::span<const Key> keys) const;

  // What the mark of the stream of values says: that it ended at that sequence, where the records were
  // before, and when the move began.
  std::string mark_text(std::uint64_t last) const;
  void recall(const StreamMessage& mark);
  static std::uint64_t last_in(const StreamMessage& mark);

 private:
  static constexpr Duration kSealFor = std::chrono::hours{24 * 7};
  static constexpr std::string_view kOldPage = "old ";
  static constexpr std::uint64_t kOldRevision = std::uint64_t{1} << 62U;

  Result<void> replace_definition(std::string_view name);
  Result<bool> move_records(const std::string& queue, const Retention& ages);
  // The queue as it was; nullopt: it has no records.
  std::optional<KnownQueue> old_queue(const std::string& name) const;
  std::optional<std::string> old_subject(const Key& key) const;
  // nullopt: another process has written it meanwhile.
  Result<std::optional<StreamMessage>> seal(StreamMessage stream_message) const;
  Result<void> seal_place(const Key& key, const std::string& subject) const;
  // nullopt: the record, sealed or not, says nothing that counts.
  Result<std::optional<std::pair<Key, Value>>> value_of(const std::string& queue,
                                                        StreamMessage stream_message,
                                                        const Retention& ages) const;
  Result<void> copy(const std::string& queue, StreamMessage sealed, const Retention& ages) const;
  // The same of a record that an old process wrote after the move began.
  Result<void> copy_late(const std::string& queue, StreamMessage sealed,
                         const Retention& ages) const;
  // Whether a record still counts: after the move only if an old process wrote it since.
  bool counts(const StreamMessage& stream_message) const;

  const JetStreamClient& client_;
  const Subjects& subjects_;
  ZoneClock& clock_;
  const ReadRecord read_record_;
  const ReadAges ages_;
  const Create create_;
  StoreTime moved_at() const;

  mutable std::mutex mutex_;
  std::map<std::string, std::string> generations_{};  // of the queues of records, by name
  StoreTime moved_at_{};                              // when the move began; zero: not moved yet
  StoreTime began_{};                                 // when this process began to move them
};

// Whether a definition is that of a queue whose records were moved, or will be.
bool was_moved(const StreamMessage& definition);

}  // namespace once::store::nats
