// Waits for a task and prints its results, for `wait` and `publish --wait`.
#pragma once

#include <optional>
#include <string>

#include "cli/app/session.h"

namespace once::cli {

struct WaitOptions {
  std::string id{};
  std::optional<std::string> queue{};  // nullopt: every queue that takes it
  std::optional<Duration> timeout{};   // nullopt: no limit
};

// The exit status: 0 completed, 1 dead or cancelled, 7 in doubt or not in time.
int wait_until_settled(Session& session, Zone zone, const WaitOptions& options);

}  // namespace once::cli
