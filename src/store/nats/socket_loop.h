// The connection's socket, read and written by Once instead of by nats.c's own threads: what is sent
// gathers until somebody flushes, in one system call for a whole burst, and what comes is handed over
// by as much as was read at once. nats.c calls this an external event loop.
#pragma once

#include <nats/nats.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "store/file_descriptor.h"

namespace once::store::nats {

class SocketLoop {
 public:
  SocketLoop();
  ~SocketLoop() { stop(); }
  SocketLoop(const SocketLoop&) = delete;
  SocketLoop& operator=(const SocketLoop&) = delete;

  // Before the connection is made; the loop outlives it.
  natsStatus attach_to(natsOptions* options);
  // Once it is made: calls `came` on its thread whenever something was read. The connection is not
  // destroyed before stop().
  void start(natsConnection* connection, std::function<void()> came);
  void stop();

  // While one of these lives, what its thread sends waits for a flush.
  class Gathering {
   public:
    Gathering() { ++depth(); }
    ~Gathering() { --depth(); }
    Gathering(const Gathering&) = delete;
    Gathering& operator=(const Gathering&) = delete;
    static bool here() { return depth() > 0; }

   private:
    static int& depth();
  };
  // Sends what has gathered, as far as the socket takes it; the rest goes as soon as it does.
  void flush();
  // The same, and waits while much is left; false: it still is. Not for the loop's own thread.
  bool flush_most(std::chrono::steady_clock::time_point until);

 private:
  void run(const std::stop_token& stop);
  void wake() const;

  FileDescriptor wake_;
  std::atomic<natsConnection*> connection_{nullptr};
  std::atomic<int> socket_{-1};
  std::atomic<bool> unsent_{false};  // something waits to be written
  std::mutex writing_;
  std::condition_variable wrote_;  // with writing_
  std::function<void()> came_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace once::store::nats
