// Whether the worker of a running record is still there; asked of the kernel once per worker.
#pragma once

#include <utility>
#include <vector>

#include "core/record.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/presence.h"

namespace once::store::sqlite {

// For one transaction.
class HolderCheck {
 public:
  HolderCheck(Connection& db, Presence& presence, core::StoreTime boot_began)
      : db_(db), presence_(presence), boot_began_(boot_began) {}

  // Known to be gone: the record is of an earlier boot, or nobody holds the worker's lock.
  bool gone(const core::Record& record, core::StoreTime stamp);
  bool gone(core::Member member);

 private:
  Connection& db_;
  Presence& presence_;
  const core::StoreTime boot_began_;
  std::vector<std::pair<core::Member, bool>> known_;
};

}  // namespace once::store::sqlite
