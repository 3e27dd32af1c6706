#include "cli/login.h"

#include <cstdlib>

namespace once::cli {
namespace {

constexpr const char* kGroup =
    "On a NATS server (each also as ONCE_NATS_..., such as ONCE_NATS_CREDS)";

void fill(std::string& value, const char* variable) {
  const char* found = value.empty() ? std::getenv(variable) : nullptr;
  if (found != nullptr) value = found;
}

}  // namespace

void add_login(CLI::App& app, NatsLogin& login) {
  const auto add = [&app](const char* name, std::string& to, const char* what, const char* help) {
    app.add_option(name, to, help)->type_name(what)->group(kGroup);
  };
  add("--creds", login.creds, "FILE", "Log in by a JWT and its seed, as in a .creds file");
  add("--nkey", login.nkey, "FILE", "Log in by a user's seed");
  add("--nats-user", login.user, "NAME", "Log in by name and password");
  add("--nats-password", login.password, "TEXT",
      "Others see the options of a process: better use ONCE_NATS_PASSWORD");
  add("--nats-token", login.token, "TEXT", "Log in by a token; better use ONCE_NATS_TOKEN");
  add("--tls-ca", login.tls_ca, "FILE",
      "Speak TLS, and trust these certificates; none: the system's");
  add("--tls-cert", login.tls_cert, "FILE", "Speak TLS with this certificate of one's own");
  add("--tls-key", login.tls_key, "FILE", "The key of --tls-cert");
  add("--nats-inbox", login.inbox, "PREFIX",
      "Where answers go; none: _INBOX_once and the user's name or public key");
}

NatsLogin with_environment(NatsLogin given) {
  const bool by_user = !given.user.empty() || !given.password.empty();
  const bool otherwise = !given.token.empty() || !given.creds.empty() || !given.nkey.empty();
  if (!otherwise) {
    fill(given.user, "ONCE_NATS_USER");
    fill(given.password, "ONCE_NATS_PASSWORD");
  }
  if (!otherwise && !by_user) {
    fill(given.token, "ONCE_NATS_TOKEN");
    fill(given.creds, "ONCE_NATS_CREDS");
    fill(given.nkey, "ONCE_NATS_NKEY");
  }
  fill(given.tls_ca, "ONCE_NATS_TLS_CA");
  fill(given.tls_cert, "ONCE_NATS_TLS_CERT");
  fill(given.tls_key, "ONCE_NATS_TLS_KEY");
  fill(given.inbox, "ONCE_NATS_INBOX");
  return given;
}

}  // namespace once::cli
