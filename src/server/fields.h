// Reads the parts of a request: parameters of the query and fields of a JSON body.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "once/task.h"
#include "once/view.h"
#include "server/router.h"

namespace once::server {

// The media type of the body in lower case, without parameters. Empty if the client sent none.
std::string media_type(const Request& request);
Response unsupported_media_type(const std::string& given, std::string_view wanted);

// A duration such as 30s. Returns nullopt if the client did not send the parameter.
Result<std::optional<Duration>> duration_query(const Call& call, const std::string& name);
Result<std::uint64_t> number_query(const Call& call, const std::string& name,
                                   std::uint64_t otherwise, std::uint64_t least,
                                   std::uint64_t most);
Result<bool> switch_query(const Call& call, const std::string& name);
// A time, or a duration that means so long ago.
Result<std::optional<Time>> past_query(const Call& call, const std::string& name);

// Returns a problem if the request has a body that is not JSON.
std::optional<Response> not_json(const Request& request);

// The JSON object of a body.
class Fields {
 public:
  // Fails if the body is not a JSON object, or if it has a field that is not in `known`. An empty
  // body is an object without fields.
  static Result<Fields> read(const Request& request, const std::vector<std::string>& known);

  bool has(const std::string& name) const;
  Result<std::optional<std::string>> text(const std::string& name) const;
  Result<std::optional<Duration>> duration(const std::string& name) const;
  Result<std::optional<std::uint64_t>> number(const std::string& name) const;
  // False if the client did not send the field.
  Result<bool> flag(const std::string& name) const;
  // The null body if the client did not send the field.
  Result<Body> body(const std::string& name) const;
  // The person who decides, in the fields `who` and `why`. A token's name is `who`. Fails if there is
  // neither.
  Result<By> by(const Request& request) const;
  const nlohmann::ordered_json& json() const { return *json_; }

 private:
  explicit Fields(std::shared_ptr<const nlohmann::ordered_json> json) : json_(std::move(json)) {}
  std::shared_ptr<const nlohmann::ordered_json> json_;  // shared by copies
};

}  // namespace once::server
