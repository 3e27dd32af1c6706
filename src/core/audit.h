// The audit of single tasks: what a task counts for, whether its record contradicts itself, and the
// totals that remain after retention.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/record.h"
#include "core/retention.h"
#include "core/sequences.h"
#include "once/audit.h"

namespace once::core {

// Whole hours since 1970. An audit counts per hour.
std::int64_t hour_of(Time time);
Time begin_of_hour(std::int64_t hour);

// A task in one queue.
struct AccountedTask {
  State state = State::waiting;
  const Record* record = nullptr;  // null if the task was never claimed
  std::optional<Time> ready{};     // when it was published, or its not-before; nullopt: unknown
};
// Counts the task. Returns the contradiction in its record, or an empty text.
std::string account(const AccountedTask& task, Totals& into);

// What a store keeps of a record outside the record, such as columns that it searches by.
struct RecordNote {
  State state{};
  Member member{};
  Sequence sequence{};  // zero: a record without a log entry
  Revision revision{};
  const Digest* digest = nullptr;  // of that entry; null: unknown
};
// Returns the contradiction, or an empty text. No death of a process can cause any of these.
std::string contradiction(const Record& record, const RecordNote& noted);
std::string contradiction(Stage stage, bool has_body, bool has_records);
std::string contradiction(const Totals& totals);

// Totals by the hour of publication.
using Hours = std::map<std::int64_t, Totals>;

// The totals of tasks that retention removed. A store that cannot delete and count in one write
// writes this first. A task that is taken twice counts once.
struct Past {
  Sequences records{};  // tasks whose records were removed
  Sequences ids{};      // tasks whose ids were removed
  Hours hours{};
  bool damaged = false;  // the earlier totals could not be read

  void take_records(std::uint64_t number, Time published, const AccountedTask& task);
  void take_id(std::uint64_t number, Time published, std::uint64_t duplicates);

  friend bool operator==(const Past&, const Past&) = default;
};

}  // namespace once::core
