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

// A page of the server itself has the scheme and the host that the browser asked for.
bool is_own_page(std::string_view origin, const Request& request, const Site& site) {
  const std::string host(request.header("Host").value_or(""));
  if (!site.behind_proxy)
    return equal_ignoring_case(origin, fmt::format("{}://{}", site.tls ? "https" : "http", host));
  const std::string forwarded(request.header("X-Forwarded-Host").value_or(host));
  for (const std::string& each : {host, forwarded})
    for (const std::string_view scheme : {"http", "https"})
      if (equal_ignoring_case(origin, fmt::format("{}://{}", scheme, each))) return true;
  return false;
}

}  // namespace

bool is_loopback(const std::string& address) {
  in_addr four{};
  if (::inet_pton(AF_INET, address.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, address.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

std::optional<std::string> foreign(const Request& request, const Site& site) {
  const auto host = request.header("Host");
  if (!host || count_of(request, "Host") > 1) return "a request needs one Host header";
  const std::string name = host_of(*host);
  const bool known = site.any_host || equal_ignoring_case(name, "localhost") || is_loopback(name) ||
                     std::find(site.hosts.begin(), site.hosts.end(), name) != site.hosts.end();
  if (!known)
    return fmt::format("this server is not the host \"{}\"; send an address that it listens on",
                       name);
  const auto origin = request.header("Origin");
  if (origin && !is_own_page(*origin, request, site))
    return fmt::format("a page of the origin \"{}\" may not use this server", *origin);
  return {};
}

}  // namespace once::server
