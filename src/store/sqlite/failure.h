// What went wrong, in words for a person, from SQLite's and the system's error codes. Inside this
// folder a failure travels as once::Failure and becomes a Result where the seam is answered.
#pragma once

#include <sqlite3.h>

#include <string>
#include <string_view>

#include "once/result.h"

namespace once::store::sqlite {

// SQLite refused or could not run a statement: the transaction is lost, not only one item of it.
class StatementFailure : public Failure {
 public:
  using Failure::Failure;
};

// The error of a statement that failed before a commit: whatever it was part of is rolled back.
Error statement_error(sqlite3* db, int code, std::string_view path);

// The error of a COMMIT that failed. In doubt unless it is certain that nothing was written.
Error commit_error(sqlite3* db, int code, std::string_view path);

Error unusable(std::string message);
std::string errno_text(int error);

}  // namespace once::store::sqlite
