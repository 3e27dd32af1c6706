// A body on its way back from a store. It was checked when it was published, and a large one takes
// longer to check than to read.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/types.h"
#include "once/task.h"

namespace once::inline v1 {

struct StoredBody {
  static Body json(std::string text);
  // The same as Body::json() without a copy. An error leaves the text as it was.
  static Result<Body> checked_json(std::string&& text);
  // Bodies share their texts. These give a body the text of another, and the text to do so.
  static std::shared_ptr<const std::string> text(const Body& body) { return body.text_; }
  static Body with(std::shared_ptr<const std::string> text, bool json);
  // The RFC 8785 form, if the check of the body has left it. Empty otherwise.
  static std::string_view canonical(const Body& body);
  // SHA-256 of its text, which is computed once for all copies.
  static core::Digest digest(const Body& body);
};

}  // namespace once::inline v1
