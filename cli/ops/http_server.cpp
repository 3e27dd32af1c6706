// A poll loop over a few connections. Each is read until its head is whole, answered, and closed when
// the client has, so that the answer is not lost to a reset; each has its time, and the oldest makes
// room for a new one.
#include "cli/ops/http_server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace once::cli {
namespace {

using ServerClock = std::chrono::steady_clock;

constexpr std::size_t kConnections = 16;
constexpr std::size_t kMostHead = 8 << 10;
constexpr std::chrono::seconds kClientPatience{5};  // with one connection, all in all
constexpr int kPortTries = 16;

std::string_view reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Answer";
  }
}

std::string response(const HttpAnswer& answer, bool with_body = true) {
  std::string out = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "{}Connection: close\r\n\r\n",
      answer.status, reason(answer.status), answer.type, answer.body.size(),
      answer.status == 405 ? "Allow: GET, HEAD\r\n" : "");
  if (with_body) out += answer.body;
  return out;
}

std::string refusal(int status, std::string_view why) {
  return response({.status = status, .body = fmt::format("{}\n", why)});
}

// Where the head ends, lenient about bare line feeds; npos: it has not come yet.
std::size_t head_end(std::string_view text) {
  return std::min(text.find("\r\n\r\n"), text.find("\n\n"));
}

}  // namespace

class HttpServer::Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  // Zero: it listens now; else the errno.
  static int listen_at(const addrinfo& at, Socket& to) {
    Socket made(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!made) return errno;
    const int on = 1;
    ::setsockopt(made.fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (at.ai_family == AF_INET6) {
      ::setsockopt(made.fd_, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    }
    if (::bind(made.fd_, at.ai_addr, at.ai_addrlen) != 0 || ::listen(made.fd_, kConnections) != 0) {
      return errno;
    }
    to = std::move(made);
    return 0;
  }

  std::uint16_t port() const {
    sockaddr_in at{};
    socklen_t size = sizeof at;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size);
    return ntohs(at.sin_port);
  }

 private:
  int fd_;
};

struct HttpServer::Connection {
  enum class Phase { reading, writing, closing };
  Socket socket{};
  ServerClock::time_point until{};
  Phase phase = Phase::reading;
  std::string text{};  // what came, then what is still to be sent
};

std::string HttpAddress::text() const {
  const std::string shown = host.empty() ? "127.0.0.1" : host;
  const bool v6 = shown.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", shown, port) : fmt::format("{}:{}", shown, port);
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(const HttpAddress& address,
                                                     Answerer answerer) {
  auto listeners = listen_on(address);
  if (!listeners) return listeners.error();
  Socket woken(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!woken) return Error{.code = Code::failed, .message = std::strerror(errno)};
  const std::uint16_t port = listeners->front().port();
  return std::unique_ptr<HttpServer>(
      new HttpServer(std::move(*listeners), std::move(woken), port, std::move(answerer)));
}

// Each address of the host has the same port, so a port that is free on the first may be taken on the
// next. Addresses of a family that this machine does not have are left out.
Result<std::vector<HttpServer::Socket>> HttpServer::listen_on(const HttpAddress& address) {
  const auto refused = [&](std::string_view why) {
    return Error{.code = Code::invalid_input,
                 .message = fmt::format("cannot listen on {} for metrics: {}; nothing was claimed. "
                                        "Choose another port, or 0 for any that is free",
                                        address.text(), why)};
  };
  std::vector<std::string> hosts{address.host};
  if (address.host.empty()) hosts = {"127.0.0.1", "::1"};
  int error = 0;
  for (int tries = 0; tries < (address.port == 0 ? kPortTries : 1); ++tries) {
    std::vector<Socket> listeners;
    error = 0;
    for (const std::string& host : hosts) {
      if (error == EADDRINUSE) break;
      const std::uint16_t port = listeners.empty() ? address.port : listeners.front().port();
      addrinfo wanted{};
      wanted.ai_flags = AI_PASSIVE;
      wanted.ai_socktype = SOCK_STREAM;
      addrinfo* found = nullptr;
      const int unknown =
          ::getaddrinfo(host.c_str(), fmt::to_string(port).c_str(), &wanted, &found);
      if (unknown != 0) return refused(::gai_strerror(unknown));
      Socket made;
      error = Socket::listen_at(*found, made);
      ::freeaddrinfo(found);
      if (made) listeners.push_back(std::move(made));
    }
    if (error != EADDRINUSE && !listeners.empty()) return listeners;
    if (error != EADDRINUSE) break;
  }
  return refused(std::strerror(error));
}

HttpServer::HttpServer(std::vector<Socket> listeners, Socket woken, std::uint16_t port,
                       Answerer answerer)
    : port_(port),
      answerer_(std::move(answerer)),
      listeners_(std::move(listeners)),
      woken_(std::make_unique<Socket>(std::move(woken))),
      thread_([this](std::stop_token ended) { run(std::move(ended)); }) {}

HttpServer::~HttpServer() {
  thread_.request_stop();
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(woken_->fd(), &one, sizeof one);
  thread_.join();
}

void HttpServer::run(std::stop_token ended) {
  while (!ended.stop_requested()) {
    std::vector<pollfd> fds{{.fd = woken_->fd(), .events = POLLIN, .revents = 0}};
    for (const Socket& listener : listeners_) {
      fds.push_back({.fd = listener.fd(), .events = POLLIN, .revents = 0});
    }
    auto next = ServerClock::time_point::max();
    for (const Connection& connection : connections_) {
      const bool sends = connection.phase == Connection::Phase::writing;
      fds.push_back({.fd = connection.socket.fd(),
                     .events = static_cast<short>(sends ? POLLOUT : POLLIN),
                     .revents = 0});
      next = std::min(next, connection.until);
    }
    int wait = -1;
    if (!connections_.empty()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - ServerClock::now());
      wait = static_cast<int>(std::max<std::chrono::milliseconds::rep>(0, left.count()));
    }
    if (::poll(fds.data(), fds.size(), wait) < 0) continue;

    const auto ready = [&](std::size_t i) { return fds[i].revents != 0; };
    const std::size_t first = 1 + listeners_.size();
    const auto now = ServerClock::now();
    std::vector<Connection> going_on;
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      Connection& connection = connections_[i];
      const bool stays = connection.until > now && (!ready(first + i) || serve(connection));
      if (stays) going_on.push_back(std::move(connection));
    }
    connections_ = std::move(going_on);
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (ready(1 + i)) accept_from(listeners_[i]);
    }
  }
}

void HttpServer::accept_from(const Socket& listener) {
  Socket accepted(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!accepted) {
    // Without a descriptor to spare it would be asked again at once.
    if (errno == EMFILE || errno == ENFILE)
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
    return;
  }
  if (connections_.size() >= kConnections) connections_.erase(connections_.begin());
  connections_.push_back(
      {.socket = std::move(accepted), .until = ServerClock::now() + kClientPatience});
}

bool HttpServer::serve(Connection& connection) {
  return connection.phase == Connection::Phase::writing ? write(connection) : read(connection);
}

bool HttpServer::read(Connection& connection) {
  char buffer[4096];
  const ssize_t got = ::recv(connection.socket.fd(), buffer, sizeof buffer, 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  if (connection.phase == Connection::Phase::closing) return true;  // what comes now is not read
  connection.text.append(buffer, static_cast<std::size_t>(got));
  const std::size_t end = head_end(connection.text);
  if (end == std::string::npos && connection.text.size() <= kMostHead) return true;
  connection.text = end <= kMostHead ? answer(std::string_view(connection.text).substr(0, end))
                                     : refusal(431, "the request is too long");
  connection.phase = Connection::Phase::writing;
  return write(connection);
}

bool HttpServer::write(Connection& connection) {
  while (!connection.text.empty()) {
    const ssize_t sent = ::send(connection.socket.fd(), connection.text.data(),
                                connection.text.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    connection.text.erase(0, static_cast<std::size_t>(sent));
  }
  ::shutdown(connection.socket.fd(), SHUT_WR);
  connection.phase = Connection::Phase::closing;
  return true;
}

// "GET /metrics?x HTTP/1.1" and headers, none of which matter.
std::string HttpServer::answer(std::string_view request) const {
  std::string_view line = request.substr(0, request.find_first_of("\r\n"));
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return refusal(400, "no HTTP request");
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!version.starts_with("HTTP/")) return refusal(400, "no HTTP request");
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return refusal(505, "HTTP/1.1 is spoken here");
  if (!target.starts_with('/') || target.find(' ') != std::string_view::npos) {
    return refusal(400, "the target must be a path");
  }
  if (method != "GET" && method != "HEAD") return refusal(405, "GET and HEAD are answered");
  return response(answerer_(target.substr(0, target.find('?'))), method == "GET");
}

}  // namespace once::cli
