// What may be forgotten, and when: bodies, then ledger records, then ids, each only after the one
// before.
#pragma once

#include <span>

#include "core/record.h"

namespace once::core {

enum class Stage : std::uint8_t { whole = 0, body_retired = 1, records_dropped = 2 };
enum class Forget { nothing, body, records, id };

// How one queue that matches the entry stands to it.
struct Standing {
  State state = State::waiting;  // waiting: also when the queue has no record of it
  StoreTime since{};             // stamp of the record
  bool owes = false;             // a reply, which is said from the record
};

// `since` is when the entry reached its stage; `standings` has one per matching queue.
Forget may_forget(Stage stage, StoreTime since, std::span<const Standing> standings,
                  const Retention& ages, StoreTime now);

// False: too young, whatever its queues say.
bool old_enough(Stage stage, StoreTime since, const Retention& ages, StoreTime now);

// The same for a record without an entry, of a ledger-only queue.
bool may_forget_ledger_only(const Standing& standing, const Retention& ages, StoreTime now);

// The same for a record whose entry is a message in a stream of others. While the message exists,
// only the record prevents a second run. After that, only the record remembers the key.
bool may_forget_outside(const Standing& standing, bool entry_gone, const Retention& ages,
                        StoreTime now);

}  // namespace once::core
