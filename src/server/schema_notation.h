// A short notation for the JSON Schema of a value, as TypeScript writes types:
//
//   {id: string, sequence: integer | null, not_before?: time, headers: {*: string}, queues: Queue[]}
//
// A field with `?` may be left out. `{*: T}` is an object of any fields. `'a' | 'b'` lists texts.
// A name in upper case is a schema of its own. `...Name` puts the fields of that schema here.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace once::server {

struct SchemaOptions {
  // Returns the notation of a name in upper case. Throws if there is no such name.
  std::function<std::string_view(std::string_view name)> find{};
  bool closed = false;  // the objects have no other fields
};

// Throws std::invalid_argument if the text is not in this notation.
nlohmann::ordered_json schema_of(std::string_view text, const SchemaOptions& options);

}  // namespace once::server
