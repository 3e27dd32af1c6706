// The tokens of a zone. A client of `once serve` sends a token with each request. The zone keeps only
// the SHA-256 of a token, so nobody can read the token from the store. This header is not installed,
// because only the command needs it.
//
// A filter limits a token. A token with topics only has no right to any queue, and a token with
// queues only has no right to any topic. A token without filters may use all topics and queues.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "once/zone.h"

namespace once::inline v1 {

enum class AccessRole { publish, work, read, operate, forward };
inline constexpr std::array kAccessRoles{AccessRole::publish, AccessRole::work, AccessRole::read,
                                         AccessRole::operate, AccessRole::forward};
std::string_view to_string(AccessRole role);
std::optional<AccessRole> access_role_from(std::string_view name);

struct AccessToken {
  std::string name{};                 // A-Z a-z 0-9 _ -, at most 64; `who` in the story of a task
  std::vector<AccessRole> roles{};    // at least one
  std::vector<std::string> topics{};  // filters such as orders.>
  std::vector<std::string> queues{};  // names, or the beginning of names and a *
  Time created{};
  std::optional<Time> expires{};
  std::string hash{};  // of the secret, see token_hash()

  bool has(AccessRole role) const;
  bool limited() const { return !topics.empty() || !queues.empty(); }
  // Whether the token's filters match everything that `topic` means: a topic or a filter.
  bool covers_topic(std::string_view topic) const;
  bool covers_queue(std::string_view queue) const;
  bool expired(Time now) const { return expires && now >= *expires; }
};

struct AccessTokens {
  std::vector<AccessToken> tokens{};  // in the order of their names; expired ones too
  // The names of tokens that this version cannot read. No secret fits them.
  std::vector<std::string> unreadable{};
  bool empty() const { return tokens.empty() && unreadable.empty(); }
};

// Whether add_token() accepts the parts of the token. Needs no zone.
Result<void> check_token(const AccessToken& token);
// Adds a token and returns its secret, which cannot be read later. The caller gives everything but
// `hash`. Returns invalid_input if a part of the token is wrong, and wrong_state if the zone has a
// token of this name. Nothing was added then.
Result<std::string> add_token(const Zone& zone, AccessToken token);
Result<AccessTokens> list_tokens(const Zone& zone);
// Returns not_found if the zone has no token of this name. Also removes a token that is unreadable.
Result<void> remove_token(const Zone& zone, std::string_view name);

// The SHA-256 of a secret in hexadecimal digits.
std::string token_hash(std::string_view secret);

}  // namespace once::inline v1
