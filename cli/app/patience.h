// How a service starts before its store answers, or before there is anything to work on: it waits.
#pragma once

#include <chrono>
#include <optional>

#include "cli/app/session.h"
#include "cli/app/signals.h"

namespace once::cli {

class Patience {
 public:
  // A service stays until a signal ends it. A command that ends by itself (--until-empty) waits for its
  // store, but not for what the store does not hold yet.
  enum class For { service, until_empty };
  Patience(Session& session, Signals& signals, For whom)
      : session_(session), signals_(signals), service_(whom == For::service) {}

  // Repeats `call` while its error is retryable: the store is away, slow, full or has no quorum.
  // Returns the last answer of `call`.
  template <class Call>
  auto operator()(Call call) {
    return repeat(call, false);
  }
  // The same. A service also waits for what `call` did not find.
  template <class Call>
  auto find(Call call) {
    return repeat(call, service_);
  }

  // The exit status after `error`, which ended the start. A service that was told to end while it
  // waited has not failed.
  int ended(const Error& error) const;

 private:
  template <class Call>
  auto repeat(Call& call, bool awaits_missing) {
    told_.reset();
    while (true) {
      auto answer = call();
      if (answer || !waits(answer.error(), awaits_missing)) return answer;
    }
  }
  bool waits(const Error& error, bool awaits_missing);

  Session& session_;
  Signals& signals_;
  const bool service_;
  bool interrupted_ = false;
  std::optional<Code> told_{};  // what the last message about this call was for
  std::chrono::steady_clock::time_point told_at_{};
};

}  // namespace once::cli
