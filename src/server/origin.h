// Which browsers and names may talk to a server. A web page of another site
// can make a browser send requests to this machine. Its Origin gives it away. With DNS rebinding
// there is no foreign Origin, but the Host is still the name of that site.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace once::server {

// How clients reach the server.
struct Site {
  std::vector<std::string> hosts{};  // the listening addresses
  // Other machines reach the server, by names that it does not know. Then every request needs a
  // token, which a page of another site does not have.
  bool any_host = false;
  bool tls = false;
  bool behind_proxy = false;  // the proxy may change Host, and encrypts in the server's place
};

// Returns why the request is refused, or nullopt if it is not. Names of the loopback interface are
// always allowed.
std::optional<std::string> foreign(const Request& request, const Site& site);

// Whether the text is an address of the loopback interface, such as 127.0.0.1 or ::1.
bool is_loopback(const std::string& address);

}  // namespace once::server
