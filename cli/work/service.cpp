// Signals are taken by a thread, one after the other, while another works.
#include "cli/work/service.h"

#include <fmt/format.h>

#include "shapes/json_line.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

// At once, because a caller that asked for any free port waits for it.
void tell_port(Session& session, HttpAddress address, std::uint16_t port) {
  address.port = port;
  if (session.json) {
    session.out.line(
        JsonLine{}.number("metrics_port", port).text("metrics_address", address.text()).str());
    session.out.flush();
  } else {
    session.hint(fmt::format("metrics on http://{}/metrics, health on /healthz", address.text()));
  }
}

// HOST:PORT or [HOST]:PORT; nullopt for anything else.
std::optional<HttpAddress> address_from(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {};
  std::string_view host = text.substr(0, colon);
  const auto port = parse_number(text.substr(colon + 1));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return {};
  }
  if (host.empty() || !port || *port > 65535) return {};
  return HttpAddress{std::string(host), static_cast<std::uint16_t>(*port)};
}

}  // namespace

Result<std::unique_ptr<MetricsPort>> open_port(Session& session, const MetricsOptions& asked) {
  if (!asked.port && !asked.address) return std::unique_ptr<MetricsPort>{};
  HttpAddress address{.port = static_cast<std::uint16_t>(asked.port.value_or(0))};
  if (asked.port && asked.address) {
    return Error{.code = Code::invalid_input,
                 .message = "give one of --metrics and --metrics-port; nothing was claimed"};
  }
  if (asked.address) {
    const auto given = address_from(*asked.address);
    if (!given) {
      return Error{.code = Code::invalid_input,
                   .message = fmt::format("--metrics takes HOST:PORT such as 0.0.0.0:9090 or "
                                          "[::1]:9090, not \"{}\"; nothing was claimed",
                                          *asked.address)};
    }
    address = *given;
  }
  auto port = MetricsPort::open(address);
  if (port) tell_port(session, address, (*port)->port());
  return port;
}

void add_metrics_port(CLI::App& app, MetricsOptions& to) {
  add_text(app, "--metrics", to.address, "HOST:PORT",
           "Serve /metrics (Prometheus) and /healthz there, such as 0.0.0.0:9090;\n"
           "anybody who reaches that address can read them");
  add_number(app, "--metrics-port", to.port,
             "The same on this port of the loopback; 0: any free one, which is said", 0, 65535);
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

int end_of_queue(Session& session, const WorkerMetrics& worker, std::string_view queue) {
  std::string ended;
  const auto add = [&](std::uint64_t count, std::string_view how, std::string_view command) {
    if (count == 0) return;
    ended += fmt::format("{}{} ended {} (once {} list --queue {})", ended.empty() ? "" : ", ",
                         counted(count, "task"), how, command, queue);
  };
  add(worker.dead, "dead", "dead");
  add(worker.in_doubt, "in doubt", "doubt");
  if (ended.empty()) return kDone;
  return session.fail({.code = Code::failed, .message = fmt::format("queue {}: {}", queue, ended)});
}

}  // namespace once::cli
