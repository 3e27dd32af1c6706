// From format 5, which kept workflows as records of queues.
#pragma once

#include "store/sqlite/connection.h"

namespace once::store::sqlite {

// Makes values of these records and removes their queues. In the upgrade's transaction.
void move_flow_records(Connection& db);

}  // namespace once::store::sqlite
