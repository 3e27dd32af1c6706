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
};

// A long poll. The server keeps the connection and calls `look` again and again until `look`
// returns a response. No thread waits meanwhile. After `limit`, the server passes `last` = true,
// and `look` must return a response.
struct Parked {
  Duration limit{};
  std::function<std::optional<Response>(bool last)> look{};
};

using Answer = std::variant<Response, Parked>;

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
