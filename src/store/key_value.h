// Small values under keys. Workflows keep their definitions, runs, start keys, outputs and notes here.
//
// - A key is a list of tokens, such as {"run", "payment-01k..."}.
// - Every write names the revision that it replaces. A store writes the value only if the key still has
//   that revision. So of several writers that read the same value exactly one succeeds.
// - A value may expire: `lives` after its write, by the store's time. From then on get(), list() and a
//   write that expects no value treat the key as free. Store::retire() removes the value later, by its
//   exact revision. So a removal never hits a value that was written meanwhile.
// - A write that names the revision of a value that expired after the caller read it succeeds as long
//   as the value was not removed or replaced.
// - An error with in_doubt means that the write may have happened. The caller reads the key to find out.
// - A batch is not atomic; each write is. Answers are per item, in order. Any thread may call anything.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/types.h"
#include "once/task.h"

namespace once::store {

// One to four tokens. A token is UTF-8 of 1 to 2,048 bytes without control characters.
using Key = std::vector<std::string>;

struct Value {
  std::string bytes{};
  core::Revision revision{};        // of two values of a key the later one has the higher revision
  core::StoreTime stamp{};          // when it was written
  std::optional<Duration> lives{};  // after `stamp`; nullopt: it never expires

  bool expired(core::StoreTime now) const { return lives && now >= stamp + *lives; }
  friend bool operator==(const Value&, const Value&) = default;
};

struct KeyWrite {
  Key key{};
  core::Revision expected{};  // zero: the key must have no value
  std::string bytes{};
  std::optional<Duration> lives{};
};

struct KeyWriteResult {
  bool written = false;
  core::Revision revision{};       // of the new value, if it was written
  std::optional<Value> current{};  // what the key has instead, if the write was refused
};

struct KeyList {
  Key prefix{};              // the first tokens of each key
  bool lasting = false;      // only values that never expire
  std::string after{};       // empty, or `next` of the previous page
  std::size_t limit = 1000;  // a page may hold fewer values
};

struct KeyPage {
  std::vector<std::pair<Key, Value>> values{};
  std::vector<std::pair<Key, Error>> unreadable{};  // values that are there and damaged
  std::string next{};                               // empty: this was the last page
};

class KeyValue {
 public:
  virtual ~KeyValue() = default;
  virtual std::vector<Result<std::optional<Value>>> get(std::span<const Key> keys) = 0;
  // A key occurs at most once in a batch.
  virtual std::vector<Result<KeyWriteResult>> write(std::span<const KeyWrite> items) = 0;
  // Removes the value of exactly that revision. False: the key does not have that revision any more.
  virtual Result<bool> remove(const Key& key, core::Revision revision) = 0;
  // The pages together hold every value that was there during the whole listing, in no order. A value
  // that is written meanwhile may come twice, or as it was before.
  virtual Result<KeyPage> list(const KeyList& query) = 0;
};

// A key as one text, and back. The texts of keys with the same first tokens lie between
// joined(prefix) + kKeySeparator and joined(prefix) + kBehindKeys.
inline constexpr char kKeySeparator = '\x1f';
inline constexpr char kBehindKeys = '\x20';

inline std::string joined(const Key& key) {
  std::string text;
  for (const std::string& token : key) {
    if (!text.empty()) text += kKeySeparator;
    text += token;
  }
  return text;
}

inline Key split_key(std::string_view text) {
  Key key;
  while (true) {
    const std::size_t end = std::min(text.find(kKeySeparator), text.size());
    key.emplace_back(text.substr(0, end));
    if (end == text.size()) return key;
    text.remove_prefix(end + 1);
  }
}

}  // namespace once::store
