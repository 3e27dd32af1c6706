// Offers, claims and their ends as JSON, for the HTTP server.
#pragma once

#include <string>

#include "once/consumer.h"
#include "shapes/json_line.h"

namespace once::cli {

std::string offer_json(const Offer& offer);
std::string started_json(const StartedTask& task);
std::string renewed_json(std::string_view claim, const RenewResult& renewed);
std::string settled_json(std::string_view claim, State state);
std::string step_start_json(const StepStart& begun);
// A claim that failed among others that did not.
std::string claim_error_json(std::string_view claim, const Error& error);

}  // namespace once::cli
