// Tasks, retired ids, records and wakes as messages. A task's body is the message's data as it is;
// everything else is in headers.
#pragma once

#include "store/nats/subjects.h"
#include "store/nats/values.h"
#include "store/nats/zone_clock.h"

namespace once::store::nats {

// An entry of the log with what the log alone knows of it.
struct LogEntry {
  Entry entry{};
  Nonce nonce{};
  core::Stage stage = core::Stage::whole;
  StoreTime stage_since{};
  std::uint64_t message{};  // the message that says so; the entry's own, or that of its retirement
  bool beside_its_task = false;  // retired, and the task is there still: a retirement was cut off
  // Under which keys its records stand, by the queue's generation: of an entry without a body, from
  // which the key could be made.
  std::map<std::string, std::string> keys{};
};

Outgoing task_message(const Subjects& subjects, const Append& item);
Outgoing retired_message(const Subjects& subjects, const LogEntry& kept, core::Stage stage);
// What is left of a task, in place of it.
bool is_retired(const StreamMessage& kept);
Result<LogEntry> log_entry_from(const StreamMessage& kept, const ZoneClock& clock);
// The little of it that counting needs.
struct LogNote {
  Sequence sequence{};
  std::string topic{};
  core::Stage stage = core::Stage::whole;
  StoreTime not_before{};
  bool delayed = false;  // it is to wait until then
};
Result<LogNote> log_note_from(const StreamMessage& kept, const ZoneClock& clock);

Outgoing record_message(const std::string& subject, const store::Address& at, PackedRecord packed,
                        Revision expected);
// Without the values that lie beside it; `moved` gets where these are.
Result<Stored> stored_from(const StreamMessage& kept, const ZoneClock& clock,
                           std::vector<MovedValue>* moved = nullptr);
// What a record's subject says: k, e or l, and what follows.
struct RecordPlace {
  char kind{};
  std::string key{};
  Sequence sequence{};
};
RecordPlace place_of(const StreamMessage& kept);

// What makes a queue look at an entry again.
struct WakeNote {
  Sequence sequence{};
  std::optional<core::Order> order{};
  StoreTime after{};  // not before
};
Outgoing wake_message(const std::string& subject, const WakeNote& note, std::uint64_t expected);
Result<WakeNote> wake_from(const StreamMessage& kept);

std::string last_token(std::string_view subject);

}  // namespace once::store::nats
