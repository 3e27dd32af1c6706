// The OpenAPI 3.1 description of the server. Paths, methods and parameters come from the routes. The
// tables below add the summaries and the shapes of bodies, in the notation of schema_notation.h.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/router.h"

namespace once::server {

struct DescribedAnswer {
  int status{};
  std::string_view schema{};
  std::string_view type = "application/json";
};

// What the document says about one route. Every failure is a Problem besides.
struct Operation {
  std::string_view method{};
  std::string_view pattern{};
  std::string_view name{};  // the operationId
  std::string_view summary{};
  std::vector<DescribedAnswer> answers{};
  std::string_view body{};  // empty means that the route takes no body
  std::string_view body_type = "application/json";
  bool bytes = false;                       // the body may also be of any other type
  std::vector<std::string_view> headers{};  // request headers that the route reads
};
const std::vector<Operation>& operations();

// A parameter of a path or query, or a header. It means the same wherever it has this name.
struct DescribedParameter {
  std::string_view name{};
  std::string_view schema{};
  std::string_view summary{};
};
std::span<const DescribedParameter> described_parameters();

struct NamedSchema {
  std::string_view name{};
  std::string_view schema{};
};
std::span<const NamedSchema> named_schemas();

// The document as JSON. A route without a description is there without its bodies.
std::string openapi_document(const std::vector<Route>& routes);

// GET /openapi.json. The document also describes this route.
Route openapi_route(const std::vector<Route>& routes);

}  // namespace once::server
