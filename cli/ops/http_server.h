// A small HTTP/1.1 server for what a process tells of itself: GET and HEAD, one answer per connection. One thread of its own; whatever clients do costs it bounded memory and time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "once/result.h"

namespace once::cli {

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body{};
};

// Where to listen. An empty host is the loopback: 127.0.0.1 and, where there is one, ::1.
struct HttpAddress {
  std::string host{};
  std::uint16_t port{};

  std::string text() const;  // HOST:PORT
};

class HttpServer {
 public:
  // Given a path without its query. Called on the server's thread: must not throw, nor take long.
  using Answerer = std::function<HttpAnswer(std::string_view path)>;

  // Port 0 means any free port. An address that cannot be listened on is invalid_input.
  static Result<std::unique_ptr<HttpServer>> open(const HttpAddress& address, Answerer answerer);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  class Socket;
  struct Connection;

  HttpServer(std::vector<Socket> listeners, Socket woken, std::uint16_t port, Answerer answerer);
  static Result<std::vector<Socket>> listen_on(const HttpAddress& address);
  void run(std::stop_token ended);
  void accept_from(const Socket& listener);
  bool serve(Connection& connection);  // false: it is done with
  bool read(Connection& connection);
  bool write(Connection& connection);
  std::string answer(std::string_view request) const;

  const std::uint16_t port_;
  const Answerer answerer_;
  const std::vector<Socket> listeners_;
  const std::unique_ptr<Socket> woken_;  // an eventfd
  std::vector<Connection> connections_;  // the thread's, oldest first
  std::jthread thread_;                  // last: it uses the others
};

}  // namespace once::cli
