#include "server/origin.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>

namespace once::server {
namespace {

// The host of HOST[:PORT], without the brackets of an IPv6 address.
std::string host_of(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    return std::string(end == text.npos ? text : text.substr(1, end - 1));
  }
  return std::string(text.substr(0, text.find(':')));
}

std::size_t count_of(const Request& request, std::string_view name) {
  return static_cast<std::size_t>(
      std::count_if(request.headers.begin(), request.headers.end(),
                    [&](const Header& each) { return equal_ignoring_case(each.name, name); }));
}

}  // namespace

bool is_loopback(const std::string& address) {
  in_addr four{};
  if (::inet_pton(AF_INET, address.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, address.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

std::optional<std::string> foreign(const Request& request, const std::vector<std::string>& hosts) {
  const auto host = request.header("Host");
  if (!host || count_of(request, "Host") > 1) return "a request needs one Host header";
  const std::string name = host_of(*host);
  const bool known = equal_ignoring_case(name, "localhost") || is_loopback(name) ||
                     std::find(hosts.begin(), hosts.end(), name) != hosts.end();
  if (!known)
    return fmt::format("this server is not the host \"{}\"; send an address that it listens on",
                       name);
  const auto origin = request.header("Origin");
  if (origin && !equal_ignoring_case(*origin, fmt::format("http://{}", *host)))
    return fmt::format("a page of the origin \"{}\" may not use this server", *origin);
  return {};
}

}  // namespace once::server
