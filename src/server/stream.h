// The byte stream of one connection: a TCP or Unix socket, in plain or with TLS. Only
// http_server.cpp includes this file. A Stream is used on the I/O thread alone.
#pragma once

#include <sys/socket.h>

#include <array>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace once::server {

class Stream {
 public:
  using Failed = boost::system::error_code;
  using Socket = boost::asio::generic::stream_protocol::socket;
  using executor_type = Socket::executor_type;
  using Heard = std::function<void(Failed)>;

  // With a `context`, the stream speaks TLS. The context must outlive the stream.
  Stream(Socket socket, boost::asio::ssl::context* context) {
    if (context != nullptr) {
      tls_.emplace(std::move(socket), *context);
    } else {
      plain_.emplace(std::move(socket));
    }
  }

  executor_type get_executor() { return this->socket().get_executor(); }
  // The socket below TLS.
  Socket& socket() { return tls_ ? tls_->next_layer() : *plain_; }
  bool encrypted() const { return tls_.has_value(); }

  // Shakes hands with the client. A stream without TLS is ready at once.
  void handshake(Heard then) {
    if (!tls_) return then({});
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::move(then));
  }

  // Calls `then` after the client sent more bytes or ended the connection; see ended(). A second
  // call replaces the first one if the stream speaks TLS.
  void wait_for_input(Heard then) {
    if (!tls_) return plain_->async_wait(Socket::wait_read, std::move(then));
    if (!ahead_.empty())
      return boost::asio::post(get_executor(), [then = std::move(then)] { then({}); });
    heard_ = std::move(then);
    read_ahead();
  }

  // Whether the client ended the connection. Asked after wait_for_input(), bytes that wait to be
  // read mean that the client is there.
  bool ended() {
    if (tls_) return ended_;
    char byte = 0;
    const ssize_t got = ::recv(plain_->native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(Failed, std::size_t)>(
        [this](auto handler, const Buffers& into) { this->read(into, std::move(handler)); }, token,
        buffers);
  }

  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(Failed, std::size_t)>(
        [this](auto handler, const Buffers& from) {
          if (tls_) {
            tls_->async_write_some(from, std::move(handler));
          } else {
            plain_->async_write_some(from, std::move(handler));
          }
        },
        token, buffers);
  }

  // Tells the client that nothing follows, then calls `then`. The client may still send.
  void end_sending(std::function<void()> then) {
    if (!tls_) {
      Failed ignored;
      plain_->shutdown(Socket::shutdown_send, ignored);
      return then();
    }
    tls_->async_shutdown([this, then = std::move(then)](Failed) {
      Failed ignored;
      this->socket().shutdown(Socket::shutdown_send, ignored);
      then();
    });
  }

  void close() {
    Failed ignored;
    socket().shutdown(Socket::shutdown_both, ignored);
    socket().close(ignored);
  }

 private:
  // TLS has bytes of its own on the socket, so only a read tells whether the client sent anything.
  void read_ahead() {
    if (reading_ahead_) return;
    reading_ahead_ = true;
    tls_->async_read_some(boost::asio::buffer(room_), [this](Failed failed, std::size_t bytes) {
      reading_ahead_ = false;
      ahead_ = std::string_view(room_.data(), bytes);
      ended_ = failed && failed != boost::asio::error::operation_aborted;
      if (auto then = std::exchange(heard_, {})) then(failed);
    });
  }

  template <class Buffers, class Handler>
  void read(const Buffers& into, Handler handler) {
    if (!tls_) return plain_->async_read_some(into, std::move(handler));
    if (reading_ahead_) {
      // The bytes that are under way come first. A Handler cannot be copied, a Heard must be.
      auto kept = std::make_shared<Handler>(std::move(handler));
      heard_ = [this, into, kept](Failed failed) {
        if (failed) return std::move(*kept)(failed, 0);
        this->read(into, std::move(*kept));
      };
      return;
    }
    if (ahead_.empty()) return tls_->async_read_some(into, std::move(handler));
    const std::size_t bytes = boost::asio::buffer_copy(into, boost::asio::buffer(ahead_));
    ahead_.remove_prefix(bytes);
    boost::asio::post(get_executor(), boost::asio::append(std::move(handler), Failed{}, bytes));
  }

  std::optional<Socket> plain_{};
  std::optional<boost::asio::ssl::stream<Socket>> tls_{};
  std::array<char, 4096> room_{};
  std::string_view ahead_{};  // in room_: read, but not yet asked for
  bool reading_ahead_ = false;
  bool ended_ = false;
  Heard heard_{};  // waits for the read ahead
};

}  // namespace once::server
