// What `work` and `flow work` share: the signals that end them and the port for their metrics.
// cli/app/patience.h waits for the store when they start.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "cli/app/options.h"
#include "cli/app/session.h"
#include "cli/app/signals.h"
#include "cli/ops/metrics_port.h"

namespace once::cli {

struct MetricsOptions {
  std::optional<std::uint64_t> port{};   // --metrics-port
  std::optional<std::string> address{};  // --metrics
};

// Opens the port if one is asked for, and tells which it is; none: not asked for.
Result<std::unique_ptr<MetricsPort>> open_port(Session& session, const MetricsOptions& asked);
void add_metrics_port(CLI::App& app, MetricsOptions& to);

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

// The exit status of a worker whose queue is empty: kFailed if tasks ended dead or in doubt.
int end_of_queue(Session& session, const WorkerMetrics& worker, std::string_view queue);

}  // namespace once::cli
