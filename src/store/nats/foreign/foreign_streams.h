// Queues on streams that others publish to. The stream is not Once's: it may drop messages by its own
// rules, and on a work-queue stream an acknowledgement deletes them. So
//
// - a dead or held message is copied into the zone before its record is written, and the record is
//   written before the acknowledgement: a worker that finds such a record may acknowledge;
// - a record notes the subject and time of its message, so that a person can read about a message that
//   is gone;
// - a record is kept for as long as its message is in the stream, whatever its age: without the record
//   the message would run again;
// - a stream that was deleted and made anew counts from one again. The queue's records are then about
//   other messages, and nothing is fetched until a person has decided.
//
// Any thread may call it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "store/nats/foreign/message_copies.h"
#include "store/nats/ledger/value_chunks.h"
#include "store/nats/retention/past_totals.h"

namespace once::store::nats {

// What the stream and the ledger know of one message, without its body.
struct ForeignTask {
  Entry entry{};      // of a message that is gone, what its record notes
  bool gone = false;  // from the stream
  std::string key{};
  std::optional<Stored> key_record{};
  std::optional<Stored> own_record{};

  // The record that says how the task stands, or null.
  const Stored* standing() const {
    if (own_record) return &*own_record;
    return key_record ? &*key_record : nullptr;
  }
};

class ForeignStreams {
 public:
  ForeignStreams(ZoneConnection& zone, const ValueChunks& values, const PastTotals& past)
      : zone_(zone), values_(values), past_(past), copies_(zone) {}

  MessageCopies& copies() { return copies_; }

  // The stream as the server describes it. not_found if there is no such stream.
  Result<encoding::Json> describe(const Queue& queue) const;
  // Whether the stream is there and is the one that the queue was made on.
  Result<bool> is_the_same(const KnownQueue& queue) const;
  // The same as an error.
  Result<void> check_the_same(const KnownQueue& queue) const;

  // The message of that sequence from the stream, else from its copy. nullopt if it is in neither.
  Result<std::optional<Entry>> entry(const KnownQueue& queue, Sequence sequence) const;
  // What is left of an unsettled task whose message is gone. nullopt if the task is settled.
  Result<std::optional<Entry>> rest_of(const KnownQueue& queue, Sequence sequence) const;
  // All tasks that the stream or the ledger knows, by sequence.
  Result<std::map<Sequence, ForeignTask>> tasks(const KnownQueue& queue) const;
  // Messages up to `last` that the stream dropped before the queue was handed them. Only for a queue
  // that takes all of its stream.
  Result<core::Sequences> dropped(const KnownQueue& queue, std::uint64_t last) const;

  // Before a record is written: adds the note of its message, and keeps a copy of the message if the
  // record says dead or held.
  Result<void> prepare(const KnownQueue& queue, const Swap& item, Outgoing& record);

 private:
  Result<std::optional<StreamMessage>> message(const KnownQueue& queue, Sequence sequence) const;
  Result<std::string> note_for(const KnownQueue& queue, const Swap& item) const;
  Result<void> keep_copy(const KnownQueue& queue, Sequence sequence);
  Result<void> add_messages(const KnownQueue& queue, std::map<Sequence, ForeignTask>& tasks) const;
  Result<void> add_records(const KnownQueue& queue, std::map<Sequence, ForeignTask>& tasks) const;

  ZoneConnection& zone_;
  const ValueChunks& values_;
  const PastTotals& past_;
  MessageCopies copies_;
};

}  // namespace once::store::nats
