// once complete QUEUE KEY --token T [--result JSON|@FILE|-]
#include "cli/app/commands.h"
#include "cli/app/input.h"
#include "cli/app/options.h"
#include "cli/task/ledger_key.h"

namespace once::cli {
namespace {

struct CompleteOptions {
  KeyOptions key{};
  std::optional<std::string> result{};
};

int complete(Session& session, const CompleteOptions& options) {
  auto result = result_from(options.result, false);
  if (!result) return session.fail(result.error());
  return as_holder(session, options.key, "completed", [&](LedgerClient& ledger) {
    return ledger.complete(options.key.key, *options.key.token, *result);
  });
}

}  // namespace

void add_complete(CLI::App& root, Session& session) {
  auto* app = add_command(root, "complete", "Record that the work of a claimed key is done");
  auto options = std::make_shared<CompleteOptions>();
  add_key(*app, options->key);
  add_token(*app, options->key);
  add_text(*app, "--result", options->result, "JSON",
           "What later claims are answered with: JSON text, @FILE, or - for\n"
           "standard input; none: null");
  add_example(*app,
              "Exit status 1, fenced: another has claimed it since, or it is settled.\n"
              "\n"
              "Example:\n"
              "  once complete webhooks evt_17 --token $token --result '{\"mails\":2}'");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return complete(session, *options); };
  });
}

}  // namespace once::cli
