// A queue's definition as canonical JSON, every field written, durations in milliseconds. Read
// leniently: an unknown field is a newer one's and ignored, a missing one has its default.
//
// The key is a string where version 0.1 computes the same keys: the escaped format, and no template at
// all. A template in the plain format is {"plain":TEMPLATE}. Version 0.1 refuses a key that is no string,
// so it never computes another key than the queue's.
#include <charconv>
#include <utility>

#include "codec/record_codec.h"
#include "json/json.h"

namespace once::encoding {
namespace {

constexpr std::int64_t kExact = 1LL << 53;  // integers up to here are doubles

constexpr std::pair<InDoubt, std::string_view> kInDoubtNames[] = {
    {InDoubt::retry, "retry"},
    {InDoubt::steps, "steps"},
    {InDoubt::hold, "hold"},
    {InDoubt::probe, "probe"},
};
constexpr std::pair<SameKey, std::string_view> kSameKeyNames[] = {
    {SameKey::duplicate, "duplicate"},
    {SameKey::ignore, "ignore"},
};

// What a double would not hold goes as a string.
template <class Integer>
void append_integer(Integer value, std::string& out) {
  const bool exact = std::cmp_less_equal(value, kExact) && std::cmp_greater_equal(value, -kExact);
  const char* const quote = exact ? "" : "\"";
  out += quote;
  out += std::to_string(value);
  out += quote;
}

void append_boolean(bool value, std::string& out) { out += value ? "true" : "false"; }

template <class Enum, std::size_t N>
void append_name(const std::pair<Enum, std::string_view> (&names)[N], Enum value,
                 std::string& out) {
  for (const auto& [known, name] : names) {
    if (known == value) append_canonical_string(name, out);
  }
}

Error unreadable_queue(std::string_view what) {
  return Error{.code = Code::store_unusable,
               .message = "a queue's definition cannot be read: " + std::string(what) +
                          "; nothing was changed: it was written by a newer once, or the store is "
                          "damaged"};
}

// Reads members of one object into a queue's fields; remembers the first that does not fit.
class DefinitionReader {
 public:
  explicit DefinitionReader(const Json& object) : object_(object) {}
  const std::string& misfit() const { return misfit_; }

  void read_key(Queue& queue) {
    const Json* const key = object_.member("key");
    const Json* const plain = key == nullptr ? nullptr : key->member("plain");
    if (plain == nullptr) read("key", queue.key);
    if (!queue.key.empty()) queue.key_format = KeyFormat::escaped;
    if (plain == nullptr) return;
    if (key->members().size() != 1 || plain->kind() != Json::Kind::string ||
        plain->string().empty())
      return misfits("key");
    queue.key = plain->string();
  }

  void read(std::string_view name, std::string& target) {
    const Json* const value = object_.member(name);
    if (value == nullptr) return;
    if (value->kind() != Json::Kind::string) return misfits(name);
    target = value->string();
  }

  template <class Integer>
  requires(std::is_integral_v<Integer> &&
           !std::is_same_v<Integer, bool>) void read(std::string_view name, Integer& target) {
    const Json* const value = object_.member(name);
    if (value != nullptr && !integer(*value, target)) misfits(name);
  }

  void read(std::string_view name, bool& target) {
    const Json* const value = object_.member(name);
    if (value == nullptr) return;
    if (value->kind() != Json::Kind::boolean) return misfits(name);
    target = value->boolean();
  }

  void read(std::string_view name, Duration& target) {
    Duration::rep count = target.count();
    read(name, count);
    target = Duration{count};
  }

  void read(std::string_view name, std::vector<Duration>& target) {
    const Json* const value = object_.member(name);
    if (value == nullptr) return;
    if (value->kind() != Json::Kind::array) return misfits(name);
    target.clear();
    for (const Json& item : value->items()) {
      Duration::rep count = 0;
      if (!integer(item, count)) return misfits(name);
      target.emplace_back(count);
    }
  }

  void read(std::string_view name, std::optional<std::uint64_t>& target) {
    const Json* const value = object_.member(name);
    if (value == nullptr || value->kind() == Json::Kind::null) return;
    if (!integer(*value, target.emplace())) misfits(name);
  }

  template <class Enum, std::size_t N>
  void read(std::string_view name, const std::pair<Enum, std::string_view> (&names)[N],
            Enum& target) {
    const Json* const value = object_.member(name);
    if (value == nullptr) return;
    for (const auto& [known, text] : names) {
      if (value->kind() == Json::Kind::string && value->string() == text) {
        target = known;
        return;
      }
    }
    misfits(name);
  }

 private:
  void misfits(std::string_view name) {
    if (misfit_.empty()) misfit_ = name;
  }

  template <class Integer>
  static bool integer(const Json& value, Integer& target) {
    std::string digits;
    if (value.kind() == Json::Kind::string) {
      digits = value.string();
    } else if (value.kind() == Json::Kind::number && value.number() >= -double{kExact} &&
               value.number() <= double{kExact}) {
      append_canonical(value, digits);
    }
    const char* const end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, target);
    return !digits.empty() && read.ec == std::errc() && read.ptr == end;
  }

  const Json& object_;
  std::string misfit_;
};

}  // namespace

std::string encode_queue(const Queue& queue) {
  std::string out = R"({"attempts":)";
  append_integer(queue.attempts, out);
  out += R"(,"backoff":[)";
  for (std::size_t i = 0; i < queue.backoff.size(); ++i) {
    if (i > 0) out += ',';
    append_integer(queue.backoff[i].count(), out);
  }
  out += R"(],"from":)";
  if (queue.from) {
    append_integer(*queue.from, out);
  } else {
    out += "null";
  }
  out += R"(,"in_doubt":)";
  append_name(kInDoubtNames, queue.in_doubt, out);
  out += R"(,"key":)";
  const bool plain = queue.key_format == KeyFormat::plain && !queue.key.empty();
  if (plain) out += R"({"plain":)";
  append_canonical_string(queue.key, out);
  if (plain) out += '}';
  out += R"(,"lease":)";
  append_integer(queue.lease.count(), out);
  out += R"(,"ledger":)";
  append_boolean(queue.ledger, out);
  if (queue.max_result > 0) {  // else an older Once would write another text
    out += R"(,"max_result":)";
    append_integer(queue.max_result, out);
  }
  out += R"(,"max_running":)";
  append_integer(queue.max_running, out);
  out += R"(,"name":)";
  append_canonical_string(queue.name, out);
  out += R"(,"paused":)";
  append_boolean(queue.paused, out);
  out += R"(,"same_key":)";
  append_name(kSameKeyNames, queue.same_key, out);
  out += R"(,"stream":)";
  append_canonical_string(queue.stream, out);
  out += R"(,"timeout":)";
  append_integer(queue.timeout.count(), out);
  out += R"(,"topic":)";
  append_canonical_string(queue.topic, out);
  out += R"(,"window":)";
  append_integer(queue.window, out);
  out += '}';
  return out;
}

Result<Queue> decode_queue(std::string_view text) {
  const auto root = parse_json(text);
  if (!root) return unreadable_queue(root.error().message);
  if (root->kind() != Json::Kind::object) return unreadable_queue("it is no JSON object");
  Queue queue;
  DefinitionReader reader(*root);
  reader.read("attempts", queue.attempts);
  reader.read("backoff", queue.backoff);
  reader.read("from", queue.from);
  reader.read("in_doubt", kInDoubtNames, queue.in_doubt);
  reader.read_key(queue);
  reader.read("lease", queue.lease);
  reader.read("ledger", queue.ledger);
  reader.read("max_result", queue.max_result);
  reader.read("max_running", queue.max_running);
  reader.read("name", queue.name);
  reader.read("paused", queue.paused);
  reader.read("same_key", kSameKeyNames, queue.same_key);
  reader.read("stream", queue.stream);
  reader.read("timeout", queue.timeout);
  reader.read("topic", queue.topic);
  reader.read("window", queue.window);
  if (!reader.misfit().empty()) {
    return unreadable_queue("\"" + reader.misfit() + "\" has a value that this once does not know");
  }
  return queue;
}

}  // namespace once::encoding
