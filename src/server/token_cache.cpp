#include "server/token_cache.h"

#include <fmt/format.h>

#include "shapes/values.h"

namespace once::server {
namespace {

using SteadyClock = std::chrono::steady_clock;

Error no_valid_token(std::string message) {
  return {
      .code = Code::invalid_input, .message = std::move(message), .reason = Reason::no_valid_token};
}

}  // namespace

TokenCache::TokenCache(const Zone& zone, AccessTokens first, Options options)
    : zone_(zone),
      options_(options),
      known_(known_from(std::move(first), SteadyClock::now())),
      thread_([this](const std::stop_token& stop) { read_again(stop); }) {}

std::shared_ptr<const TokenCache::Known> TokenCache::known_from(AccessTokens tokens,
                                                                SteadyClock::time_point read) {
  auto known = std::make_shared<Known>();
  known->any = !tokens.empty();
  known->read = read;
  for (AccessToken& token : tokens.tokens) {
    auto shared = std::make_shared<const AccessToken>(std::move(token));
    known->by_hash.emplace(shared->hash, shared);
  }
  return known;
}

Result<std::shared_ptr<const AccessToken>> TokenCache::find(std::string_view hash) const {
  std::shared_ptr<const Known> known;
  {
    const std::lock_guard lock(mutex_);
    known = known_;
  }
  if (!known->any && !options_.required) return std::shared_ptr<const AccessToken>();
  if (SteadyClock::now() - known->read > options_.longest_away)
    return Error{.code = Code::store_unavailable,
                 .message = "the server could not read its tokens for too long; nothing was done",
                 .retryable = true};
  if (hash.empty())
    return no_valid_token("the request needs one header \"Authorization: Bearer TOKEN\"");
  // A lookup by the hash of a secret tells by its time nothing about the secret.
  const auto found = known->by_hash.find(hash);
  if (found == known->by_hash.end()) return no_valid_token("the zone has no such token");
  if (found->second->expired(cli::now()))
    return no_valid_token(fmt::format("the token {} expired at {}", found->second->name,
                                      cli::format_time(*found->second->expires)));
  return found->second;
}

void TokenCache::read_again(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      ending_.wait_for(lock, stop, options_.read_again, [] { return false; });
    }
    if (stop.stop_requested()) return;
    const auto begun = SteadyClock::now();
    auto tokens = list_tokens(zone_);
    if (!tokens) continue;
    auto known = known_from(std::move(*tokens), begun);
    const std::lock_guard lock(mutex_);
    known_ = std::move(known);
  }
}

}  // namespace once::server
