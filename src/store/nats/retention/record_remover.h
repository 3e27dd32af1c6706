// Removes records with their values.
#pragma once

#include <span>
#include <vector>

#include "store/nats/zone_connection.h"

namespace once::store::nats {

struct RecordAt {
  std::string subject{};
  Revision revision{};  // zero: there is no record, but a crash may have left its values
};

// The records, then their values: nobody may meet a record whose values are gone. Of each item whether
// all its records were still there. If not, another process removes them.
Result<std::vector<bool>> remove_records(ZoneConnection& zone,
                                         std::span<const std::vector<RecordAt>> items);
// How many items were removed whole.
Result<std::uint64_t> count_removed(ZoneConnection& zone,
                                    std::span<const std::vector<RecordAt>> items);

}  // namespace once::store::nats
