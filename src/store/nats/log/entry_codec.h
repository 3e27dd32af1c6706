// Encodes tasks, retired ids, records and wakes as messages, and decodes them. A task's body is the
// message's data, unchanged. All other fields are headers.
#pragma once

#include "codec/large_values.h"
#include "store/nats/subjects.h"
#include "store/nats/zone_clock.h"

namespace once::store::nats {

using encoding::MovedValue;
using encoding::PackedRecord;

// An entry of the log with what only the log knows of it.
struct LogEntry {
  Entry entry{};
  Nonce nonce{};
  core::Stage stage = core::Stage::whole;
  StoreTime stage_since{};
  std::uint64_t message{};       // the number of the task's message, or of the one that replaced it
  bool beside_its_task = false;  // retired, and the task is still there: a retirement was cut off
  // The keys of its records, by the queue's generation. An entry without a body needs them, because a
  // key is made from the body.
  std::map<std::string, std::string> keys{};
};

Outgoing task_message(const Subjects& subjects, const Append& item);
Outgoing retired_message(const Subjects& subjects, const LogEntry& log_entry, core::Stage stage);
// Whether the message is what retention has left of a task.
bool is_retired(const StreamMessage& message);
// The body is the message's data, moved.
Result<LogEntry> log_entry_from(StreamMessage message, const ZoneClock& clock);
// The part of an entry that counting needs.
struct LogNote {
  Sequence sequence{};
  std::string topic{};
  core::Stage stage = core::Stage::whole;
  StoreTime not_before{};
  bool delayed = false;  // it waits until then
};
Result<LogNote> log_note_from(const StreamMessage& message, const ZoneClock& clock);

Outgoing record_message(const std::string& subject, const store::Address& at, PackedRecord packed,
                        Revision expected);
// Without the values that lie elsewhere. `moved` receives their places.
Result<Stored> stored_from(const StreamMessage& message, const ZoneClock& clock,
                           std::vector<MovedValue>* moved = nullptr);
// What a record's subject says: k, e or l, and what follows.
struct RecordPlace {
  char kind{};
  std::string key{};
  Sequence sequence{};
};
RecordPlace place_of(const StreamMessage& message);

// What makes a queue look at an entry again.
struct WakeNote {
  Sequence sequence{};
  std::optional<core::Order> order{};
  StoreTime after{};  // not before
};
Outgoing wake_message(const std::string& subject, const WakeNote& note, std::uint64_t expected);
Result<WakeNote> wake_from(const StreamMessage& message);

std::string last_token(std::string_view subject);

}  // namespace once::store::nats
