// Asks a server's monitoring port, where somebody named it: some settings are told nowhere else.
#pragma once

#include <string>

#include "json/json.h"
#include "once/task.h"

namespace once::store::nats {

// What `http://HOST:PORT/varz` answers, given `http://HOST:PORT`.
Result<encoding::Json> ask_monitor(const std::string& address, Duration patience);

}  // namespace once::store::nats
