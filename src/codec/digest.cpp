// SHA-256 by OpenSSL, and the text that a content digest is taken over.
#include "codec/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "codec/stored_body.h"
#include "json/json.h"

namespace once::encoding {
namespace {

constexpr std::string_view kPrefix = "sha256:";

struct ContextFree {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

// An unusable libcrypto leaves no way to tell contents apart: nothing may go on.
[[noreturn]] void no_sha256() {
  std::fputs("once: SHA-256 is not available from libcrypto\n", stderr);
  std::abort();
}

EVP_MD_CTX* fresh_context() {
  // Fetched once, because looking an algorithm up costs more than hashing a small body; never
  // freed, because libcrypto's own clean-up may come before a static's.
  static EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  thread_local const std::unique_ptr<EVP_MD_CTX, ContextFree> context(EVP_MD_CTX_new());
  if (sha256 == nullptr || context == nullptr ||
      EVP_DigestInit_ex2(context.get(), sha256, nullptr) != 1) {
    no_sha256();
  }
  return context.get();
}

}  // namespace

core::Digest sha256(std::string_view bytes) {
  EVP_MD_CTX* const context = fresh_context();
  core::Digest digest;
  if (EVP_DigestUpdate(context, bytes.data(), bytes.size()) != 1 ||
      EVP_DigestFinal_ex(context, digest.bytes.data(), nullptr) != 1) {
    no_sha256();
  }
  return digest;
}

std::string text(const core::Digest& digest) { return std::string(kPrefix) + hex(digest); }

std::optional<core::Digest> digest_from(std::string_view text) {
  core::Digest digest;
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  return read_hex(text, digest) ? std::optional(digest) : std::nullopt;
}

Result<core::Digest> content_digest(std::string_view topic, const Body& body) {
  std::string content;
  content.reserve(body.text().size() + topic.size() + 64);
  content = R"({"attachments":[],)";
  if (body.is_json()) {
    content += R"("body":)";
    if (const auto known = StoredBody::canonical(body); !known.empty())
      content += known;
    else if (const auto done = canonicalise(body.text(), content); !done)
      return done.error();
  } else {
    content += R"("raw":")";
    content += hex(sha256(body.text()));
    content += '"';
  }
  content += R"(,"topic":)";
  append_canonical_string(topic, content);
  content += '}';
  return sha256(content);
}

core::Nonce nonce_of(const core::Digest& digest) {
  core::Nonce nonce;
  std::copy_n(digest.bytes.begin(), nonce.bytes.size(), nonce.bytes.begin());
  return nonce;
}

}  // namespace once::encoding
