// The tokens of the zone in memory. A thread reads them again and again, so that a token that is
// removed is refused about half a second later, and no request waits for the store because of it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "once/zone.h"
#include "tooling/tokens.h"

namespace once::server {

struct TokenCacheOptions {
  bool required = false;          // requests need a token even if the zone has none
  Duration read_again{500};       // time between two reads of the tokens
  Duration longest_away{60'000};  // the store may be away so long while known tokens still hold
};

// Any thread may call. Nothing but the thread inside waits for the store.
class TokenCache {
 public:
  using Options = TokenCacheOptions;

  // `first` are the tokens as read just now. The zone must outlive the cache.
  TokenCache(const Zone& zone, AccessTokens first, Options options = {});

  // The token of this hash. Returns null if requests need no token. Errors have
  // Reason::no_valid_token, or Code::store_unavailable if the tokens could not be read for too long.
  Result<std::shared_ptr<const AccessToken>> find(std::string_view hash) const;

 private:
  struct Known {
    std::map<std::string, std::shared_ptr<const AccessToken>, std::less<>> by_hash{};
    bool any = false;
    std::chrono::steady_clock::time_point read{};  // when the read began
  };
  static std::shared_ptr<const Known> known_from(AccessTokens tokens,
                                                 std::chrono::steady_clock::time_point read);
  void read_again(const std::stop_token& stop);

  const Zone& zone_;
  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable_any ending_;
  std::shared_ptr<const Known> known_;  // under mutex_; shared with calls of find()
  std::jthread thread_;                 // last: it uses the others
};

}  // namespace once::server
