#include "store/nats/doctor/monitor.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "store/file_descriptor.h"

namespace once::store::nats {
namespace {

constexpr std::size_t kMostAnswerBytes = 1U << 20U;  // of an answer

Error silent(const std::string& address, const std::string& why) {
  return {.code = Code::store_unavailable,
          .message = "nobody is monitored at " + address + ": " + why,
          .retryable = true};
}

struct MonitorAddress {
  std::string host{};
  std::string port{};
};

Result<MonitorAddress> place_of(const std::string& address) {
  constexpr std::string_view kScheme = "http://";
  const Error wrong{
      .code = Code::invalid_input,
      .message = "a server is monitored at http://HOST:PORT, not at '" + address + "'"};
  if (!address.starts_with(kScheme)) return wrong;
  std::string rest = address.substr(kScheme.size());
  rest.resize(std::min(rest.find('/'), rest.size()));
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == rest.size()) return wrong;
  MonitorAddress place{.host = rest.substr(0, colon), .port = rest.substr(colon + 1)};
  if (place.host.starts_with('[') && place.host.ends_with(']'))
    place.host = place.host.substr(1, place.host.size() - 2);
  return place;
}

Result<FileDescriptor> connect_to(const std::string& address, const MonitorAddress& place,
                                  Duration patience) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int failed = getaddrinfo(place.host.c_str(), place.port.c_str(), &hints, &list);
      failed != 0)
    return silent(address, gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  timeval limit{};
  limit.tv_sec = patience.count() / 1000;
  limit.tv_usec = (patience.count() % 1000) * 1000;
  int error = 0;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    FileDescriptor line(
        socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol));
    if (!line) continue;
    setsockopt(line.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);  // of connect(), too
    setsockopt(line.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(line.get(), each->ai_addr, each->ai_addrlen) == 0) return line;
    error = errno;
  }
  return silent(address, std::strerror(error));
}

}  // namespace

Result<encoding::Json> ask_monitor(const std::string& address, Duration patience) {
  const auto place = place_of(address);
  if (!place) return place.error();
  const auto line = connect_to(address, *place, patience);
  if (!line) return line.error();
  // An answer of HTTP/1.0 ends with the connection, and is not in chunks.
  const std::string question = "GET /varz HTTP/1.0\r\nHost: " + place->host + "\r\n\r\n";
  if (send(line->get(), question.data(), question.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(question.size()))
    return silent(address, std::strerror(errno));
  std::string answer;
  std::array<char, 16'384> part{};
  while (answer.size() < kMostAnswerBytes) {
    const ssize_t got = recv(line->get(), part.data(), part.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return silent(address, std::strerror(errno));
    if (got == 0) break;
    answer.append(part.data(), static_cast<std::size_t>(got));
  }
  const std::size_t body = answer.find("\r\n\r\n");
  if (body == std::string::npos || answer.find(" 200 ") > answer.find("\r\n"))
    return silent(address, "it does not answer as a NATS server does");
  auto json =
      encoding::parse_json(std::string_view(answer).substr(body + 4), encoding::Integers::rounded);
  if (!json) return silent(address, "it does not answer as a NATS server does");
  return json;
}

}  // namespace once::store::nats
