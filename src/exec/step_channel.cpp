#include "exec/step_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace once::engine::step {
namespace {

class Address {
 public:
  explicit Address(const std::string& path) {
    address_.sun_family = AF_UNIX;
    std::string name = path;
    if (name.size() >= sizeof address_.sun_path) {
      const std::filesystem::path whole(path);
      folder_ = store::FileDescriptor(
          ::open(whole.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      name = "/proc/self/fd/" + std::to_string(folder_.get()) + "/" + whole.filename().string();
    }
    fits_ = name.size() < sizeof address_.sun_path;
    if (fits_) std::memcpy(address_.sun_path, name.c_str(), name.size() + 1);
  }

  // A call of bind() or connect(), which set errno.
  template <class Call>
  bool with(Call call) const {
    errno = ENAMETOOLONG;
    return fits_ && call(reinterpret_cast<const sockaddr*>(&address_), sizeof address_) == 0;
  }

 private:
  sockaddr_un address_{};
  store::FileDescriptor folder_{};  // open for as long as its number is in the address
  bool fits_ = false;
};

store::FileDescriptor stream_socket(int flags) {
  return store::FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
}

}  // namespace

store::FileDescriptor listen_at(const std::string& path) {
  auto socket = stream_socket(SOCK_NONBLOCK);
  const auto bound = [&](const sockaddr* address, socklen_t size) {
    return ::bind(socket.get(), address, size);
  };
  // The file gets the socket's mode: there is no moment at which others could connect.
  if (!socket || ::fchmod(socket.get(), 0600) != 0 || !Address(path).with(bound) ||
      ::listen(socket.get(), SOMAXCONN) != 0)
    return {};
  return socket;
}

store::FileDescriptor connect_to(const std::string& path) {
  auto socket = stream_socket(0);
  const auto connected = [&](const sockaddr* address, socklen_t size) {
    int result = 0;
    do result = ::connect(socket.get(), address, size);
    while (result != 0 && errno == EINTR);
    return result;
  };
  if (!socket || !Address(path).with(connected)) return {};
  return socket;
}

Channel::Wait Channel::wait_for(short events) const {
  for (;;) {
    pollfd fds[] = {{socket_.get(), events, 0}, {stop_, POLLIN, 0}};
    if (::poll(fds, std::size(fds), -1) < 0) continue;  // EINTR
    if (fds[0].revents != 0) return Wait::ready;
    if (fds[1].revents != 0) return Wait::stopped;
  }
}

std::optional<Message> Channel::receive() {
  for (;;) {
    if (received_.size() >= kSizeBytes) {
      std::size_t size = 0;
      for (std::size_t i = 0; i < kSizeBytes; ++i)
        size |= static_cast<std::size_t>(static_cast<unsigned char>(received_[i])) << (8 * i);
      if (size > max_frame_) return std::nullopt;
      if (received_.size() >= kSizeBytes + size) {
        auto message = decode(std::string_view(received_).substr(kSizeBytes, size));
        received_.erase(0, kSizeBytes + size);
        return message;
      }
    }
    if (wait_for(POLLIN) == Wait::stopped) return std::nullopt;
    char bytes[64 << 10];
    const ssize_t size = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (size <= 0) return std::nullopt;
    received_.append(bytes, static_cast<std::size_t>(size));
  }
}

bool Channel::send(const Message& message) {
  const std::string frame = encode(message);
  for (std::size_t at = 0; at < frame.size();) {
    const ssize_t size =
        ::send(socket_.get(), frame.data() + at, frame.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size >= 0) {
      at += static_cast<std::size_t>(size);
    } else if (errno == EAGAIN) {
      if (wait_for(POLLOUT) == Wait::stopped) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace once::engine::step
