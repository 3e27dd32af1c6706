// Failures as problem documents of RFC 9457.
#pragma once

#include "once/result.h"
#include "server/http.h"

namespace once::server {

// The status by the error's code. The document has the code, `retryable`, `in_doubt`, the reason
// with its facts, and both sides of a conflict.
Response problem(const Error& error);
// The same with another status.
Response problem(int status, const Error& error);

Error invalid_input(std::string message);

}  // namespace once::server
