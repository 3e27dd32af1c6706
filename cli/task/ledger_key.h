// What `claim`, `renew`, `complete` and `fail` have in common: a key of a queue that is a ledger
// alone.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/app/session.h"
#include "once/ledger.h"

namespace CLI {
class App;
}

namespace once::cli {

struct KeyOptions {
  std::string queue{};
  std::string key{};
  std::optional<std::uint64_t> token{};
};
void add_key(CLI::App& app, KeyOptions& options);
void add_token(CLI::App& app, KeyOptions& options);

// Opens the ledger for claims that outlive this command.
Result<LedgerClient> open_ledger(Session& session, const std::string& queue);

// Does what the holder of the token may do, and answers with `outcome`, and with where the key stands
// when that says more.
int as_holder(Session& session, const KeyOptions& options, std::string_view outcome,
              const std::function<Result<State>(LedgerClient&)>& act);

}  // namespace once::cli
