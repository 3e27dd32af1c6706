// once claim QUEUE KEY [--lease D]: a key of a ledger-only queue, for consumer loops of one's own.
// The token on standard output means: yours.
#include <fmt/format.h>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/task/ledger_key.h"
#include "shapes/ledger_json.h"
#include "shapes/values.h"

namespace once::cli {
namespace {

struct ClaimOptions {
  KeyOptions key{};
  std::optional<Duration> lease{};
};

std::string words_of(const KeyOptions& key, const ClaimResult& claim, Time until) {
  const std::string why = claim.why.empty() ? "" : ": " + claim.why;
  const std::string not_claimed =
      fmt::format("{} in queue {} is not claimed: ", key.key, key.queue);
  switch (claim.kind) {
    case ClaimResult::Kind::claimed: break;
    case ClaimResult::Kind::completed: return not_claimed + "it was completed before";
    case ClaimResult::Kind::held:
      return not_claimed + "another holds it, until " + format_time(until) + " unless renewed";
    case ClaimResult::Kind::not_due:
      return not_claimed + "it failed and is to be tried again after " + format_time(until);
    case ClaimResult::Kind::dead: return not_claimed + "it is dead" + why + " (once dead show)";
    case ClaimResult::Kind::in_doubt:
      return not_claimed + "it is in doubt" + why + " (once doubt show)";
    case ClaimResult::Kind::cancelled: return not_claimed + "it is cancelled" + why;
  }
  return {};
}

int claim(Session& session, const ClaimOptions& options) {
  if (options.key.key.empty()) return session.usage("KEY is empty; nothing was claimed");
  auto ledger = open_ledger(session, options.key.queue);
  if (!ledger) return session.fail(ledger.error());
  auto claim = ledger->claim(options.key.key, options.lease.value_or(Duration{0}));
  if (!claim) return session.fail(claim.error());
  const bool claimed = claim->kind == ClaimResult::Kind::claimed;
  const Time until = now() + claim->wait;
  if (session.json) {
    session.out.line(key_claimed_json(options.key.queue, options.key.key, *claim, until));
  } else if (claimed) {
    session.out.line(fmt::format("{}", claim->token));
    if (claim->in_doubt) {
      session.hint("an earlier attempt ended without a verdict: its effect may have happened");
    }
  } else {
    session.hint(words_of(options.key, *claim, until));
  }
  return claimed ? kDone : kNotClaimed;
}

}  // namespace

void add_claim(CLI::App& root, Session& session) {
  auto* app = add_command(root, "claim", "Claim a key of a ledger-only queue: prints the token");
  auto options = std::make_shared<ClaimOptions>();
  add_key(*app, options->key);
  add_duration(*app, "--lease", options->lease, "How long it is yours (the queue's lease)");
  add_example(
      *app,
      "Exit status: 0 claimed, 8 not: completed before, held by another, not due, dead, in\n"
      "doubt or cancelled; --json says which. Nothing is renewed by itself, and the end of\n"
      "this command does not give the key back.\n"
      "\n"
      "Example:\n"
      "  once queue add webhooks --ledger\n"
      "  token=$(once claim webhooks evt_17) || exit\n"
      "  if ./handle evt_17; then once complete webhooks evt_17 --token $token\n"
      "  else once fail webhooks evt_17 --token $token --error 'handle failed'; fi");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return claim(session, *options); };
  });
}

}  // namespace once::cli
