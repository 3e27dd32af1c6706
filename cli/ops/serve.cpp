// once serve [--listen HOST:PORT] [--socket PATH]
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/patience.h"
#include "cli/app/session.h"
#include "cli/app/signals.h"
#include "server/api.h"
#include "server/http_server.h"
#include "server/origin.h"
#include "shapes/values.h"

namespace once::cli {
namespace {

constexpr std::uint16_t kDefaultPort = 7070;
constexpr std::string_view kDefaultHost = "127.0.0.1";

constexpr rlim_t kMostFiles = 20'000;
constexpr rlim_t kOwnFiles = 512;  // for the store

// A long poll takes a connection, so a server needs more files than the usual limit of 1024.
std::size_t most_connections() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return kOwnFiles;
  const rlim_t wanted = std::min(files.rlim_max, kMostFiles);
  if (files.rlim_cur < wanted) {
    const rlimit more{.rlim_cur = wanted, .rlim_max = files.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &more) == 0) files.rlim_cur = wanted;
  }
  const rlim_t usable = std::min(files.rlim_cur, kMostFiles);
  return usable > 2 * kOwnFiles ? usable - kOwnFiles : usable / 2;
}

struct ServeOptions {
  std::optional<std::string> listen{}, socket{};
};

Error listen_error(std::string_view text, std::string_view why) {
  return {.code = Code::invalid_input,
          .message = fmt::format("--listen {}: {}; nothing was started", printable(text), why)};
}

// HOST:PORT, [HOST]:PORT, :PORT or HOST. A server without tokens and TLS must stay on this machine.
Result<server::TcpAddress> address_from(const std::string& text) {
  std::string host = text;
  std::string port = fmt::format("{}", kDefaultPort);
  const std::size_t bracket = text.find(']');
  const std::size_t colon = text.rfind(':');
  if (colon != text.npos && (bracket == text.npos || colon > bracket)) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || host == "localhost") host = kDefaultHost;
  const auto number = parse_number(port);
  if (!number || *number > 65'535) return listen_error(text, "a port is a number from 0 to 65535");
  if (!server::is_loopback(host)) {
    return listen_error(text,
                        "this is no loopback address such as 127.0.0.1 or [::1]. The server does "
                        "not check who sends a request and does not encrypt, so it must not be "
                        "reachable from other machines");
  }
  return server::TcpAddress{.host = std::move(host), .port = static_cast<std::uint16_t>(*number)};
}

Result<server::ServerOptions> server_options_from(const ServeOptions& options) {
  server::ServerOptions out{.connections = most_connections()};
  if (options.socket && options.socket->empty()) {
    return Error{.code = Code::invalid_input, .message = "--socket takes a path; it is empty"};
  }
  out.socket = options.socket.value_or("");
  if (options.listen || !options.socket) {
    auto address = address_from(options.listen.value_or(fmt::format(":{}", kDefaultPort)));
    if (!address) return address.error();
    out.tcp = std::move(*address);
  }
  return out;
}

int serve(Session& session, const ServeOptions& options) {
  const auto listens = server_options_from(options);
  if (!listens) return session.fail(listens.error());
  Signals signals;
  Patience patience(session, signals, Patience::For::service);
  auto zone =
      patience.find([&] { return session.open(Missing::create_file_or_await, Stays::longer); });
  if (!zone) return patience.ended(zone.error());
  server::Api api(*zone,
                  listens->tcp ? std::vector{listens->tcp->host} : std::vector<std::string>{});
  auto server = server::HttpServer::listen(*listens, api);
  if (!server) return session.fail(server.error());
  if (listens->tcp) complain(fmt::format("listening on http://{}", server->address()));
  if (!listens->socket.empty()) complain(fmt::format("listening on unix:{}", listens->socket));
  std::jthread waiter([&] {
    if (!signals.wait()) return;
    session.hint("ending: requests that were received are answered");
    server->stop();
  });
  // Ends the waiter also if run() throws.
  const std::unique_ptr<Signals, void (*)(Signals*)> waking(&signals,
                                                            [](Signals* all) { all->wake(); });
  server->run();
  return kDone;
}

}  // namespace

void add_serve(CLI::App& root, Session& session) {
  auto* app = add_command(root, "serve", "Serve the zone over HTTP, on this machine");
  auto options = std::make_shared<ServeOptions>();
  add_text(*app, "--listen", options->listen, "HOST:PORT",
           "The loopback address to listen on; :0 takes a free port (127.0.0.1:7070)");
  add_text(*app, "--socket", options->socket, "PATH",
           "Listen on this Unix socket, which only this user can open; without\n"
           "--listen there is no port");
  add_example(
      *app,
      "The server prints its address on standard error. SIGINT and SIGTERM end it after it\n"
      "answered the requests that it has received. docs/http.md describes every path.\n"
      "\n"
      "Example:\n"
      "  once serve --listen 127.0.0.1:7070\n"
      "  curl -X POST -H 'Content-Type: application/json' -d '{\"order\":17}' \\\n"
      "    'http://127.0.0.1:7070/v1/topics/orders.new?id=order-17'");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return serve(session, *options); };
  });
}

}  // namespace once::cli
