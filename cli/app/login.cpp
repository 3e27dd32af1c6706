#include "cli/app/login.h"

#include <cstdlib>

namespace once::cli {
namespace {

constexpr const char* kGroup =
    "On a NATS server (each also as ONCE_NATS_..., such as ONCE_NATS_CREDS)";

struct Variable {
  std::string NatsLogin::*value;
  const char* name;
};
constexpr Variable kVariables[]{
    {&NatsLogin::user, "ONCE_NATS_USER"},         {&NatsLogin::password, "ONCE_NATS_PASSWORD"},
    {&NatsLogin::token, "ONCE_NATS_TOKEN"},       {&NatsLogin::creds, "ONCE_NATS_CREDS"},
    {&NatsLogin::nkey, "ONCE_NATS_NKEY"},         {&NatsLogin::tls_ca, "ONCE_NATS_TLS_CA"},
    {&NatsLogin::tls_cert, "ONCE_NATS_TLS_CERT"}, {&NatsLogin::tls_key, "ONCE_NATS_TLS_KEY"},
    {&NatsLogin::inbox, "ONCE_NATS_INBOX"}};

void fill(NatsLogin& login, std::string NatsLogin::*value) {
  for (const Variable& variable : kVariables) {
    if (variable.value != value || !(login.*value).empty()) continue;
    if (const char* found = std::getenv(variable.name)) login.*value = found;
  }
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
    fill(given, &NatsLogin::user);
    fill(given, &NatsLogin::password);
  }
  if (!otherwise && !by_user) {
    fill(given, &NatsLogin::token);
    fill(given, &NatsLogin::creds);
    fill(given, &NatsLogin::nkey);
  }
  fill(given, &NatsLogin::tls_ca);
  fill(given, &NatsLogin::tls_cert);
  fill(given, &NatsLogin::tls_key);
  fill(given, &NatsLogin::inbox);
  return given;
}

std::vector<std::string> as_environment(const NatsLogin& login) {
  std::vector<std::string> variables;
  for (const Variable& variable : kVariables) {
    const std::string& value = login.*variable.value;
    if (!value.empty()) variables.push_back(std::string(variable.name) + '=' + value);
  }
  return variables;
}

}  // namespace once::cli
