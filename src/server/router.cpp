#include "server/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "server/problem.h"

namespace once::server {
namespace {

using Parameters = std::map<std::string, std::string>;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view method_of(const Request& request) {
  return request.method == "HEAD" ? std::string_view("GET") : request.method;
}

bool is_parameter(std::string_view segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

Result<Parameters> query_of(std::string_view text, const std::vector<std::string>& known) {
  Parameters query;
  if (text.empty()) return query;
  for (const std::string_view part : split(text, '&')) {
    const std::size_t equals = part.find('=');
    const auto name = percent_decoded(part.substr(0, equals), true);
    const auto value =
        percent_decoded(equals == part.npos ? std::string_view{} : part.substr(equals + 1), true);
    if (!name || !value)
      return invalid_input("the query has a percent sign without two hexadecimal digits");
    if (std::find(known.begin(), known.end(), *name) == known.end()) {
      return invalid_input(
          known.empty()
              ? fmt::format("unknown parameter \"{}\"; this path takes no parameters", *name)
              : fmt::format("unknown parameter \"{}\" (known: {})", *name, fmt::join(known, ", ")));
    }
    if (!query.emplace(*name, *value).second)
      return invalid_input(fmt::format("the parameter \"{}\" is there twice", *name));
  }
  return query;
}

Response no_such_path(std::string_view act) {
  Error error{.code = Code::not_found, .message = "there is no such path"};
  if (!act.empty()) {
    error.message = fmt::format(
        "there is no such path with the act \"{}\"; a colon that belongs to a name is sent as %3A",
        act);
  }
  return problem(error);
}

}  // namespace

std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      const int high = i + 1 < text.size() ? hex_value(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

std::optional<std::string> Call::query(const std::string& name) const {
  const auto found = query_.find(name);
  return found == query_.end() ? std::nullopt : std::optional(found->second);
}

Router::Router(std::vector<Route> routes, Guard guard) : guard_(std::move(guard)) {
  for (Route& route : routes) {
    Path path = pattern_of(route.pattern);
    routes_.push_back({std::move(route), std::move(path)});
  }
}

// The segments stay encoded, so that an encoded slash or colon separates nothing.
Router::Path Router::pattern_of(const std::string& pattern) {
  std::string_view text = pattern;
  if (text.starts_with('/')) text.remove_prefix(1);
  Path path;
  for (const std::string_view segment : split(text, '/')) path.segments.emplace_back(segment);
  std::string& last = path.segments.back();
  if (const std::size_t colon = last.rfind(':'); colon != std::string::npos) {
    path.act = last.substr(colon + 1);
    last.erase(colon);
  }
  return path;
}

std::optional<Parameters> Router::match(const Path& pattern, const Path& path) {
  if (pattern.act != path.act || pattern.segments.size() != path.segments.size()) return {};
  Parameters parameters;
  for (std::size_t i = 0; i < pattern.segments.size(); ++i) {
    const std::string& wanted = pattern.segments[i];
    if (!is_parameter(wanted)) {
      if (wanted != path.segments[i]) return {};
    } else if (path.segments[i].empty()) {
      return {};
    } else {
      parameters.emplace(wanted.substr(1, wanted.size() - 2), path.segments[i]);
    }
  }
  return parameters;
}

Router::Path Router::path_of(const Request& request) {
  return pattern_of(request.target.substr(0, request.target.find('?')));
}

const Route* Router::route_of(const Request& request) const {
  const Path path = path_of(request);
  const std::string_view method = method_of(request);
  for (const Compiled& each : routes_)
    if (each.route.method == method && match(each.path, path)) return &each.route;
  return nullptr;
}

Answer Router::answer(const Request& request) const {
  const std::string_view target = request.target;
  const std::size_t question = target.find('?');
  if (!target.starts_with('/'))
    return problem(invalid_input("the target of a request is a path that starts with a slash"));
  const Path path = path_of(request);
  const std::string_view query =
      question == target.npos ? std::string_view{} : target.substr(question + 1);
  const std::string_view method = method_of(request);
  std::set<std::string> allowed;
  for (const Compiled& each : routes_) {
    auto parameters = match(each.path, path);
    if (!parameters) continue;
    if (each.route.method == method)
      return call(each.route, request, std::move(*parameters), query);
    allowed.insert(each.route.method);
    if (each.route.method == "GET") allowed.insert("HEAD");
  }
  if (allowed.empty()) return no_such_path(path.act);
  Response response =
      problem(405, invalid_input(fmt::format("this path does not take {}; it takes {}",
                                             request.method, fmt::join(allowed, ", "))));
  response.headers.push_back({"Allow", fmt::format("{}", fmt::join(allowed, ", "))});
  return response;
}

Answer Router::call(const Route& route, const Request& request, Parameters path,
                    std::string_view query) const {
  for (auto& [name, value] : path) {
    auto decoded = percent_decoded(value);
    if (!decoded)
      return problem(invalid_input("the path has a percent sign without two hexadecimal digits"));
    value = std::move(*decoded);
  }
  auto parameters = query_of(query, route.queries);
  if (!parameters) return problem(parameters.error());
  const Call call(request, std::move(path), std::move(*parameters));
  if (guard_) {
    if (auto may = guard_(route, call); !may) return problem(may.error());
  }
  Reply reply = route.handler(call);
  if (const auto* error = std::get_if<Error>(&reply)) return problem(*error);
  if (auto* parked = std::get_if<Parked>(&reply)) return std::move(*parked);
  if (auto* streamed = std::get_if<Streamed>(&reply)) return std::move(*streamed);
  return std::get<Response>(std::move(reply));
}

}  // namespace once::server
