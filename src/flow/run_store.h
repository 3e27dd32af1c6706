// The values of workflows in key_values(): definitions, start keys, runs, large outputs and notes.
// Each write is a compare-and-swap on the revision that its writer has read. A Combiner joins the
// requests of many threads.
//
//   key                            value
//   flow, payment, 0000000003      the definition; {"removed": definition} once it was removed
//   run, payment-01k...            the facts
//   key, payment, order-17         {"ended":1700000000000,"input":"...","run":"...","version":3}; the
//                                  input is JSON as text, "ended" is missing while the run goes on
//   value, payment-01k....charge.1 an output that is too large for the run's value
//   note, runs.payment             the runs that max_runs admitted; "rate." for a step's rate
//
// A run that completed or was cancelled, its outputs and an ended key expire as records do
// (Retention). Everything else stays.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flow/definition/definition.h"
#include "flow/rules/facts.h"
#include "publish/combiner.h"
#include "store/store.h"

namespace once::engine {

struct KnownRun {
  core::RunState state{};
  core::Revision revision{};
};

// Which run a key has.
struct StartKey {
  std::string run{};
  std::uint32_t version{};
  std::string input{};                     // canonical JSON
  std::optional<core::StoreTime> ended{};  // when its run ended; nullopt if it has not
  core::Revision revision{};
};

// A key whose run has not ended.
struct OpenStart {
  std::string workflow{};
  std::string key{};
  StartKey given{};
  core::StoreTime since{};
};

// JSON under a name.
struct FlowNote {
  std::string json{};
  core::Revision revision{};
};

// The result of a compare-and-swap.
template <class T>
struct ValueWriteResult {
  bool written = false;
  std::optional<T> current{};  // if not written: the current value; nullopt if there is none
};

using FlowDefinitionRef = std::shared_ptr<const core::FlowDefinition>;  // shared with the cache

class RunStore {
 public:
  RunStore(store::Store& store, Scheduler& scheduler);

  // Makes the queue of events, once-flow, if it is missing.
  Result<void> make_event_queue();

  // Adds a definition. Returns false if this version exists and means the same. Another definition
  // under this name and version is a conflict, because definitions do not change.
  Result<bool> add(const encoding::ParsedDefinition& asked);
  // Removes the definition for new starts. Its runs still find it.
  Result<void> remove(std::string_view name, std::uint32_t version);
  // The definition, unless it was removed.
  Result<FlowDefinitionRef> to_start(std::string_view name, std::uint32_t version);
  // Code::not_found: there is none; Code::invalid_input: there can be none of that name.
  Result<FlowDefinitionRef> definition(std::string_view name, std::uint32_t version);
  // The highest version. A version that another process added may be missing for a second.
  Result<FlowDefinitionRef> newest(std::string_view name);
  Result<std::vector<FlowDefinitionRef>> definitions();  // by name and version
  // The definition's JSON as it was added, in canonical form.
  Result<std::string> json_of(const core::FlowDefinition& definition);

  // The run's value. nullopt if it is not written yet, or has expired.
  Result<std::optional<KnownRun>> run(std::string_view run);
  // The same for several runs, in one store call.
  std::vector<Result<std::optional<KnownRun>>> runs(std::span<const std::string> runs);
  // The run's value as this process wrote it last, without a store call. It may be outdated, so use
  // it only for a compare-and-swap. nullopt if this process does not remember the run.
  std::optional<KnownRun> recall(std::string_view run);
  // Calls `look` with every run, or with runs that go on or failed, until it returns false. The
  // order is not defined. Runs whose id `wanted` refuses are not read. If a run cannot be read,
  // `unreadable` is called instead.
  enum class Which { all, open };
  using LookAtRun = std::function<Result<bool>(const KnownRun&)>;
  using WantRun = std::function<bool(std::string_view run)>;
  using Unreadable = std::function<void(const std::string& run, const Error& why)>;
  Result<void> each_run(Which which, const LookAtRun& look, const Unreadable& unreadable,
                        const WantRun& wanted = {});
  Result<bool> any_active();
  // Writes the run's value over that revision (zero: there must be no value). If the answer was
  // lost and the value has these facts, it counts as written.
  Result<ValueWriteResult<KnownRun>> write(const core::RunState& state, core::Revision expected);
  // The same for several runs, in one store call. A run occurs at most once.
  std::vector<Result<ValueWriteResult<KnownRun>>> write(std::span<const KnownRun* const> runs);

  Result<std::optional<StartKey>> key(std::string_view workflow, std::string_view key);
  // Writes the key's value over that revision: which run it has, and whether that run has ended.
  // The store's time replaces `ended`. If the value is there already, it counts as written.
  Result<ValueWriteResult<StartKey>> write(std::string_view workflow, std::string_view key,
                                           const StartKey& next, core::Revision expected);
  // Removes the key's value if it still has that revision.
  Result<void> free_key(std::string_view workflow, std::string_view key, core::Revision revision);
  // A page of keys whose runs have not ended. `after` is `next` of the page before. An empty `next`
  // means the last page.
  struct OpenStarts {
    std::vector<OpenStart> starts{};
    std::string next{};
  };
  Result<OpenStarts> open_starts(const std::string& after);
  // Makes the key's value say whether the run has ended, unless the key has another run by now.
  Result<void> settle_key(const core::RunState& state);
  // The same for several runs, with few store calls. A run occurs at most once.
  std::vector<Result<void>> settle_keys(std::span<const core::RunState* const> runs);

  // Stores an output that is too large for the run's value. The same call again is fine.
  Result<void> put_value(std::string_view key, std::string json);
  Result<std::optional<std::string>> value(std::string_view key);
  // The facts with their large outputs filled in: all, or those of these steps.
  Result<core::RunState> whole(core::RunState state);
  Result<core::RunState> with_outputs(core::RunState state, const std::set<std::string>& steps);
  // The facts with the large outputs that conditions read. That is enough for core::stand().
  Result<core::RunState> with_judged_outputs(const core::FlowDefinition& definition,
                                             core::RunState state);
  // From now on, the large outputs of the run age.
  Result<void> settle_values(const core::RunState& state);
  Result<void> settle_value(std::string_view key);

  // The zone keeps records longer than before. Makes the values of ended runs live that long from
  // now on. After an error, the same call continues.
  Result<void> keep_longer(Duration lives);

  Result<std::optional<FlowNote>> note(std::string_view name);
  // Writes over that revision (zero: there must be no note). Returns false if another writer was
  // faster.
  Result<bool> write_note(std::string_view name, std::string json, core::Revision expected);

  // For each run: whether it is active, and whether it has a value.
  Result<std::vector<bool>> active(std::span<const std::string> runs);
  Result<std::vector<bool>> known(std::span<const std::string> runs);
  static std::string value_key(std::string_view run, std::string_view step, std::uint32_t n);
  static std::string output_key(std::string_view run, std::uint32_t round);

 private:
  using Got = Result<std::optional<store::Value>>;

  template <class Is>
  Result<std::vector<bool>> of_each(std::span<const std::string> runs, Is is);
  using Wanted = std::function<bool(std::string_view step)>;  // empty: the run's own output
  Result<core::RunState> fill_in(core::RunState state, const Wanted& wanted);
  Result<void> settle_values(std::vector<store::Key> keys);
  Got get(store::Key key);
  std::vector<Got> get(std::vector<store::Key> keys) { return gets_.submit(std::move(keys)); }
  // If the answer is lost, reads the value back.
  Result<store::KeyWriteResult> write(store::KeyWrite item);
  std::vector<Result<store::KeyWriteResult>> write(std::vector<store::KeyWrite> items);
  Result<store::KeyWriteResult> find_out(const store::KeyWrite& item,
                                         Result<store::KeyWriteResult> written);
  Result<store::KeyWrite> run_write(const KnownRun& run);
  Result<ValueWriteResult<KnownRun>> run_written(const core::RunState& state, std::size_t size,
                                                 Result<store::KeyWriteResult> written);
  // The write that makes the key's value follow the run. nullopt if it does already.
  Result<std::optional<store::KeyWrite>> key_write(const core::RunState& state, const Got& key,
                                                   const Got& run);
  Result<store::KeyWrite> key_write(std::string_view workflow, std::string_view key, StartKey next,
                                    core::Revision expected);
  using LookAtValue = std::function<Result<bool>(const store::Key&, const store::Value&)>;
  // Without `unreadable` a damaged value is an error.
  using DamagedValue = std::function<void(const store::Key&, const Error&)>;
  Result<void> each_value(store::KeyList query, const LookAtValue& look,
                          const DamagedValue& unreadable = {});
  // How long the values of an ended run are kept.
  Result<Duration> kept_for();
  void remember(const core::RunState& state, core::Revision revision, std::size_t size);
  Result<FlowDefinitionRef> definition(const store::Key& key);
  Result<FlowDefinitionRef> learn(const store::Key& key, std::string_view json);
  Result<std::string> read_definition(const store::Key& key);
  Result<KeyFormat> key_format_for(const encoding::ParsedDefinition& asked);
  Result<std::vector<FlowDefinitionRef>> read_definitions(std::string_view name);  // empty: all
  Error no_workflow(std::string_view name, std::optional<std::uint32_t> version);

  store::Store& store_;
  Scheduler& scheduler_;
  store::KeyValue& values_;
  Combiner<store::Key, Got> gets_;
  Combiner<store::KeyWrite, Result<store::KeyWriteResult>> writes_;
  struct Newest {
    FlowDefinitionRef definition{};
    Moment looked{};
  };
  std::mutex mutex_;
  std::map<store::Key, FlowDefinitionRef> definitions_;  // under mutex_
  std::map<std::string, Newest, std::less<>> newest_;    // under mutex_; by name
  std::map<std::string, KnownRun, std::less<>> runs_;    // under mutex_; see recall()
  std::deque<std::string> remembered_;                   // under mutex_; oldest first
  std::optional<Duration> kept_for_;                     // under mutex_
  Moment kept_for_read_{};                               // under mutex_
  std::string active_;  // under mutex_; a run that was active at the last look
};

}  // namespace once::engine
