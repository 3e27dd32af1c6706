// Tells systemd how the service is, as sd_notify(3) does.
#pragma once

#include <string_view>

namespace once::cli {

// Sends a state such as "READY=1" to $NOTIFY_SOCKET. Does nothing without that variable. A service
// manager that does not listen is no failure of the service.
void notify_service_manager(std::string_view state);

}  // namespace once::cli
