// An HTTP/1.1 server. One thread does all input and output, and a small pool calls the Service. A
// connection has one request at a time. A client that is slow or silent loses its connection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "once/result.h"
#include "server/http.h"

namespace once::server {

struct TcpAddress {
  std::string host{};  // an IP address
  std::uint16_t port{};
};

// Files in PEM. The first certificate is the server's, the others lead to one that clients trust.
struct TlsFiles {
  std::string certificate{};
  std::string key{};  // without a password
};

// Reads the files. Returns an error that names the file if one cannot be read, if the key does not
// fit the certificate, or if the certificate is not valid now.
Result<void> check_files(const TlsFiles& files);

struct ServerOptions {
  std::optional<TcpAddress> tcp{};
  std::optional<TlsFiles> tls{};  // for the TCP address; a Unix socket never has TLS
  std::string socket{};           // the path of a Unix socket; empty means none
  // The threads mostly wait for the store, which commits the publishes of several threads together.
  std::size_t threads = 16;
  std::size_t connections = 512;
  std::size_t header_bytes = 32 << 10;  // of the headers of one request
  std::uint64_t body_bytes = 16 << 20;  // of the body of one request
  // From the first byte of a request to the end of its headers, and for the handshake of TLS.
  Duration header_time{10'000};
  Duration body_time{120'000};  // of the whole body
  Duration silence{10'000};     // while a body or a response is under way
  Duration idle{60'000};        // between two requests
  Duration drain{20'000};       // after stop(), until open connections are cut off
};

class HttpServer {
 public:
  // Listens. The Service must outlive the server.
  static Result<HttpServer> listen(ServerOptions options, Service& service);
  HttpServer(HttpServer&&) noexcept;
  ~HttpServer();

  // The address with the port that was taken, such as 127.0.0.1:7070 or [::1]:7070.
  std::string address() const;

  // Serves until stop(). Returns after the last request is answered.
  void run();
  // Ends run(). The server accepts no more connections, answers long polls at once, and finishes
  // the requests that it has begun. Any thread may call.
  void stop();

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace once::server
