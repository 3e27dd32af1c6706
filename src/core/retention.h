// When retention may remove a task's data: first the body, then the ledger records, then the id.
#pragma once

#include <span>

#include "core/record.h"

namespace once::core {

enum class Stage : std::uint8_t { whole = 0, body_retired = 1, records_dropped = 2 };
enum class Forget { nothing, body, records, id };

// The entry's state in one queue that takes it.
struct Standing {
  State state = State::waiting;  // waiting if the queue has no record of it
  StoreTime since{};             // stamp of the record
  bool owes = false;             // a reply, which is made from the record
};

// `since` is when the entry reached its stage. `standings` has one item per queue that takes it.
Forget may_forget(Stage stage, StoreTime since, std::span<const Standing> standings,
                  const Retention& ages, StoreTime now);

// Returns false if the entry is too young. Then the states in its queues do not matter.
bool old_enough(Stage stage, StoreTime since, const Retention& ages, StoreTime now);

// The same for a record without an entry, of a ledger-only queue.
bool may_forget_ledger_only(const Standing& standing, const Retention& ages, StoreTime now);

// The same for a record whose entry is a message in a stream of others. While the message exists,
// only the record prevents a second run. After that, only the record remembers the key.
bool may_forget_outside(const Standing& standing, bool entry_gone, const Retention& ages,
                        StoreTime now);

}  // namespace once::core
