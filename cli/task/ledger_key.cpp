// A LedgerClient per command: what a claim stands on is its lease and its token, not a process.
#include "cli/task/ledger_key.h"

#include <fmt/format.h>

#include "cli/app/options.h"
#include "shapes/ledger_json.h"
#include "shapes/values.h"

namespace once::cli {

void add_key(CLI::App& app, KeyOptions& options) {
  add_needed(app, "QUEUE", options.queue, "A queue made with --ledger");
  add_needed(app, "KEY", options.key, "What the work is remembered by");
}

void add_token(CLI::App& app, KeyOptions& options) {
  add_number(app, "--token", options.token, "What claim answered (needed)", 1);
}

Result<LedgerClient> open_ledger(Session& session, const std::string& queue) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return zone.error();
  return zone->ledger(queue, {.claims_outlive_process = true});
}

int as_holder(Session& session, const KeyOptions& options, std::string_view outcome,
              const std::function<Result<State>(LedgerClient&)>& act) {
  if (!options.token) {
    return session.usage(
        fmt::format("--token is missing: whoever claimed the key was given it (once claim {} KEY)",
                    options.queue));
  }
  auto ledger = open_ledger(session, options.queue);
  if (!ledger) return session.fail(ledger.error());
  const auto state = act(*ledger);
  if (!state) return session.fail(state.error());
  if (session.json) {
    session.out.line(key_settled_json(options.queue, options.key, outcome, *state));
  } else {
    session.say(fmt::format("{} in queue {} is {}", printable(options.key), options.queue,
                            key_outcome(outcome, *state)));
  }
  return kDone;
}

}  // namespace once::cli
