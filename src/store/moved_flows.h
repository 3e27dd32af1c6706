// How workflows were kept before there were key_values(): as records of four ledger-only queues, and as
// lone records of the queue of events. A store that finds such records moves them.
//
//   queue       key of the record        key of the value
//   once-flows  payment@0000000003       flow, payment, 0000000003
//   once-runs   payment-01k...           run, payment-01k...
//   once-keys   payment:order-17         key, payment, order-17
//   once-values payment-01k....charge.1  value, payment-01k....charge.1
//   once-flow   runs.payment             note, runs.payment
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "core/names.h"
#include "core/record.h"
#include "store/store.h"

namespace once::store {

inline constexpr std::array<std::string_view, 4> kMovedQueues{
    core::kFlowsLedger, core::kRunsLedger, core::kKeysLedger, core::kValuesLedger};

// Whether the lone record of that name in the queue of events is a note of workflows.
bool is_flow_note(std::string_view name);

// Where the record of a key was; nullopt if no record was kept for such a key. The first token of a key
// is enough to learn the queue.
std::optional<Address> old_place(const Key& key);

// The value that stands for a record, as if it were written at the record's `stamp`. nullopt: the record
// says nothing that is still needed.
std::optional<KeyWrite> moved_value(std::string_view queue, std::string_view key,
                                    const core::Record& record, core::StoreTime stamp,
                                    const Retention& ages);

}  // namespace once::store
