// A Unix socket in the folder of an attempt, and messages over one connection to it.
//
// A folder may have a longer path than a socket's address can hold (107 bytes). It is then named by
// an open descriptor, /proc/self/fd/N/socket, on both sides: the socket always lies in the
// attempt's private folder and goes with it, and needs no second place with rights of its own.
#pragma once

#include <optional>
#include <string>

#include "exec/step_protocol.h"
#include "store/file_descriptor.h"

namespace once::engine::step {

// Both answer no descriptor, and errno, when it cannot be done.
store::FileDescriptor listen_at(const std::string& path);  // mode 0600; accept() never waits
store::FileDescriptor connect_to(const std::string& path);

// Neither side can make the other wait for more than it can be stopped from waiting for: `stop` is a
// descriptor that becomes readable, or -1.
class Channel {
 public:
  // `max_result`: of the messages that it receives.
  Channel(store::FileDescriptor socket, std::uint64_t max_result, int stop = -1)
      : socket_(std::move(socket)), max_frame_(max_result + kAroundResult), stop_(stop) {}

  // The next message; what has arrived comes before a stop. None: the other side is gone or speaks
  // nonsense, or there was a stop.
  std::optional<Message> receive();
  // False: not, or not as a whole, sent.
  bool send(const Message& message);

 private:
  enum class Wait { ready, stopped };
  Wait wait_for(short events) const;

  store::FileDescriptor socket_;
  std::uint64_t max_frame_;
  int stop_;
  std::string received_{};  // and not yet taken
};

}  // namespace once::engine::step
