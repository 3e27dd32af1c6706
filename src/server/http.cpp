#include "server/http.h"

#include <algorithm>
#include <array>
#include <utility>

namespace once::server {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

}  // namespace

bool equal_ignoring_case(std::string_view left, std::string_view right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

std::optional<std::string_view> Request::header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(), [&](const Header& each) {
    return equal_ignoring_case(each.name, name);
  });
  return found == headers.end() ? std::nullopt : std::optional<std::string_view>(found->value);
}

std::string_view phrase(int status) {
  static constexpr auto kPhrases = std::to_array<std::pair<int, std::string_view>>({
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {409, "Conflict"},
      {413, "Content Too Large"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {422, "Unprocessable Content"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
  });
  const auto* const found = std::find_if(kPhrases.begin(), kPhrases.end(),
                                         [&](const auto& each) { return each.first == status; });
  return found == kPhrases.end() ? "Unknown" : found->second;
}

}  // namespace once::server
