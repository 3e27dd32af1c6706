#include "flow/run_check.h"

namespace once::engine {
namespace {

// Only damage is a fault. If the store does not answer, the audit must fail.
bool is_damage(const Error& error) {
  return error.code == Code::store_unusable || error.code == Code::not_found;
}

// A run that was retried may have lost its key to a later run, or the key may have expired.
Result<std::vector<RunFault>> check_key(RunStore& run_store, const core::RunState& state) {
  std::vector<RunFault> faults;
  if (!state.key || core::round_of(state) > 1) return faults;
  const std::string harm = "a start with this key begins a second run";
  const auto key = run_store.key(state.workflow, *state.key);
  if (!key && !is_damage(key.error())) return key.error();
  if (!key)
    faults.push_back({.what = key.error().message, .harm = "no start with this key succeeds"});
  else if (!*key)
    faults.push_back({.what = "its key '" + *state.key + "' is missing", .harm = harm});
  else if ((*key)->run != state.run)
    faults.push_back(
        {.what = "its key '" + *state.key + "' has the run " + (*key)->run, .harm = harm});
  return faults;
}

Result<std::vector<RunFault>> look(RunStore& run_store, const core::RunState& state) {
  auto faults = check_key(run_store, state);
  if (!faults) return faults;
  const auto definition = run_store.definition(state.workflow, state.version);
  if (!definition && !is_damage(definition.error())) return definition.error();
  if (!definition)
    faults->push_back({.what = definition.error().message, .harm = "no runner can move the run"});
  const auto whole = run_store.whole(state);
  if (!whole && !is_damage(whole.error())) return whole.error();
  if (!whole)
    faults->push_back(
        {.what = whole.error().message, .harm = "a step that needs this output cannot start"});
  return faults;
}

}  // namespace

Result<std::vector<RunFault>> check_run(RunStore& run_store, const core::RunState& state) {
  if (core::end_of(state) != nullptr) return std::vector<RunFault>{};
  auto faults = look(run_store, state);
  if (!faults || faults->empty()) return faults;
  const auto again = run_store.run(state.run);
  if (!again) return again.error();
  if (!*again || core::end_of((*again)->state) != nullptr) return std::vector<RunFault>{};
  return look(run_store, (*again)->state);
}

}  // namespace once::engine
