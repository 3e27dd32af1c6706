// What a task counts for in an audit, whether its record holds together, and what is kept of it when
// retention takes it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/record.h"
#include "core/retention.h"
#include "core/sequences.h"
#include "once/audit.h"

namespace once::core {

// Whole hours since 1970: the smallest period that an audit tells apart.
std::int64_t hour_of(Time time);
Time begin_of_hour(std::int64_t hour);

// A task as its queue has it.
struct AccountedTask {
  State state = State::waiting;
  const Record* record = nullptr;  // null: never claimed
  std::optional<Time> ready{};     // when it was published, or its not-before; none: not known
};
// Counts it. Answers what its record contradicts itself in; empty: nothing.
std::string account(const AccountedTask& task, Totals& into);

// What a store notes of a record outside of it, to find it by.
struct RecordNote {
  State state{};
  Member member{};
  Sequence sequence{};  // zero: the record is about no entry
  Revision revision{};
  const Digest* digest = nullptr;  // of that entry; null: not known
};
// Returns the contradiction, or an empty text. No death of a process can cause any of these.
std::string contradiction(const Record& record, const RecordNote& noted);
std::string contradiction(Stage stage, bool has_body, bool has_records);
std::string contradiction(const Totals& totals);

// Totals by the hour of publication.
using Hours = std::map<std::int64_t, Totals>;

// What retention took of a range of tasks, for a store that cannot delete them and count them in one
// write: it writes this first. What is taken twice counts once.
struct Past {
  Sequences records{};  // whose records went
  Sequences ids{};      // whose ids went
  Hours hours{};
  bool damaged = false;  // what was counted before could not be read

  void take_records(std::uint64_t number, Time published, const AccountedTask& task);
  void take_id(std::uint64_t number, Time published, std::uint64_t duplicates);

  friend bool operator==(const Past&, const Past&) = default;
};

}  // namespace once::core
