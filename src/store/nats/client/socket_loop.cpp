#include "store/nats/client/socket_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>

namespace once::store::nats {
namespace {

thread_local bool sending_here = false;  // a Sending exists on this thread; it will flush

}  // namespace

SocketLoop::SocketLoop()
    : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

SocketLoop::~SocketLoop() {
  stop();
  ::close(wake_);
}

natsStatus SocketLoop::serve(natsOptions* options) {
  return natsOptions_SetEventLoop(options, this, &attach, &on_read, &on_write, &detach);
}

SocketLoop::Sending::Sending() { sending_here = true; }

SocketLoop::Sending::~Sending() { sending_here = false; }

void SocketLoop::flush() {
  if (!unwritten_) return;
  const std::lock_guard io(io_);
  natsConnection* connection = attached();
  if (!connection || !unwritten_) return;
  natsConnection_ProcessWriteEvent(connection);
  if (unwritten_) wake();  // the socket is full: the loop waits for it
}

natsConnection* SocketLoop::attached() {
  const std::lock_guard lock(mutex_);
  return socket_ >= 0 ? connection_ : nullptr;
}

void SocketLoop::forget() {
  const std::scoped_lock lock(io_, mutex_);
  connection_ = nullptr;
  socket_ = -1;
  unwritten_ = false;
}

void SocketLoop::await_read() { const std::lock_guard lock(reading_); }

void SocketLoop::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  wake();
  thread_.join();
}

void SocketLoop::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::array<pollfd, 2> polled{{{.fd = wake_, .events = POLLIN, .revents = 0},
                                  {.fd = -1, .events = POLLIN, .revents = 0}}};
    {
      const std::lock_guard lock(mutex_);
      polled[1].fd = socket_;
    }
    if (unwritten_) polled[1].events |= POLLOUT;
    if (::poll(polled.data(), polled.size(), -1) < 0) continue;
    std::uint64_t count = 0;
    if (polled[0].revents != 0 && ::read(wake_, &count, sizeof count) < 0) continue;
    if ((polled[1].revents & ~POLLOUT) != 0) {
      const std::scoped_lock lock(io_, reading_);
      if (natsConnection* connection = attached()) natsConnection_ProcessReadEvent(connection);
    }
    if (unwritten_) flush();
  }
}

void SocketLoop::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof one);
}

natsStatus SocketLoop::attach(void** data, void* loop, natsConnection* connection,
                              natsSock socket) {
  auto* self = static_cast<SocketLoop*>(loop);
  *data = self;
  {
    const std::lock_guard lock(self->mutex_);
    self->connection_ = connection;
    self->socket_ = static_cast<int>(socket);
  }
  self->wake();
  return NATS_OK;
}

// nats.c uses this call only to end the reading. A later attach() begins it again.
natsStatus SocketLoop::on_read(void* data, bool add) {
  auto* self = static_cast<SocketLoop*>(data);
  if (add) return NATS_OK;
  {
    const std::lock_guard lock(self->mutex_);
    self->socket_ = -1;
  }
  self->wake();
  return NATS_OK;
}

natsStatus SocketLoop::on_write(void* data, bool add) {
  auto* self = static_cast<SocketLoop*>(data);
  self->unwritten_ = add;
  if (add && !sending_here) self->wake();
  return NATS_OK;
}

natsStatus SocketLoop::detach(void*) { return NATS_OK; }

}  // namespace once::store::nats
