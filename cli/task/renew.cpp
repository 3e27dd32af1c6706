// once renew QUEUE KEY --token T [--lease D]
#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/task/ledger_key.h"

namespace once::cli {
namespace {

struct RenewOptions {
  KeyOptions key{};
  std::optional<Duration> lease{};
};

int renew(Session& session, const RenewOptions& options) {
  return as_holder(session, options.key, "renewed", [&](LedgerClient& ledger) {
    return ledger.renew(options.key.key, *options.key.token, options.lease.value_or(Duration{0}));
  });
}

}  // namespace

void add_renew(CLI::App& root, Session& session) {
  auto* app = add_command(root, "renew", "Keep a claimed key for another lease");
  auto options = std::make_shared<RenewOptions>();
  add_key(*app, options->key);
  add_token(*app, options->key);
  add_duration(*app, "--lease", options->lease,
               "How long from now it is yours (the queue's lease)");
  add_example(*app,
              "Exit status 1, fenced: another has claimed it since, or it is settled. Stop.\n"
              "\n"
              "Example:\n"
              "  once renew webhooks evt_17 --token $token --lease 5m");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return renew(session, *options); };
  });
}

}  // namespace once::cli
