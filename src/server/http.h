// An HTTP request and its response as plain values. Only http_server.cpp knows Boost.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "once/task.h"

namespace once::inline v1 {
struct AccessToken;
}

namespace once::server {

struct Header {
  std::string name{};
  std::string value{};
};

struct Request {
  std::string method{};
  std::string target{};  // path and query, as the client sent them
  std::vector<Header> headers{};
  std::string body{};
  // The token that the client sent. Null if the server asks for none. Shared with the server's list.
  std::shared_ptr<const AccessToken> caller{};

  // The names of headers ignore case. Returns nullopt if the request has no such header.
  std::optional<std::string_view> header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string type = "application/json";
  std::string body{};
  std::vector<Header> headers{};
  // Called on a thread of the pool if the connection ended before the response was sent.
  std::function<void()> lost{};
};

// Answers a parked request, once, from any thread.
using AnswerWith = std::function<void(Response)>;

// A request that waits for something. Its end means that the client is gone.
class Wait {
 public:
  virtual ~Wait() = default;
  // The time is up, or the server ends: the request must be answered soon. Must not block. A response
  // without an end is not asked.
  virtual void finish() {}
};

// A long poll. The server keeps the connection, and no thread waits meanwhile. The I/O thread calls
// `begin`, which must not block. After `limit`, the server calls Wait::finish().
struct Parked {
  Duration limit{};
  // The request ends if its token is removed. False if it may have an effect by then.
  bool ends_with_token = true;
  std::function<std::unique_ptr<Wait>(AnswerWith)> begin{};
};

// Sends a further part of a response, from any thread. An empty part ends it.
using SendMore = std::function<void(std::string)>;

// A response without an end, such as server-sent events. The I/O thread calls `begin`, which must
// not block. A client that does not read loses its connection.
struct Streamed {
  std::string type{};
  std::function<std::unique_ptr<Wait>(SendMore)> begin{};
};

using Answer = std::variant<Response, Parked, Streamed>;

// What the server asks for each request.
class Service {
 public:
  virtual ~Service() = default;
  // Called on the I/O thread after the headers, before the body. Must not wait. A response here
  // answers the request without its body. Otherwise the Service may set `caller`.
  virtual std::optional<Response> answer_at_once(Request& head) = 0;
  // Called on a thread of the pool. May wait for the store.
  virtual Answer answer(const Request& request) = 0;
  // Words a failure of the protocol, such as a body above the limit. Called on the I/O thread.
  virtual Response refuse(int status, std::string_view detail) = 0;
};

// The reason phrase of a status, such as "Not Found".
std::string_view phrase(int status);

bool equal_ignoring_case(std::string_view left, std::string_view right);

}  // namespace once::server
