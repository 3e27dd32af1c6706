// Signals are taken by a thread, one after the other, while another works.
#include "cli/working.h"

#include <fmt/format.h>

#include "cli/json_line.h"
#include "cli/values.h"

namespace once::cli {
namespace {

// At once, because who asked for any free port waits for it.
void tell_port(Session& session, std::uint16_t port) {
  if (session.json) {
    session.out.line(JsonLine{}.number("metrics_port", port).str());
    session.out.flush();
  } else {
    session.hint(fmt::format("metrics on http://127.0.0.1:{0}/metrics, health on /healthz", port));
  }
}

}  // namespace

Result<Zone> open_patiently(const Session& session, Signals& signals, Missing missing) {
  constexpr Duration kAway{1'000};
  for (bool told = false;; told = true) {
    auto zone = session.open(missing, Stays::longer);
    if (zone || !away(zone.error())) return zone;
    if (!told) session.hint(zone.error().message + "; trying again until it answers");
    if (signals.wait(kAway)) return zone;
  }
}

Result<std::unique_ptr<MetricsPort>> open_port(Session& session,
                                               const std::optional<std::uint64_t>& asked) {
  if (!asked) return std::unique_ptr<MetricsPort>{};
  auto port = MetricsPort::open(static_cast<std::uint16_t>(*asked));
  if (port) tell_port(session, (*port)->port());
  return port;
}

void add_metrics_port(CLI::App& app, std::optional<std::uint64_t>& to) {
  add_number(app, "--metrics-port", to,
             "Serve /metrics (Prometheus) and /healthz on this port of the\n"
             "loopback; 0: any free one, which is said",
             0, 65535);
}

std::function<void(const std::optional<Error>&)> tell_store(
    const Session& session, const std::unique_ptr<MetricsPort>& port) {
  return [&session, &port](const std::optional<Error>& trouble) {
    if (port) port->heard(trouble);
    session.hint(trouble ? trouble->message + "; trying again until it answers"
                         : "the store answers again");
  };
}

Stopper::Stopper(const Session& session, Signals& signals, std::string_view draining,
                 std::function<void()> again)
    : signals_(signals),
      thread_([this, &session, draining = std::string(draining),
               again = std::move(again)](std::stop_token ended) {
        for (int count = 0; !ended.stop_requested();) {
          if (!signals_.wait()) continue;
          if (++count == 1) {
            drain_.request_stop();
            session.hint(draining);
          } else if (again) {
            again();
          }
        }
      }) {}

Stopper::~Stopper() {
  thread_.request_stop();
  signals_.wake();
}

void hint_at_leftovers(const Session& session, const Zone& zone, std::string_view name) {
  const auto status = zone.status();
  if (!status) return;
  for (const QueueStatus& queue : status->queues) {
    if (queue.queue.name != name) continue;
    if (const auto held = queue.tasks.at(State::in_doubt); held > 0) {
      session.hint(
          fmt::format("{} held in doubt: once doubt list --queue {}", counted(held, "task"), name));
    }
    if (const auto dead = queue.tasks.at(State::dead); dead > 0) {
      session.hint(fmt::format("{} dead: once dead list --queue {}", counted(dead, "task"), name));
    }
  }
}

}  // namespace once::cli
