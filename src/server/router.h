// Finds the handler of a request by its method and path. A path is a list of segments and, after
// the last colon of the last segment, an act: /v1/tasks/{id}:cancel. A client that needs a colon
// in the last segment sends %3A.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "once/result.h"
#include "server/http.h"

namespace once::server {

// A request that a route matches.
class Call {
 public:
  Call(const Request& request, std::map<std::string, std::string> path,
       std::map<std::string, std::string> query)
      : request_(request), path_(std::move(path)), query_(std::move(query)) {}

  const Request& request() const { return request_; }
  // A parameter of the path, such as `id`. The route must have it.
  const std::string& path(const std::string& name) const { return path_.at(name); }
  // A parameter of the query. Returns nullopt if the client did not send it.
  std::optional<std::string> query(const std::string& name) const;

 private:
  const Request& request_;
  std::map<std::string, std::string> path_;
  std::map<std::string, std::string> query_;
};

// What a handler returns. The router turns an Error into a problem document.
using Reply = std::variant<Response, Parked, Streamed, Error>;

struct Route {
  std::string method{};
  std::string pattern{};               // /v1/tasks/{id}:cancel
  std::vector<std::string> queries{};  // the parameters of the query that the route knows
  std::function<Reply(const Call&)> handler{};
};

class Router {
 public:
  // Whether a call may be made. The router asks it before the handler.
  using Guard = std::function<Result<void>(const Route&, const Call&)>;

  explicit Router(std::vector<Route> routes, Guard guard = {});

  // The route of a request. Returns null if no route has its method and path.
  const Route* route_of(const Request& request) const;

  // Calls the handler. Returns a problem document if no route matches, if the query has an unknown
  // parameter, or if the handler fails.
  Answer answer(const Request& request) const;

 private:
  struct Path {
    std::vector<std::string> segments{};
    std::string act{};
  };
  struct Compiled {
    Route route{};
    Path path{};
  };
  static Path pattern_of(const std::string& pattern);
  static Path path_of(const Request& request);
  static std::optional<std::map<std::string, std::string>> match(const Path& pattern,
                                                                 const Path& path);
  Answer call(const Route& route, const Request& request, std::map<std::string, std::string> path,
              std::string_view query) const;

  std::vector<Compiled> routes_;
  Guard guard_;
};

// Returns nullopt if a percent sign is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space = false);

}  // namespace once::server
