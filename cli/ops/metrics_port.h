// What `work --metrics` and `--metrics-port` serve: /metrics, the worker's own counts and what the
// zone can tell quickly, and /healthz, whether the store answers and the worker goes on. A store that
// is away delays neither.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "cli/ops/http_server.h"
#include "once/zone.h"

namespace once::cli {

class MetricsPort {
 public:
  static Result<std::unique_ptr<MetricsPort>> open(const HttpAddress& address);  // see HttpServer
  ~MetricsPort();

  std::uint16_t port() const { return server_->port(); }

  // Whom to tell about. All of it outlives the Watch.
  struct Subject {
    const Zone& zone;
    std::function<WorkerMetrics()> metrics{};
    Duration lease{};          // of its queue
    std::stop_token ending{};  // nothing new is claimed any more
  };
  class [[nodiscard]] Watch {
   public:
    Watch(MetricsPort& port, Subject subject);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    MetricsPort& port_;
  };

  // What the worker heard from the store last; none: an answer. Any thread.
  void heard(const std::optional<Error>& trouble);

 private:
  class StatusLook;
  struct Watched;

  MetricsPort();
  HttpAnswer answer(std::string_view path);
  HttpAnswer metrics();
  HttpAnswer health();

  std::mutex mutex_;
  // Under mutex_.
  std::unique_ptr<Watched> watched_;
  std::string without_;  // why nobody is watched

  std::mutex trouble_mutex_;  // its own: a worker must not wait for a scrape
  std::string trouble_;       // under trouble_mutex_

  std::unique_ptr<HttpServer> server_;  // last: its thread uses the others
};

}  // namespace once::cli
