#include "store/nats/socket_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>

namespace once::store::nats {
namespace {

constexpr int kMuch = 4 << 20;                   // bytes that wait for the socket
constexpr std::chrono::milliseconds kLook{100};  // between looks whether the connection is gone

}  // namespace

int& SocketLoop::Gathering::depth() {
  thread_local int depth = 0;
  return depth;
}

SocketLoop::SocketLoop() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

// nats.c calls these with the connection locked: they only take notes.
natsStatus SocketLoop::attach_to(natsOptions* options) {
  if (wake_.get() < 0) return NATS_SYS_ERROR;
  const auto attach = [](void** data, void* loop, natsConnection*, natsSock socket) {
    auto* self = static_cast<SocketLoop*>(loop);
    *data = loop;
    self->unsent_ = false;
    self->socket_ = static_cast<int>(socket);
    self->wake();
    return NATS_OK;
  };
  const auto read = [](void* data, bool wanted) {
    if (!wanted) static_cast<SocketLoop*>(data)->socket_ = -1;  // it is about to be closed
    return NATS_OK;
  };
  const auto write = [](void* data, bool wanted) {
    auto* self = static_cast<SocketLoop*>(data);
    self->unsent_ = wanted;
    if (wanted && !Gathering::here()) self->wake();
    return NATS_OK;
  };
  const auto detach = [](void* data) {
    static_cast<SocketLoop*>(data)->socket_ = -1;
    return NATS_OK;
  };
  return natsOptions_SetEventLoop(options, this, attach, read, write, detach);
}

void SocketLoop::start(natsConnection* connection, std::function<void()> came) {
  came_ = std::move(came);
  connection_ = connection;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void SocketLoop::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  wake();
  thread_.join();
}

void SocketLoop::wake() const {
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_.get(), &one, sizeof one));  // full: it is awake anyway
}

// nats.c takes a write of nothing for a closed connection: so one at a time, and only when there is
// something.
void SocketLoop::flush() {
  natsConnection* const connection = connection_;
  if (!connection) return;
  {
    const std::lock_guard lock(writing_);
    if (!unsent_) return;
    natsConnection_ProcessWriteEvent(connection);
  }
  if (unsent_) wake();
}

bool SocketLoop::flush_most(std::chrono::steady_clock::time_point until) {
  flush();
  natsConnection* const connection = connection_;
  const auto much_is_left = [&] {
    return connection && unsent_ && socket_ >= 0 && natsConnection_Buffered(connection) > kMuch;
  };
  std::unique_lock lock(writing_);
  while (much_is_left()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    wrote_.wait_for(lock, kLook);
  }
  return true;
}

void SocketLoop::run(const std::stop_token& stop) {
  const Gathering flushed_here;
  while (!stop.stop_requested()) {
    const int socket = socket_;
    std::array<pollfd, 2> waiting{{{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = socket, .events = POLLIN, .revents = 0}}};
    if (unsent_) waiting[1].events |= POLLOUT;
    if (::poll(waiting.data(), waiting.size(), -1) <= 0) continue;
    std::uint64_t rung = 0;
    if (waiting[0].revents != 0) static_cast<void>(::read(wake_.get(), &rung, sizeof rung));
    if (socket >= 0 && (waiting[1].revents & ~POLLOUT) != 0) {
      natsConnection_ProcessReadEvent(connection_);
      came_();
    }
    if (unsent_) {
      const std::lock_guard lock(writing_);
      if (unsent_) natsConnection_ProcessWriteEvent(connection_);
      wrote_.notify_all();
    }
  }
}

}  // namespace once::store::nats
