// The worker's counts are at hand; the zone is asked by a thread that may hang in a store that is away
// while requests are answered without it.
#include "cli/ops/metrics_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>

#include "shapes/metrics_text.h"
#include "shapes/values.h"

namespace once::cli {
namespace {

using MetricsClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFresh{1};  // how long a status is good for
constexpr int kShare = 10;                 // and so many times as long as it took to find out
constexpr std::chrono::seconds kZonePatience{1};  // with one look at the zone
constexpr std::chrono::seconds kStale{60};  // how old a status may be when a new one takes longer
constexpr Duration kLeastSilence{5'000};    // of the store, before it counts as away

HttpAnswer plain(int status, std::string_view text) {
  return {.status = status, .body = fmt::format("{}\n", text)};
}

}  // namespace

// One look at the zone at a time, when somebody asks.
class MetricsPort::StatusLook {
 public:
  explicit StatusLook(const Zone& zone)
      : zone_(zone), thread_([this](const std::stop_token& ended) { run(ended); }) {}

  // None: the store did not answer in time, nor a little before.
  std::shared_ptr<const Status> get() {
    std::unique_lock lock(mutex_);
    if (!looking_) {
      if (MetricsClock::now() < fresh_until_) return latest_;
      looking_ = true;
      began_ = MetricsClock::now();
      changed_.notify_all();
    }
    // Counted from the look's beginning: requests that come while it hangs do not wait in turn.
    const bool found =
        changed_.wait_until(lock, began_ + kZonePatience, [this] { return !looking_; });
    return found || MetricsClock::now() < found_at_ + kStale ? latest_ : nullptr;
  }

 private:
  void run(const std::stop_token& ended) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, ended, [this] { return looking_; })) {
      lock.unlock();
      auto status = zone_.status();
      lock.lock();
      const auto now = MetricsClock::now();
      latest_ = status ? std::make_shared<const Status>(std::move(*status)) : nullptr;
      found_at_ = now;
      fresh_until_ = now + std::max<MetricsClock::duration>(kFresh, kShare * (now - began_));
      looking_ = false;
      changed_.notify_all();
    }
  }

  const Zone& zone_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Under mutex_.
  bool looking_ = false;
  MetricsClock::time_point began_{}, found_at_{}, fresh_until_{};
  std::shared_ptr<const Status> latest_;  // shared with the answers that are being written
  std::jthread thread_;                   // last: it uses the others
};

struct MetricsPort::Watched {
  explicit Watched(Subject whom) : subject(std::move(whom)), look(subject.zone) {}

  bool store_up(const WorkerMetrics& metrics) const {
    return metrics.store_silence <= std::max(subject.lease, kLeastSilence);
  }

  Subject subject;
  StatusLook look;
};

MetricsPort::Watch::Watch(MetricsPort& port, Subject subject) : port_(port) {
  auto watched = std::make_unique<Watched>(std::move(subject));
  const std::lock_guard lock(port_.mutex_);
  port_.watched_ = std::move(watched);
}

MetricsPort::Watch::~Watch() {
  // Its look at the zone may take a while to end: requests are answered meanwhile.
  std::unique_ptr<Watched> watched;
  const std::lock_guard lock(port_.mutex_);
  watched = std::move(port_.watched_);
  port_.without_ = "ending";
}

Result<std::unique_ptr<MetricsPort>> MetricsPort::open(const HttpAddress& address) {
  std::unique_ptr<MetricsPort> made(new MetricsPort);
  auto server = HttpServer::open(
      address, [&self = *made](std::string_view path) { return self.answer(path); });
  if (!server) return server.error();
  made->server_ = std::move(*server);
  return made;
}

MetricsPort::MetricsPort() : without_("starting: the store has not answered yet") {}
MetricsPort::~MetricsPort() = default;

void MetricsPort::heard(const std::optional<Error>& trouble) {
  const std::lock_guard lock(trouble_mutex_);
  trouble_ = trouble ? trouble->message : "";
}

HttpAnswer MetricsPort::answer(std::string_view path) {
  const std::lock_guard lock(mutex_);
  if (path == "/metrics") return metrics();
  if (path == "/healthz") return health();
  return plain(404, "there are /metrics and /healthz");
}

HttpAnswer MetricsPort::metrics() {
  if (!watched_) return plain(503, without_);
  const WorkerMetrics counts = watched_->subject.metrics();
  Families families = worker_families(counts, watched_->store_up(counts));
  if (const auto status = watched_->look.get()) {
    for (Family& family : status_families(*status)) families.push_back(std::move(family));
  }
  return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = prometheus_text(families)};
}

HttpAnswer MetricsPort::health() {
  if (!watched_) return plain(503, without_);
  if (watched_->subject.ending.stop_requested()) {
    return plain(503, "ending: running tasks finish, nothing new is claimed");
  }
  const WorkerMetrics counts = watched_->subject.metrics();
  if (watched_->store_up(counts)) return plain(200, "ok");
  const std::lock_guard lock(trouble_mutex_);
  return plain(
      503,
      fmt::format("the store has not answered for {}{}",
                  format_duration(std::chrono::floor<std::chrono::seconds>(counts.store_silence)),
                  trouble_.empty() ? "" : ": " + printable(trouble_)));
}

}  // namespace once::cli
