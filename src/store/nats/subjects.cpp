#include "store/nats/subjects.h"

#include <random>

#include "codec/digest.h"

namespace once::store::nats {
namespace {

constexpr std::size_t kLongestToken = 200;
constexpr std::string_view kUpperHex = "0123456789ABCDEF";

bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

}  // namespace

std::string random_generation() {
  std::random_device device;
  std::string text;
  for (int i = 0; i < 12; ++i) text += "0123456789abcdefghijklmnopqrstuv"[device() % 32];
  return text;
}

std::string escaped(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char c : bytes) {
    if (plain(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '=';
    out += kUpperHex[byte >> 4U];
    out += kUpperHex[byte & 0xFU];
  }
  return out;
}

std::string token(std::string_view bytes) {
  std::string out = escaped(bytes);
  if (!out.empty() && out.size() <= kLongestToken) return out;
  return "==" + core::hex(encoding::sha256(bytes));
}

std::optional<std::string> from_token(std::string_view token) {
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    if (token[i] != '=') {
      out += token[i];
      continue;
    }
    if (i + 2 >= token.size()) return std::nullopt;
    const auto high = kUpperHex.find(token[i + 1]);
    const auto low = kUpperHex.find(token[i + 2]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    out += static_cast<char>(high << 4U | low);
    i += 2;
  }
  return out;
}

bool KnownQueue::has(std::string_view topic, Sequence sequence) const {
  return !definition.ledger && !foreign() && core::matches(definition.topic, topic) &&
         (!definition.from || sequence.value >= *definition.from);
}

std::string Subjects::record(const KnownQueue& queue, const store::Address& at) const {
  using Kind = store::Address::Kind;
  std::string root = record_root(queue);
  switch (at.kind) {
    case Kind::task: return root + "k." + token(at.key);
    case Kind::entry: return root + "e." + std::to_string(at.sequence.value);
    case Kind::lone: return root + "l." + token(at.key);
  }
  return root;
}

}  // namespace once::store::nats
