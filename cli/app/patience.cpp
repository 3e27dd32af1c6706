#include "cli/app/patience.h"

#include <fmt/format.h>

#include "cli/app/advice.h"

namespace once::cli {
namespace {

constexpr Duration kBetweenTries{1'000};
constexpr std::chrono::seconds kBetweenMessages{30};

}  // namespace

bool Patience::waits(const Error& error, bool awaits_missing) {
  const bool missing = error.code == Code::not_found;
  // A server elects a leader or comes back by itself. A file that was opened and stays locked is stuck
  // behind a process that is stopped: a person must hear of that.
  const bool waits_for_store = error.retryable && (session_.on_server() || !session_.opened);
  if (!waits_for_store && !(missing && awaits_missing)) return false;
  const auto now = std::chrono::steady_clock::now();
  if (told_ != error.code || now - told_at_ >= kBetweenMessages) {
    session_.hint(missing ? fmt::format("{}; waiting until it is there", with_advice(error))
                          : fmt::format("waiting for {}: {}; trying again until it answers",
                                        session_.absolute_url(), error.message));
    told_ = error.code;
    told_at_ = now;
  }
  interrupted_ = signals_.wait(kBetweenTries);
  return !interrupted_;
}

int Patience::ended(const Error& error) const {
  if (!interrupted_ || !service_) return session_.fail(error);
  session_.hint("ended by a signal before it could start; nothing was run");
  return kDone;
}

}  // namespace once::cli
