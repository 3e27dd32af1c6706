// The counts of a queue as JSON.
#pragma once

#include <array>
#include <string>

#include "once/view.h"

namespace once::cli {

// In the order in which they are shown.
inline constexpr std::array kStatusStates{State::scheduled, State::waiting,   State::running,
                                          State::retrying,  State::in_doubt,  State::completed,
                                          State::dead,      State::cancelled, State::duplicate};

std::uint64_t count_of(const QueueStatus& status, State state);
std::string status_json(const QueueStatus& queue);
std::string zone_status_json(const Status& status);

}  // namespace once::cli
