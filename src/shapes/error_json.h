// Errors as JSON. The commands print these fields with --json, and the HTTP server sends them.
#pragma once

#include <string_view>

#include "once/result.h"
#include "shapes/json_line.h"

namespace once::cli {

// Adds retryable and in_doubt, then the reason with its facts, then both sides of a conflict.
JsonLine& add_error_facts(JsonLine& line, const Error& error);

// The same after the code and the message of an error that is one line among others.
JsonLine& add_error(JsonLine& line, const Error& error, std::string_view message);

}  // namespace once::cli
