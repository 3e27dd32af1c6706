// once serve [--listen HOST:PORT] [--socket PATH] [--tls-cert FILE --tls-key FILE] [--behind-proxy]
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
#include "cli/ops/notify.h"
#include "server/api.h"
#include "server/http_server.h"
#include "server/origin.h"
#include "shapes/values.h"
#include "tooling/tokens.h"

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
  std::optional<std::string> listen{}, socket{}, certificate{}, key{};
  bool behind_proxy = false;
};

Error listen_error(std::string_view text, std::string_view why) {
  return {.code = Code::invalid_input,
          .message = fmt::format("--listen {}: {}; nothing was started", printable(text), why)};
}

// HOST:PORT, [HOST]:PORT, :PORT or HOST.
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
  if (options.certificate.has_value() != options.key.has_value()) {
    return Error{.code = Code::invalid_input,
                 .message = "--tls-cert and --tls-key need each other; nothing was started"};
  }
  if (options.certificate && !out.tcp) {
    return Error{.code = Code::invalid_input,
                 .message =
                     "--tls-cert is for --listen; a Unix socket has no TLS; nothing was "
                     "started"};
  }
  if (options.certificate) {
    out.tls = server::TlsFiles{.certificate = *options.certificate, .key = *options.key};
    if (auto good = server::check_files(*out.tls); !good) return good.error();
  }
  if (out.tcp && !server::is_loopback(out.tcp->host) && !out.tls && !options.behind_proxy) {
    return listen_error(*options.listen,
                        "other machines reach this address, so the server must encrypt. Give "
                        "--tls-cert FILE and --tls-key FILE, or --behind-proxy if a proxy does it, "
                        "or listen on loopback, such as 127.0.0.1");
  }
  return out;
}

// How clients reach the server. A proxy makes a loopback address reachable from elsewhere.
server::Site site_of(const server::ServerOptions& listens, const ServeOptions& options) {
  server::Site site{.tls = listens.tls.has_value(), .behind_proxy = options.behind_proxy};
  if (listens.tcp) site.hosts.push_back(listens.tcp->host);
  site.any_host = options.behind_proxy || (listens.tcp && !server::is_loopback(listens.tcp->host));
  return site;
}

Error needs_tokens() {
  return {.code = Code::invalid_input,
          .message =
              "other machines reach this server, and the zone has no tokens, so everybody could "
              "use it; nothing was started. Make a token first (once token add NAME --role ROLE), "
              "or listen on 127.0.0.1 without --behind-proxy"};
}

int serve(Session& session, const ServeOptions& options) {
  const auto listens = server_options_from(options);
  if (!listens) return session.fail(listens.error());
  Signals signals;
  Patience patience(session, signals, Patience::For::service);
  auto zone =
      patience.find([&] { return session.open(Missing::create_file_or_await, Stays::longer); });
  if (!zone) return patience.ended(zone.error());
  auto tokens = patience([&] { return list_tokens(*zone); });
  if (!tokens) return patience.ended(tokens.error());
  server::Site site = site_of(*listens, options);
  if (site.any_host && tokens->empty()) return session.fail(needs_tokens());
  server::Api api(*zone, std::move(site), std::move(*tokens));
  auto server = server::HttpServer::listen(*listens, api);
  if (!server) return session.fail(server.error());
  const std::string_view scheme = listens->tls ? "https" : "http";
  if (listens->tcp) complain(fmt::format("listening on {}://{}", scheme, server->address()));
  if (!listens->socket.empty()) complain(fmt::format("listening on unix:{}", listens->socket));
  notify_service_manager("READY=1");
  std::jthread waiter([&] {
    if (!signals.wait()) return;
    notify_service_manager("STOPPING=1");
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
  auto* app = add_command(root, "serve", "Serve the zone over HTTP");
  auto options = std::make_shared<ServeOptions>();
  add_text(*app, "--listen", options->listen, "HOST:PORT",
           "The address to listen on; :0 takes a free port (127.0.0.1:7070). Other\nmachines need "
           "tokens and TLS");
  add_text(*app, "--socket", options->socket, "PATH",
           "Listen on this Unix socket, which only this user can open; without\n"
           "--listen there is no port");
  add_text(*app, "--tls-cert", options->certificate, "FILE",
           "Speak HTTPS with this certificate and its chain, in PEM. The login at a\n"
           "NATS server has $ONCE_NATS_TLS_CERT instead");
  add_text(*app, "--tls-key", options->key, "FILE", "The key of --tls-cert, in PEM");
  add_flag(*app, "--behind-proxy", options->behind_proxy,
           "A proxy speaks HTTPS with the clients, and passes any host on");
  add_example(
      *app,
      "If the zone has tokens (once token add), clients send one with each request.\n"
      "\n"
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
