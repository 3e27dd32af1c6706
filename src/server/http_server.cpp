// The server on Boost.Asio and Boost.Beast. Only stream.h and tls.h also know them.
//
//   greeting -> idle -> header -> body -> working (pool) -> writing -> idle
//                                            |               ^
//                                            v               |
//                                          parked -----------+
//
// Every Connection is used on the I/O thread alone. A job of the pool holds the connection and a
// work guard, and posts its result back to the I/O thread.
#include "server/http_server.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <set>

#include "server/stream.h"
#include "server/tls.h"

namespace once::server {
// Not anonymous: HttpServer::Impl has a member of this type.
namespace connection {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Failed = boost::system::error_code;
using Socket = Stream::Socket;
using SteadyClock = std::chrono::steady_clock;

constexpr Duration kLinger{2'000};  // for a client to read a response before the connection ends
constexpr Duration kAcceptAgain{100};
constexpr std::size_t kMostUnsent = 1 << 20;  // bytes for a client that reads slowly

class Connection;

// Sends what fits into the socket's buffer, and that nothing follows.
template <class Given>
void send_last(Given& socket, const Response& response) {
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n", response.status,
                  phrase(response.status), response.type, response.body.size());
  for (const Header& each : response.headers) text += each.name + ": " + each.value + "\r\n";
  text += "Connection: close\r\n\r\n" + response.body;
  Failed ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(text), ignored);
  socket.shutdown(asio::socket_base::shutdown_send, ignored);
}

// What the connections of one server share.
struct Shared {
  Shared(ServerOptions given, Service& service_of)
      : options(std::move(given)), service(service_of), pool(options.threads) {}

  const ServerOptions options;
  Service& service;
  asio::io_context io{1};
  asio::thread_pool pool;
  std::unique_ptr<asio::ssl::context> tls{};  // null without TLS
  std::set<std::shared_ptr<Connection>> connections{};
  std::array<char, 4096> scratch{};  // for bytes that nobody needs
  bool draining = false;
  asio::steady_timer drain_limit{io};  // runs after stop() while connections are open
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `tls` may be null.
  Connection(Shared& shared, Socket socket, asio::ssl::context* tls)
      : shared_(shared), stream_(std::move(socket), tls), guard_(shared.io) {}

  void start() {
    arm(shared_.options.header_time);
    stream_.handshake([self = shared_from_this()](Failed failed) {
      if (self->closed()) return;
      if (sent_plain_http(failed)) return self->refuse_plain_http();
      if (failed) return self->close();
      self->await_request();
    });
  }

  // The server ends: an idle connection closes, a long poll is answered now.
  void drain() {
    if (state_ == State::greeting || state_ == State::idle || state_ == State::streaming)
      return close();
    if (state_ == State::parked) wait_->finish();
  }

  void close() {
    if (state_ == State::closed) return;
    state_ = State::closed;
    wait_.reset();
    report_lost();
    guard_.cancel();
    stream_.close();
    shared_.connections.erase(shared_from_this());
    if (shared_.connections.empty()) shared_.drain_limit.cancel();
  }

 private:
  enum class State {
    greeting,
    idle,
    header,
    body,
    working,
    parked,
    streaming,
    writing,
    lingering,
    closed
  };

  bool closed() const { return state_ == State::closed; }

  // Closes the connection unless the next step comes in time.
  void arm(Duration limit) {
    arm(limit, [](Connection& self) { self.close(); });
  }

  template <class Late>
  void arm(Duration limit, Late late) {
    guard_.expires_after(limit);
    guard_.async_wait([self = shared_from_this(), late](Failed failed) {
      if (!failed && !self->closed() && self->guard_.expiry() <= SteadyClock::now()) late(*self);
    });
  }

  // --- Reading

  void await_request() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(shared_.options.header_bytes));
    parser_->body_limit(shared_.options.body_bytes);
    request_ = {};
    if (buffer_.size() > 0) return read_header();
    if (shared_.draining) return close();
    state_ = State::idle;
    arm(shared_.options.idle);
    stream_.wait_for_input([self = shared_from_this()](Failed failed) {
      if (self->closed()) return;
      if (failed) return self->close();
      self->read_header();
    });
  }

  void read_header() {
    state_ = State::header;
    arm(shared_.options.header_time);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](Failed failed, std::size_t) {
                              if (self->closed()) return;
                              if (failed) return self->refuse(failed);
                              self->take_header();
                            });
  }

  void take_header() {
    const auto& head = parser_->get();
    request_.method = std::string(head.method_string());
    request_.target = std::string(head.target());
    for (const auto& field : head)
      request_.headers.push_back({std::string(field.name_string()), std::string(field.value())});
    keep_alive_ = head.keep_alive();
    if (auto response = shared_.service.answer_at_once(request_)) {
      if (!parser_->is_done()) keep_alive_ = false;
      return write(std::move(*response));
    }
    body_deadline_ = SteadyClock::now() + shared_.options.body_time;
    state_ = State::body;
    const auto expects = request_.header("Expect");
    if (expects && !equal_ignoring_case(*expects, "100-continue"))
      return refuse(417, "the server knows no other expectation than 100-continue");
    if (expects && !parser_->is_done()) return write_continue();
    read_body();
  }

  void write_continue() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    arm(shared_.options.silence);
    asio::async_write(stream_, asio::buffer(kContinue),
                      [self = shared_from_this()](Failed failed, std::size_t) {
                        if (self->closed()) return;
                        if (failed) return self->close();
                        self->read_body();
                      });
  }

  void read_body() {
    if (parser_->is_done()) return dispatch();
    const auto left = std::chrono::ceil<Duration>(body_deadline_ - SteadyClock::now());
    arm(std::clamp(left, Duration{0}, shared_.options.silence));
    http::async_read_some(stream_, buffer_, *parser_,
                          [self = shared_from_this()](Failed failed, std::size_t) {
                            if (self->closed()) return;
                            if (failed) return self->refuse(failed);
                            self->read_body();
                          });
  }

  void refuse(Failed failed) {
    if (failed == http::error::header_limit || failed == http::error::buffer_overflow)
      return refuse(
          431, fmt::format("the headers are longer than {} bytes", shared_.options.header_bytes));
    if (failed == http::error::body_limit)
      return refuse(413, fmt::format("the body is longer than {} bytes; nothing was done",
                                     shared_.options.body_bytes));
    if (failed.category() == make_error_code(http::error::bad_method).category() &&
        failed != http::error::end_of_stream && failed != http::error::partial_message)
      return refuse(400, fmt::format("this is no HTTP/1.1 request: {}", failed.message()));
    close();
  }

  void refuse(int status, const std::string& detail) {
    keep_alive_ = false;
    write(shared_.service.refuse(status, detail));
  }

  // --- Answering

  // Runs `call` on the pool, then `then` with its result on the I/O thread.
  template <class Call, class Then>
  void on_pool(Call call, Then then) {
    guard_.cancel();
    asio::post(shared_.pool,
               [self = shared_from_this(), call = std::move(call), then = std::move(then),
                work = asio::make_work_guard(shared_.io)]() mutable {
                 auto result = call(*self);
                 Connection* connection = self.get();
                 asio::post(connection->shared_.io,
                            [self = std::move(self), result = std::move(result), then]() mutable {
                              if (!self->closed()) then(*self, std::move(result));
                            });
               });
  }

  void dispatch() {
    state_ = State::working;
    request_.body = std::move(parser_->get().body());
    on_pool([](Connection& self) -> Answer { return self.shared_.service.answer(self.request_); },
            [](Connection& self, Answer answer) { self.finish(std::move(answer)); });
  }

  void finish(Answer answer) {
    if (auto* response = std::get_if<Response>(&answer)) return write(std::move(*response));
    if (auto* streamed = std::get_if<Streamed>(&answer)) return stream(std::move(*streamed));
    Parked& parked = std::get<Parked>(answer);
    state_ = State::parked;
    arm(parked.limit, [](Connection& self) { self.wait_->finish(); });
    watch_for_end();
    wait_ = parked.begin([weak = weak_from_this(), work = asio::make_work_guard(shared_.io),
                          &shared = shared_](Response response) {
      asio::post(shared.io, [weak, &shared, response = std::move(response)]() mutable {
        const auto self = weak.lock();
        if (self && self->state_ == State::parked) return self->answered(std::move(response));
        if (response.lost) asio::post(shared.pool, std::move(response.lost));
      });
    });
    if (shared_.draining) wait_->finish();
  }

  void answered(Response response) {
    wait_.reset();
    write(std::move(response));
  }

  // A client that goes away must not keep its place among the long polls.
  void watch_for_end() {
    stream_.wait_for_input([self = shared_from_this()](Failed) {
      const bool waits = self->state_ == State::parked || self->state_ == State::streaming;
      if (waits && self->stream_.ended()) self->close();
    });
  }

  // --- A response without an end: the end of the connection is its end

  void stream(Streamed streamed) {
    if (shared_.draining) return close();
    state_ = State::streaming;
    guard_.cancel();
    watch_for_end();
    send(
        fmt::format("HTTP/1.1 200 OK\r\nContent-Type: {}\r\nCache-Control: no-store\r\n"
                    "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
                    streamed.type));
    if (request_.method == "HEAD") return close_when_sent();
    wait_ = streamed.begin([weak = weak_from_this(), work = asio::make_work_guard(shared_.io),
                            &shared = shared_](std::string more) {
      asio::post(shared.io, [weak, more = std::move(more)] {
        const auto self = weak.lock();
        if (self && self->state_ == State::streaming) self->send(more);
      });
    });
  }

  void send(const std::string& more) {
    if (more.empty()) return close();
    unsent_ += more;
    if (unsent_.size() > kMostUnsent) return close();  // the client does not read
    if (sending_.empty()) send_unsent();
  }

  void send_unsent() {
    sending_ = std::exchange(unsent_, {});
    arm(shared_.options.silence);
    asio::async_write(stream_, asio::buffer(sending_),
                      [self = shared_from_this()](Failed failed, std::size_t) {
                        if (self->closed()) return;
                        if (failed) return self->close();
                        self->guard_.cancel();
                        self->sending_.clear();
                        if (self->state_ != State::streaming) return self->written();
                        if (!self->unsent_.empty()) self->send_unsent();
                      });
  }

  void close_when_sent() {
    keep_alive_ = false;
    state_ = State::writing;
  }

  // --- Writing

  void write(Response response) {
    state_ = State::writing;
    lost_ = std::move(response.lost);
    if (shared_.draining) keep_alive_ = false;
    response_ = {};
    response_.version(11);
    response_.result(static_cast<unsigned>(response.status));
    response_.reason(std::string(phrase(response.status)));
    response_.set(http::field::content_type, response.type);
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    for (const Header& header : response.headers) response_.set(header.name, header.value);
    response_.keep_alive(keep_alive_);
    response_.content_length(response.body.size());
    if (request_.method != "HEAD") response_.body() = std::move(response.body);
    serializer_.emplace(response_);
    write_some();
  }

  void write_some() {
    arm(shared_.options.silence);
    http::async_write_some(stream_, *serializer_,
                           [self = shared_from_this()](Failed failed, std::size_t) {
                             if (self->closed()) return;
                             if (failed) return self->close();
                             if (!self->serializer_->is_done()) return self->write_some();
                             self->written();
                           });
  }

  // The client may never have got the response, so the service takes back what it gave.
  void report_lost() {
    if (lost_) asio::post(shared_.pool, std::exchange(lost_, {}));
  }

  void written() {
    lost_ = {};
    serializer_.reset();
    response_ = {};
    if (keep_alive_) return await_request();
    state_ = State::lingering;
    arm(kLinger);
    stream_.end_sending([self = shared_from_this()] {
      if (!self->closed()) self->linger();
    });
  }

  // The client cannot read TLS, so the answer is plain.
  void refuse_plain_http() {
    state_ = State::lingering;
    arm(kLinger);
    send_last(stream_.socket(),
              shared_.service.refuse(400, "this port speaks TLS; send the request to https://"));
    linger();
  }

  void linger() {
    stream_.socket().async_read_some(asio::buffer(shared_.scratch),
                                     [self = shared_from_this()](Failed failed, std::size_t) {
                                       if (self->closed()) return;
                                       if (failed) return self->close();
                                       self->linger();
                                     });
  }

  Shared& shared_;
  Stream stream_;
  asio::steady_timer guard_;
  State state_ = State::greeting;
  beast::flat_buffer buffer_{};
  std::optional<http::request_parser<http::string_body>> parser_{};
  Request request_{};
  bool keep_alive_ = true;
  SteadyClock::time_point body_deadline_{};
  std::unique_ptr<Wait> wait_{};  // while the request is parked
  http::response<http::string_body> response_{};
  std::optional<http::response_serializer<http::string_body>> serializer_{};
  std::function<void()> lost_{};  // of the response
  std::string sending_{};         // of a response without an end
  std::string unsent_{};          // behind `sending_`
};

}  // namespace connection

using namespace connection;

namespace {

Error cannot_listen(const std::string& where, const std::string& why) {
  return {.code = Code::failed, .message = fmt::format("cannot listen on {}: {}", where, why)};
}

// Removes the socket that a killed server left behind. A living server answers a connection.
Result<void> free_path(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) return cannot_listen(path, "the file is not a socket");
  asio::io_context io;
  asio::local::stream_protocol::socket probe(io);
  Failed failed;
  probe.connect(asio::local::stream_protocol::endpoint(path), failed);
  if (failed != asio::error::connection_refused)
    return cannot_listen(path, "another server uses the socket");
  ::unlink(path.c_str());
  return {};
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(ServerOptions options, Service& service)
      : shared_(std::move(options), service),
        tcp_(shared_.io),
        local_(shared_.io),
        again_(shared_.io) {}

  ~Impl() {
    shared_.pool.join();
    if (bound_) ::unlink(shared_.options.socket.c_str());
  }

  Result<void> listen() {
    if (shared_.options.tls) {
      auto context = tls_context(*shared_.options.tls);
      if (!context) return context.error();
      shared_.tls = std::move(*context);
    }
    if (shared_.options.tcp) {
      if (auto done = listen_tcp(*shared_.options.tcp); !done) return done;
    }
    return shared_.options.socket.empty() ? Result<void>() : listen_local();
  }

  std::string address() const {
    Failed ignored;
    const auto endpoint = tcp_.local_endpoint(ignored);
    const std::string host = endpoint.address().to_string();
    return endpoint.address().is_v6() ? fmt::format("[{}]:{}", host, endpoint.port())
                                      : fmt::format("{}:{}", host, endpoint.port());
  }

  void run() {
    if (tcp_.is_open()) accept(tcp_);
    if (local_.is_open()) accept(local_);
    shared_.io.run();
    shared_.pool.join();
  }

  void stop() {
    asio::post(shared_.io, [this] { drain(); });
  }

 private:
  Result<void> listen_tcp(const TcpAddress& address) {
    const std::string where = fmt::format("{} port {}", address.host, address.port);
    Failed failed;
    const auto host = asio::ip::make_address(address.host, failed);
    if (failed) return cannot_listen(where, "this is no IP address");
    const asio::ip::tcp::endpoint endpoint(host, address.port);
    tcp_.open(endpoint.protocol(), failed);
    if (!failed) tcp_.set_option(asio::socket_base::reuse_address(true), failed);
    if (!failed) tcp_.bind(endpoint, failed);
    if (!failed) tcp_.listen(asio::socket_base::max_listen_connections, failed);
    if (failed) return cannot_listen(where, failed.message());
    return {};
  }

  Result<void> listen_local() {
    const std::string& path = shared_.options.socket;
    if (path.size() >= sizeof(sockaddr_un::sun_path))
      return cannot_listen(path, "the path is too long");
    if (auto free = free_path(path); !free) return free;
    Failed failed;
    local_.open(asio::local::stream_protocol(), failed);
    if (!failed) local_.bind(asio::local::stream_protocol::endpoint(path), failed);
    if (failed) return cannot_listen(path, failed.message());
    bound_ = true;
    // Nobody can connect before listen(), so nobody connects with other permissions.
    if (::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0)
      return cannot_listen(path, "cannot set its permissions");
    local_.listen(asio::socket_base::max_listen_connections, failed);
    if (failed) return cannot_listen(path, failed.message());
    return {};
  }

  template <class Acceptor>
  void accept(Acceptor& acceptor) {
    constexpr bool kTcp = std::is_same_v<Acceptor, asio::ip::tcp::acceptor>;
    auto* const tls = kTcp ? shared_.tls.get() : nullptr;
    acceptor.async_accept([this, &acceptor, tls](Failed failed, auto socket) {
      if (failed == asio::error::operation_aborted || !acceptor.is_open()) return;
      if (failed) return accept_later(acceptor);
      if (shared_.connections.size() >= shared_.options.connections) {
        // Before its handshake, a client of TLS could not read an answer.
        if (tls == nullptr) send_last(socket, shared_.service.refuse(503, "too many connections"));
      } else {
        auto connection = std::make_shared<Connection>(shared_, Socket(std::move(socket)), tls);
        shared_.connections.insert(connection);
        connection->start();
      }
      accept(acceptor);
    });
  }

  // The process may have no free file descriptor now.
  template <class Acceptor>
  void accept_later(Acceptor& acceptor) {
    again_.expires_after(kAcceptAgain);
    again_.async_wait([this, &acceptor](Failed) {
      if (acceptor.is_open()) accept(acceptor);
    });
  }

  void drain() {
    if (shared_.draining) return;
    shared_.draining = true;
    Failed ignored;
    tcp_.close(ignored);
    local_.close(ignored);
    again_.cancel();
    const auto open = shared_.connections;  // drain() may close a connection
    for (const auto& connection : open) connection->drain();
    if (shared_.connections.empty()) return;
    shared_.drain_limit.expires_after(shared_.options.drain);
    shared_.drain_limit.async_wait([this](Failed failed) {
      if (!failed) close_all();
    });
  }

  void close_all() {
    const auto open = shared_.connections;  // close() removes a connection from the set
    for (const auto& connection : open) connection->close();
  }

  Shared shared_;
  asio::ip::tcp::acceptor tcp_;
  asio::local::stream_protocol::acceptor local_;
  asio::steady_timer again_;
  bool bound_ = false;  // the path of the Unix socket is ours
};

Result<HttpServer> HttpServer::listen(ServerOptions options, Service& service) {
  auto impl = std::make_unique<Impl>(std::move(options), service);
  if (auto done = impl->listen(); !done) return done.error();
  return HttpServer(std::move(impl));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::HttpServer(HttpServer&&) noexcept = default;
HttpServer::~HttpServer() = default;

std::string HttpServer::address() const { return impl_->address(); }
void HttpServer::run() { impl_->run(); }
void HttpServer::stop() { impl_->stop(); }

}  // namespace once::server
