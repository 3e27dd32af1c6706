// Ends the requests of a token that is removed or expires while they wait.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "server/http.h"
#include "server/token_cache.h"

namespace once::server {

// Any thread may call. The cache must outlive it, and it must outlive the requests.
class PollGuard {
 public:
  explicit PollGuard(const TokenCache& tokens)
      : tokens_(tokens), thread_([this](const std::stop_token& stop) { run(stop); }) {}

  // The same answer, but it ends with the token of this hash.
  Answer guarded(Answer answer, const std::string& hash);

 private:
  using End = std::function<void(const Error& why)>;
  using Ends = std::list<End>;
  class Place;

  std::unique_ptr<Wait> guard(const std::string& hash, End end, std::unique_ptr<Wait> inner);
  void run(const std::stop_token& stop);
  void end_refused();  // under mutex_

  const TokenCache& tokens_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Ends> waiting_{};  // by the hash of their token; under mutex_
  std::jthread thread_;                    // last: it uses the others
};

}  // namespace once::server
