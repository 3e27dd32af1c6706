#include "support/tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace once::testing {
namespace {

constexpr int kLook = 2;  // ms, at the latest, at what was asked for

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void send_at_once(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

TcpProxy::TcpProxy(int port) : to_(port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      listen(listener_, 64) != 0)
    throw std::runtime_error("the proxy gets no port");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

TcpProxy::~TcpProxy() {
  over_ = true;
  thread_.join();
  for (Line& line : lines_) close(line);
  ::close(listener_);
}

void TcpProxy::cut() {
  const int mine = ++cuts_asked_;
  while (cuts_done_ < mine) std::this_thread::yield();
}

void TcpProxy::close(Line& line) {
  ::close(line.client);
  ::close(line.server);
}

// How many bytes; none: the line is over.
ssize_t TcpProxy::carry(int from, int to, std::int64_t most) {
  std::array<char, 65536> bytes{};
  const ssize_t got = ::read(from, bytes.data(),
                             static_cast<std::size_t>(std::min<std::int64_t>(
                                 most, static_cast<std::int64_t>(bytes.size()))));
  if (got <= 0) return 0;
  for (ssize_t sent = 0; sent < got;) {
    const ssize_t more =
        ::send(to, bytes.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
    if (more <= 0) return 0;
    sent += more;
  }
  return got;
}

bool TcpProxy::carry_answers(const Line& line) {
  const std::int64_t left = answers_left_;
  const ssize_t carried = carry(line.server, line.client, left);
  if (left == INT64_MAX) return carried > 0;
  if ((answers_left_ -= carried) > 0) return carried > 0;
  answers_left_ = INT64_MAX;
  return false;
}

void TcpProxy::run() {
  while (!over_) {
    if (const int asked = cuts_asked_; cuts_done_ < asked) {
      for (Line& line : lines_) close(line);
      lines_.clear();
      cuts_done_ = asked;
    }
    std::vector<pollfd> polled{{.fd = listener_, .events = POLLIN, .revents = 0}};
    if (questions_left_ <= 0) hold_questions_ = true;
    const short questions = hold_questions_ ? 0 : POLLIN;
    const short answers = hold_answers_ ? 0 : POLLIN;
    for (const Line& line : lines_) {
      polled.push_back({.fd = line.client, .events = questions, .revents = 0});
      polled.push_back({.fd = line.server, .events = answers, .revents = 0});
    }
    poll(polled.data(), polled.size(), kLook);
    std::vector<Line> alive;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      Line& line = lines_[i];
      // It may have been told to hold them while it waited.
      const bool asks = (polled[1 + 2 * i].revents & POLLIN) != 0 && !hold_questions_;
      const bool answered = (polled[2 + 2 * i].revents & POLLIN) != 0 && !hold_answers_;
      const ssize_t asked = asks ? carry(line.client, line.server) : 0;
      questions_left_ -= asked;
      if ((asks && asked == 0) || (answered && !carry_answers(line)))
        close(line);
      else
        alive.push_back(line);
    }
    lines_ = std::move(alive);
    if ((polled[0].revents & POLLIN) == 0) continue;
    Line line{.client = accept(listener_, nullptr, nullptr),
              .server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const sockaddr_in address = loopback(to_);
    if (refuse_ ||
        connect(line.server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      close(line);
      continue;
    }
    send_at_once(line.client);
    send_at_once(line.server);
    lines_.push_back(line);
    ++taken_;
  }
}

}  // namespace once::testing
