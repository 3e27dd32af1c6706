// Content identity: the digest that says whether two tasks are the same, and what differs when not.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/hex.h"
#include "core/types.h"
#include "once/task.h"

namespace once::encoding {

core::Digest sha256(std::string_view bytes);
std::string text(const core::Digest& digest);                    // "sha256:" and hex
std::optional<core::Digest> digest_from(std::string_view text);  // the inverse of text()

// SHA-256 over the RFC 8785 form of {"attachments":[],"body":...,"topic":...}; when the body is not
// JSON, "raw":"<hex SHA-256 of its bytes>" stands in place of "body".
Result<core::Digest> content_digest(std::string_view topic, const Body& body);

// Of what says the same whoever says it: then a second time is no other one.
core::Nonce nonce_of(const core::Digest& digest);

// Where two contents differ, for a person; empty when they do not. First "topic", when the topics
// differ. Then the bodies, as JSON paths in which "$" is the body: the deepest places that differ
// ("$.amount", "$.lines[2].sku", "$[\"a b\"]"), in canonical order; a member or element that only
// one side has is such a place. "$" alone when there is no deeper one: scalars, other kinds of
// value, bytes. At most 16 in all.
std::vector<std::string> differing(std::string_view topic, const Body& body,
                                   std::string_view other_topic, const Body& other_body);

}  // namespace once::encoding
