// The loop of a command that looks at a zone again and again (--watch, -f), or once without the option.
#pragma once

#include <optional>

#include "cli/app/patience.h"
#include "cli/app/session.h"
#include "cli/app/signals.h"

namespace once::cli {

class WatchLoop {
 public:
  // Make it before the zone, which has threads. `repeats` is false for a command that looks once.
  WatchLoop(Session& session, bool repeats);

  // Opens the zone. A command that repeats is a monitor, and waits while the store is away.
  Result<Zone> open();
  // The exit status after open() failed.
  int failed(const Error& error);

  // Writes the output and waits. Returns false if there is no next look: the command looks once, a
  // signal ended it, or nobody reads the output.
  bool next(Duration after);

 private:
  Session& session_;
  std::optional<Signals> signals_;    // nullopt: the command looks once
  std::optional<Patience> patience_;  // the same
};

}  // namespace once::cli
