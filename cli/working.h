// What commands that stay share, `work` and `flow work`: a store that may be away when they begin,
// signals that make them end, a port for their metrics.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "cli/metrics_port.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/signals.h"

namespace once::cli {

// A store that is away is waited for, until a signal comes; that is the answer then.
Result<Zone> open_patiently(const Session& session, Signals& signals, Missing missing);

// Opens the port if one is asked for, and tells which it is; none: not asked for.
Result<std::unique_ptr<MetricsPort>> open_port(Session& session,
                                               const std::optional<std::uint64_t>& asked);
void add_metrics_port(CLI::App& app, std::optional<std::uint64_t>& to);

// What a worker hears of its store, for people and for the port. The pointer outlives the worker.
std::function<void(const std::optional<Error>&)> tell_store(
    const Session& session, const std::unique_ptr<MetricsPort>& port);

// Turns the first signal into a drain, and later ones into what `again` does (empty: nothing), while it
// lives.
class Stopper {
 public:
  Stopper(const Session& session, Signals& signals, std::string_view draining,
          std::function<void()> again = {});
  ~Stopper();
  std::stop_token drain() const { return drain_.get_token(); }

 private:
  Signals& signals_;
  std::stop_source drain_;
  std::jthread thread_;  // last: it uses the others
};

// What a person has to look at in a queue, now that no worker will.
void hint_at_leftovers(const Session& session, const Zone& zone, std::string_view queue);

}  // namespace once::cli
