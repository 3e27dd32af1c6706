// The settings of a queue as JSON, in a file of `apply` and in a request.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "shapes/queue_definition.h"

namespace once::cli {

// Returns a null pointer if a queue has no such field.
const QueueField* find_queue_field(std::string_view name);

// Reads one field. If the value does not fit, returns what the field takes instead.
std::optional<std::string> read_queue_field(const QueueField& field,
                                            const nlohmann::ordered_json& value,
                                            QueueOptions& options);

// "--in-doubt takes ..." of the command line is "in_doubt takes ..." in JSON.
std::string option_as_field(std::string message);

// The value as an error message quotes it.
std::string kind_of(const nlohmann::ordered_json& value);

}  // namespace once::cli
