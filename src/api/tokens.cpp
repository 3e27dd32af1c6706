// The tokens of a zone as values under keys: {"token", NAME} is a JSON object. Its members are in
// kMembers. A value with another member is of a newer version, which may mean a limit by it.
#include "tooling/tokens.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "api/access.h"
#include "codec/digest.h"
#include "core/hex.h"
#include "core/names.h"
#include "json/base64.h"
#include "json/object_reader.h"
#include "json/object_text.h"

namespace once::inline v1 {
namespace {

using encoding::Json;
using encoding::ObjectReader;

constexpr std::string_view kPlace = "token";
constexpr std::string_view kSecretPrefix = "once_";
constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kMostFilters = 100;
constexpr std::array<std::string_view, 6> kMembers{"created", "expires", "hash",
                                                   "queues",  "roles",   "topics"};

store::Key key_of(std::string_view name) { return {std::string(kPlace), std::string(name)}; }

Error refused(const std::string& why) {
  return {.code = Code::invalid_input, .message = why + "; nothing was added"};
}

// --- Rules

Result<void> check_queue_filter(std::string_view filter) {
  std::string_view name = filter;
  if (name.ends_with('*')) name.remove_suffix(1);
  if (name.empty() && !filter.empty()) return {};
  if (core::check_name(name, "queue")) return {};
  return refused("the queue filter '" + std::string(filter) +
                 "' is not a queue's name, nor the beginning of a name and a *");
}

Result<void> check_filters(const AccessToken& token) {
  if (token.topics.size() > kMostFilters || token.queues.size() > kMostFilters)
    return refused("a token has at most " + std::to_string(kMostFilters) + " filters of a kind");
  for (const std::string& topic : token.topics) {
    if (auto ok = core::check_filter(topic); !ok) return refused(ok.error().message);
    if (core::own_topic(topic))
      return refused("filter '" + topic + "': names under $once. belong to Once itself");
  }
  for (const std::string& queue : token.queues)
    if (auto ok = check_queue_filter(queue); !ok) return ok;
  return {};
}

// A role that the filters leave nothing to do is a mistake.
Result<void> check_roles(const AccessToken& token) {
  if (token.roles.empty()) return refused("a token needs a role");
  if (!token.limited()) return {};
  if (token.topics.empty() && token.has(AccessRole::publish))
    return refused("the token is limited to queues, so its role publish needs topics too");
  if (token.queues.empty() && token.has(AccessRole::work))
    return refused("the token is limited to topics, so its role work needs queues too");
  return {};
}

// --- Stored form

std::string array_text(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& each : texts) {
    if (out.size() > 1) out += ',';
    encoding::append_canonical_string(each, out);
  }
  return out + ']';
}

std::string text_of(const AccessToken& token) {
  std::vector<std::string> roles;
  for (const AccessRole role : token.roles) roles.emplace_back(to_string(role));
  encoding::ObjectText text;
  text.number("created", token.created.time_since_epoch().count());
  if (token.expires) text.number("expires", token.expires->time_since_epoch().count());
  text.string("hash", token.hash);
  text.json("queues", array_text(token.queues));
  text.json("roles", array_text(roles));
  text.json("topics", array_text(token.topics));
  return std::move(text).take();
}

bool read_texts(const ObjectReader& reader, std::string_view name, std::vector<std::string>& into) {
  const Json* const array = reader.find(name);
  if (array == nullptr || array->kind() != Json::Kind::array) return false;
  for (const Json& item : array->items()) {
    if (item.kind() != Json::Kind::string) return false;
    into.push_back(item.string());
  }
  return true;
}

bool read_time(const ObjectReader& reader, std::string_view name, Time& into) {
  std::int64_t milliseconds = 0;
  if (!ObjectReader::read<std::int64_t>(reader.find(name), 0, milliseconds)) return false;
  into = Time{Duration{milliseconds}};
  return true;
}

// Returns nullopt if the value is damaged, or of a newer version.
std::optional<AccessToken> token_from(std::string name, std::string_view bytes) {
  const auto json = encoding::parse_json(bytes);
  if (!json || json->kind() != Json::Kind::object) return {};
  for (const auto& [member, value] : json->members())
    if (std::find(kMembers.begin(), kMembers.end(), member) == kMembers.end()) return {};
  ObjectReader reader(*json);
  AccessToken token{.name = std::move(name)};
  std::vector<std::string> roles;
  Time expires{};
  if (reader.find("expires") != nullptr) {
    if (!read_time(reader, "expires", expires)) return {};
    token.expires = expires;
  }
  reader.string("hash", token.hash);
  if (!reader.misfit().empty() || !read_time(reader, "created", token.created) ||
      !read_texts(reader, "queues", token.queues) || !read_texts(reader, "roles", roles) ||
      !read_texts(reader, "topics", token.topics))
    return {};
  for (const std::string& role : roles) {
    const auto known = access_role_from(role);
    if (!known) return {};
    token.roles.push_back(*known);
  }
  return token;
}

// --- The secret

Result<std::string> new_secret() {
  std::array<char, kSecretBytes> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return Error{.code = Code::failed,
                 .message = "the system gave no random bytes; nothing was added"};
  std::string text = encoding::base64(std::string_view(bytes.data(), bytes.size()));
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  text.erase(text.find_last_not_of('=') + 1);
  return std::string(kSecretPrefix) + text;
}

}  // namespace

std::string_view to_string(AccessRole role) {
  switch (role) {
    case AccessRole::publish: return "publish";
    case AccessRole::work: return "work";
    case AccessRole::read: return "read";
    case AccessRole::operate: return "operate";
    case AccessRole::forward: return "forward";
  }
  return "?";
}

std::optional<AccessRole> access_role_from(std::string_view name) {
  for (const AccessRole role : kAccessRoles)
    if (to_string(role) == name) return role;
  return {};
}

bool AccessToken::has(AccessRole role) const {
  return std::find(roles.begin(), roles.end(), role) != roles.end();
}

bool AccessToken::covers_topic(std::string_view topic) const {
  return !limited() || std::any_of(topics.begin(), topics.end(), [&](const std::string& filter) {
    return core::covers(filter, topic);
  });
}

bool AccessToken::covers_queue(std::string_view queue) const {
  return !limited() || std::any_of(queues.begin(), queues.end(), [&](std::string_view filter) {
    if (!filter.ends_with('*')) return filter == queue;
    filter.remove_suffix(1);
    return queue.starts_with(filter);
  });
}

Result<void> check_token(const AccessToken& token) {
  if (auto ok = core::check_name(token.name, "token"); !ok) return refused(ok.error().message);
  if (auto ok = check_filters(token); !ok) return ok;
  if (auto ok = check_roles(token); !ok) return ok;
  if (token.expired(token.created)) return refused("the token would expire in the past");
  return {};
}

std::string token_hash(std::string_view secret) { return core::hex(encoding::sha256(secret)); }

Result<std::string> add_token(const Zone& zone, AccessToken token) {
  if (auto ok = check_token(token); !ok) return ok.error();
  std::sort(token.roles.begin(), token.roles.end());
  token.roles.erase(std::unique(token.roles.begin(), token.roles.end()), token.roles.end());
  auto secret = new_secret();
  if (!secret) return secret.error();
  token.hash = token_hash(*secret);
  const store::KeyWrite item{.key = key_of(token.name), .bytes = text_of(token)};
  auto& values = detail::Access::state(zone)->store->key_values();
  auto written = values.write({&item, 1}).front();
  // Without an answer, the same write again tells whether the first one is there.
  if (!written && written.error().in_doubt) written = values.write({&item, 1}).front();
  if (!written) return written.error();
  const bool ours = written->current && written->current->bytes == item.bytes;
  if (written->written || ours) return secret;
  return Error{.code = Code::wrong_state,
               .message = "the zone has a token '" + token.name +
                          "' already; nothing was added. Remove that token first, or choose "
                          "another name"};
}

Result<AccessTokens> list_tokens(const Zone& zone) {
  auto& values = detail::Access::state(zone)->store->key_values();
  AccessTokens all;
  store::KeyList query{.prefix = {std::string(kPlace)}};
  do {
    auto page = values.list(query);
    if (!page) return page.error();
    for (const auto& [key, value] : page->values) {
      const std::string name = key.size() == 2 ? key.back() : store::joined(key);
      auto token = token_from(name, value.bytes);
      if (token) {
        all.tokens.push_back(std::move(*token));
      } else {
        all.unreadable.push_back(name);
      }
    }
    for (const auto& [key, error] : page->unreadable) all.unreadable.push_back(key.back());
    query.after = page->next;
  } while (!query.after.empty());
  const auto place = [](const AccessToken& token) { return std::tie(token.name, token.hash); };
  std::ranges::sort(all.tokens, {}, place);
  // A value that is written meanwhile may come twice.
  const auto twice = std::ranges::unique(all.tokens, {}, place);
  all.tokens.erase(twice.begin(), twice.end());
  std::sort(all.unreadable.begin(), all.unreadable.end());
  return all;
}

Result<void> remove_token(const Zone& zone, std::string_view name) {
  auto& values = detail::Access::state(zone)->store->key_values();
  const store::Key key = key_of(name);
  while (true) {
    if (!core::check_name(name, "token")) break;
    const auto found = values.get({&key, 1}).front();
    if (!found) return found.error();
    if (!*found) break;
    const auto removed = values.remove(key, (*found)->revision);
    if (!removed) return removed.error();
    if (*removed) return {};
  }
  return Error{.code = Code::not_found,
               .message = "there is no token '" + std::string(name) + "'; nothing was removed"};
}

}  // namespace once::inline v1
