// A task's body, and the canonical form as the public API gives it.
#include <mutex>

#include "codec/digest.h"
#include "codec/stored_body.h"
#include "core/utf8.h"
#include "json/dot_path.h"
#include "json/json.h"
#include "once/json.h"
#include "once/task.h"

namespace once::inline v1 {
namespace {

// What every body's text is, though the header does not say so.
struct SharedText final : std::string {
  explicit SharedText(std::string text) : std::string(std::move(text)) {}
  std::string canonical{};  // empty: not kept
  mutable std::once_flag hashed{};
  mutable core::Digest digest{};
};

// The canonical form of a larger body is computed twice, because to keep it would cost memory.
constexpr std::size_t kCanonicalKept = 4096;

}  // namespace

Result<Body> Body::json(std::string_view text) {
  return StoredBody::checked_json(std::string(text));
}

Body Body::bytes(std::string bytes) {
  Body body;
  body.text_ = std::make_shared<const SharedText>(std::move(bytes));
  body.json_ = false;
  return body;
}

Result<Body> StoredBody::checked_json(std::string&& text) {
  std::string canonical;
  if (const auto checked = encoding::canonicalise(text, canonical); !checked)
    return checked.error();
  auto shared = std::make_shared<SharedText>(std::move(text));
  if (canonical.size() <= kCanonicalKept) shared->canonical = std::move(canonical);
  return with(std::move(shared), true);
}

Body StoredBody::json(std::string text) {
  Body body;
  body.text_ = std::make_shared<const SharedText>(std::move(text));
  return body;
}

Body StoredBody::with(std::shared_ptr<const std::string> text, bool json) {
  Body body;
  body.text_ = std::move(text);
  body.json_ = json;
  return body;
}

std::string_view StoredBody::canonical(const Body& body) {
  if (!body.text_) return {};
  return static_cast<const SharedText*>(body.text_.get())->canonical;
}

core::Digest StoredBody::digest(const Body& body) {
  const auto* const shared = static_cast<const SharedText*>(body.text_.get());
  if (shared == nullptr) return encoding::sha256(body.text());
  std::call_once(shared->hashed, [&] { shared->digest = encoding::sha256(*shared); });
  return shared->digest;
}

Result<std::string> Body::at(std::string_view dot_path) const {
  if (!json_) {
    return Error{.code = Code::invalid_input,
                 .message = "the body is bytes, not JSON: there is nothing at " +
                            core::excerpt(dot_path, 100)};
  }
  const auto root = encoding::parse_json(text());
  if (!root) return root.error();
  const encoding::Json* found = encoding::at(*root, dot_path);
  if (found == nullptr) {
    return Error{.code = Code::not_found,
                 .message = "the body has nothing at " + core::excerpt(dot_path, 100)};
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
