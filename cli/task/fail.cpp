// once fail QUEUE KEY --token T [--error TEXT] [--retry-in D | --dead]
#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/task/ledger_key.h"

namespace once::cli {
namespace {

struct FailOptions {
  KeyOptions key{};
  std::optional<std::string> error{};
  std::optional<Duration> retry_in{};
  bool dead = false;
};

int fail(Session& session, const FailOptions& options) {
  if (options.dead && options.retry_in)
    return session.usage("fail takes one of --retry-in and --dead");
  const std::string why = options.error.value_or("");
  return as_holder(
      session, options.key, options.dead ? "dead" : "failed", [&](LedgerClient& ledger) {
        return options.dead
                   ? ledger.dead(options.key.key, *options.key.token, why)
                   : ledger.fail(options.key.key, *options.key.token, why, options.retry_in);
      });
}

}  // namespace

void add_fail(CLI::App& root, Session& session) {
  auto* app = add_command(root, "fail", "Record that the work of a claimed key did not finish");
  auto options = std::make_shared<FailOptions>();
  add_key(*app, options->key);
  add_token(*app, options->key);
  add_text(*app, "--error", options->error, "TEXT", "Why");
  add_duration(*app, "--retry-in", options->retry_in,
               "When it can be claimed again (the queue's backoff)", Duration{0});
  add_flag(*app, "--dead", options->dead, "It never will: a dead letter at once");
  add_example(*app,
              "After the queue's last attempt the key is dead. Exit status 1, fenced: another has\n"
              "claimed it since, or it is settled.\n"
              "\n"
              "Example:\n"
              "  once fail webhooks evt_17 --token $token --error 'the mail server is away'");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return fail(session, *options); };
  });
}

}  // namespace once::cli
