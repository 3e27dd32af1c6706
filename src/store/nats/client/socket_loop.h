// Reads and writes the socket of one connection. nats.c calls this an external event loop.
//
// Without it, nats.c writes every message with a system call of its own, or up to a millisecond
// late. With it, messages gather in the buffer of nats.c until flush(). So a burst takes a few
// system calls.
//
// | what happens | result |
// |---|---|
// | a thread sends and does not flush | the next flush() of any thread writes the message |
// | the socket accepts a part of the buffer | the loop writes the rest when the socket has room |
// | the connection breaks before the buffer is written | nats.c drops the buffer |
// | a new connection is made with the same options | attach() gets its socket; the loop reads it |
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "store/nats/client/handles.h"

namespace once::store::nats {

class SocketLoop {
 public:
  SocketLoop();
  ~SocketLoop();
  SocketLoop(const SocketLoop&) = delete;
  SocketLoop& operator=(const SocketLoop&) = delete;

  // Makes connections with these options use this loop. The loop outlives them.
  natsStatus serve(natsOptions* options);
  // While a Sending exists, the messages of its thread gather in the buffer of nats.c and do not
  // wake the loop. The thread must call flush() later.
  struct Sending {
    Sending();
    ~Sending();
    Sending(const Sending&) = delete;
    Sending& operator=(const Sending&) = delete;
  };
  // Writes as much of the buffer as the socket accepts now. Any thread may call it.
  void flush();
  // Returns when no read is in progress. During a read, nats.c passes each message to a delivery
  // thread under a lock that both threads need. If the delivery thread waits here first, it does
  // not compete for that lock between two messages of one read.
  void await_read();
  // After this call, no thread uses the connection that was attached last. The caller may destroy
  // that connection, which is closed.
  void forget();
  // Ends the loop's thread. Call it before the connection is closed. Then no thread reads the
  // socket while nats.c closes it.
  void stop();

 private:
  static natsStatus attach(void** data, void* loop, natsConnection* connection, natsSock socket);
  static natsStatus on_read(void* self, bool add);
  static natsStatus on_write(void* self, bool add);
  static natsStatus detach(void* self);
  void run(const std::stop_token& stop);
  // Returns null if there is no socket to read. With io_ held, the connection stays valid.
  natsConnection* attached();
  void wake() const;

  const int wake_;                       // an eventfd that ends the poll() of run()
  std::atomic<bool> unwritten_ = false;  // the buffer of nats.c is not empty
  // Held while the socket is read or written. A thread that meets an error closes the socket. So no
  // other thread uses the socket at that moment.
  std::mutex io_;
  std::mutex reading_;
  std::mutex mutex_;  // guards the fields below; nats.c holds its own lock when it calls back
  natsConnection* connection_ = nullptr;
  int socket_ = -1;  // -1 if there is no socket to read
  std::jthread thread_;
};

}  // namespace once::store::nats
