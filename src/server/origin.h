// Which browsers and names may talk to a server that knows no tokens. A web page of another site
// can make a browser send requests to this machine. Its Origin gives it away. With DNS rebinding
// there is no foreign Origin, but the Host is still the name of that site.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace once::server {

// Returns why the request is refused, or nullopt if it is not. `hosts` are the names of the
// listening addresses. Names of the loopback interface are always allowed.
std::optional<std::string> foreign(const Request& request, const std::vector<std::string>& hosts);

// Whether the text is an address of the loopback interface, such as 127.0.0.1 or ::1.
bool is_loopback(const std::string& address);

}  // namespace once::server
