// A task's body, and the canonical form as the public API gives it.
#include "encoding/dot_path.h"
#include "encoding/json.h"
#include "encoding/stored_body.h"
#include "encoding/utf8.h"
#include "once/json.h"
#include "once/task.h"

namespace once::inline v1 {

Result<Body> Body::json(std::string_view text) {
  std::string canonical;
  if (const auto checked = encoding::canonicalise(text, canonical); !checked) {
    return checked.error();
  }
  Body body;
  body.text_ = text;
  return body;
}

Body Body::bytes(std::string bytes) {
  Body body;
  body.text_ = std::move(bytes);
  body.json_ = false;
  return body;
}

Body StoredBody::json(std::string text) {
  Body body;
  body.text_ = std::move(text);
  return body;
}

Result<std::string> Body::at(std::string_view dot_path) const {
  if (!json_) {
    return Error{.code = Code::invalid_input,
                 .message = "the body is bytes, not JSON: there is nothing at " +
                            encoding::excerpt(dot_path, 100)};
  }
  const auto root = encoding::parse_json(text_);
  if (!root) return root.error();
  const encoding::Json* found = encoding::at(*root, dot_path);
  if (found == nullptr) {
    return Error{.code = Code::not_found,
                 .message = "the body has nothing at " + encoding::excerpt(dot_path, 100)};
  }
  if (found->kind() == encoding::Json::Kind::string) return found->string();
  return encoding::canonical(*found);
}

Result<std::string> canonical_json(std::string_view text) {
  std::string canonical;
  if (const auto done = encoding::canonicalise(text, canonical); !done) return done.error();
  return canonical;
}

}  // namespace once::inline v1
