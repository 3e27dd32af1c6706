// One row per reason. {name} is a fact of the error.
#include "cli/app/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace once::cli {
namespace {

struct Advice {
  Reason reason;
  std::string_view text;
};

constexpr std::array kAdvice = std::to_array<Advice>({
    {Reason::no_database,
     "'once queue add', 'once publish', 'once flow add' and 'once apply' make one; --store or "
     "ONCE_STORE names another"},
    {Reason::no_zone,
     "To make a new zone, add a queue (once queue add) or a workflow (once flow add)"},
    {Reason::no_queue,
     "Make it with 'once queue add {queue} --topic FILTER'; 'once queue list' shows those that are "
     "there"},
    {Reason::no_workflow,
     "Add it with 'once flow add FILE'; 'once flow list' shows those that are there"},
    {Reason::no_run, "'once flow runs' shows those that are there"},
    {Reason::no_step_in_doubt, "'once inspect {task}' shows its steps"},
    {Reason::queue_not_empty,
     "'once list --queue {queue}' shows them, 'once dead' and 'once doubt' decide, and 'once queue "
     "remove {queue} --force' removes the queue with them"},
    {Reason::queue_belongs_to_flows,
     "'once flow work' drives the runs of workflows, and 'once flow runs' shows them"},
    {Reason::queue_is_ledger_only, "'once claim {queue} KEY' claims a key"},
    {Reason::queue_is_not_ledger_only, "Make one with 'once queue add NAME --ledger'"},
    {Reason::stream_needs_nats, "--store nats://HOST:PORT/ZONE names such a zone"},
    {Reason::stream_replaced, "'once queue remove {queue} --force' removes it"},
    {Reason::login_in_address,
     "Give --nats-user and --nats-password (ONCE_NATS_USER, ONCE_NATS_PASSWORD), --nats-token, "
     "--creds or --nkey"},
    {Reason::result_too_large, "'once queue set {queue} --max-result SIZE' raises it"},
    {Reason::result_incomplete, "'once inspect {task}' shows it"},
    {Reason::key_outlives_records, "'once retention --records {key_ttl}' does so"},
    {Reason::run_cannot_begin, "Start it with --unique, and see 'once inspect {event}'"},
    {Reason::run_failed, "'once flow retry {run}' retries it"},
    {Reason::claim_not_started,
     "Start the claim first; 'once serve' has the path /v1/claims:start"},
    {Reason::step_under_way, "Wait for the other call of step {step}, or let its attempt end"},
    {Reason::step_cannot_repeat,
     "'once flow cancel {run}' closes the run, and 'once flow start --unique' starts another"},
    {Reason::no_valid_token, "'once token add NAME --role ROLE' makes a token"},
    {Reason::not_permitted, "'once token list' shows what each token permits"},
});

// "set.lease" is the option --lease of `queue set`.
std::string advice_for_other_settings(const Facts& facts) {
  constexpr std::string_view kSet = "set.";
  std::string options;
  for (const Facts::Fact& fact : facts) {
    if (fact.name.starts_with(kSet)) {
      options += fmt::format(" --{} {}", fact.name.substr(kSet.size()), fact.value);
    }
  }
  std::string text;
  if (!options.empty())
    text += fmt::format("To change it: once queue set {}{}. ", facts["queue"], options);
  if (!facts["pause"].empty()) text += facts.fill("To pause it: once queue pause {queue}. ");
  if (!facts["fixed"].empty()) text += facts.fill("To remove it: once queue remove {queue}. ");
  if (!text.empty()) text.pop_back();
  return text;
}

std::string joined(const std::string& text, const std::string& advice) {
  if (advice.empty()) return text;
  const bool ended =
      !text.empty() && std::string_view(".?!").find(text.back()) != std::string::npos;
  return text + (ended ? " " : ". ") + advice;
}

}  // namespace

std::string advice_for(Reason reason, const Facts& facts) {
  if (reason == Reason::queue_differs) return advice_for_other_settings(facts);
  if (reason == Reason::no_queue_for_step) {
    const std::string_view name = facts["queue"].empty() ? "NAME" : facts["queue"];
    return fmt::format("Make it with 'once queue add {} --topic {}'", name, facts["topic"]);
  }
  const auto* const found = std::find_if(kAdvice.begin(), kAdvice.end(),
                                         [&](const Advice& each) { return each.reason == reason; });
  return found == kAdvice.end() ? std::string() : facts.fill(found->text);
}

std::string with_advice(const Error& error) {
  return joined(error.message, advice_for(error.reason, error.facts));
}

std::string with_advice(const FlowHint& hint) {
  return joined(hint.text, advice_for(hint.reason, hint.facts));
}

}  // namespace once::cli
