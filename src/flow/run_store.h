// What workflows keep beside the log: their definitions, their runs, and which run a key has. Records
// of ledgers alone, each written over what its writer has read. What many threads ask or write at once
// goes to the store as one batch.
//
//   ledger      key                      state                          result
//   once-flows  payment@0000000003       waiting: it never ages         the definition
//   once-runs   payment-01k...           waiting while it goes on;      the facts
//                                        completed, dead or cancelled
//   once-keys   payment:order-17         waiting while its run goes     {"input":"...","run":"...",
//                                        on; completed, since then      "version":3}; the input is JSON
//                                                                       as text
//   once-values payment-01k....charge.1  as its run                     an output too large for its run
//
// and notes, which are records without an entry of the queue of events.
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
  std::string run{};  // empty: none, it was given back
  std::uint32_t version{};
  std::string input{};                     // canonical JSON
  std::optional<core::StoreTime> ended{};  // when its run ended; none: it goes on
  core::Revision revision{};
};

StartKey nobodys_key();

// A key whose run has not ended.
struct OpenStart {
  std::string workflow{};
  std::string key{};
  StartKey given{};
  core::StoreTime since{};
};

// JSON under a name; a record that nothing lists.
struct FlowNote {
  std::string json{};
  core::Revision revision{};
};

// What became of a write over a revision.
template <class StreamMessage>
struct BookWrite {
  bool written = false;
  std::optional<StreamMessage> current{};  // not written: what is there instead (none: nothing)
};

using FlowDefinitionRef = std::shared_ptr<const core::FlowDefinition>;  // shared with the cache

// How a run's record stands for its facts: an attempt for each round that ended, a deed for each retry,
// so that an audit can count runs like tasks.
core::Record run_record(const core::RunState& state);

class RunStore {
 public:
  RunStore(store::Store& store, Scheduler& scheduler);

  // Makes the queues of workflows, as far as they are missing.
  Result<void> make_queues();

  // False: this version is there, and means the same. Another definition under this name and version is a
  // conflict: definitions do not change.
  Result<bool> add(const encoding::ParsedDefinition& asked);
  // Its runs still find it; nobody else does.
  Result<void> remove(std::string_view name, std::uint32_t version);
  // The definition, unless it was removed.
  Result<FlowDefinitionRef> to_start(std::string_view name, std::uint32_t version);
  // Code::not_found: there is none; Code::invalid_input: there can be none of that name.
  Result<FlowDefinitionRef> definition(std::string_view name, std::uint32_t version);
  // The highest version. What another process added may be overlooked for a second.
  Result<FlowDefinitionRef> newest(std::string_view name);
  Result<std::vector<FlowDefinitionRef>> definitions();  // by name and version
  // As it was added, in canonical form.
  Result<std::string> json_of(const core::FlowDefinition& definition);

  // None: it has no record yet, or is forgotten.
  Result<std::optional<KnownRun>> run(std::string_view run);
  // The same without asking, as this process wrote it last, for who is about to write over it: it may be
  // behind. None: it is not known here.
  std::optional<KnownRun> recall(std::string_view run);
  // Writes the facts over that revision (zero: there must be no record). When the answer was lost and
  // these facts are there, they count as written.
  Result<BookWrite<KnownRun>> write(const core::RunState& state, core::Revision expected);

  Result<std::optional<StartKey>> key(std::string_view workflow, std::string_view key);
  // Gives the key to a run, or says that its run ended (at whatever time: the store's is kept) or goes
  // on, over that revision. What is there already counts as written.
  Result<BookWrite<StartKey>> write(std::string_view workflow, std::string_view key,
                                    const StartKey& next, core::Revision expected);
  // A page of them, after that one; `more`: there may be another page.
  struct OpenStarts {
    std::vector<OpenStart> starts{};
    std::string last{};  // go on behind it
    bool more = false;
  };
  Result<OpenStarts> open_starts(const std::string& after);
  // The run has ended, or goes on again: the key says the same, unless it has another run by now.
  Result<void> settle_key(const core::RunState& state);

  // An output that is too large for its run; the same one again is fine.
  Result<void> put_value(std::string_view key, std::string json);
  // The facts with the outputs that lie elsewhere: all, or those of these steps.
  Result<core::RunState> whole(core::RunState state);
  Result<core::RunState> with_outputs(core::RunState state, const std::set<std::string>& steps);
  // Those that conditions look at: enough to say how its steps stand.
  Result<core::RunState> with_judged_outputs(const core::FlowDefinition& definition,
                                             core::RunState state);
  // What lies elsewhere ages from now on.
  Result<void> settle_values(const core::RunState& state);
  Result<void> settle_value(std::string_view key);

  Result<std::optional<FlowNote>> note(std::string_view name);
  // Over that revision (zero: there must be none); false: somebody else was faster.
  Result<bool> write_note(std::string_view name, std::string json, core::Revision expected);

  // Which of these runs go on, and which have a record at all.
  Result<std::vector<bool>> active(std::span<const std::string> runs);
  Result<std::vector<bool>> known(std::span<const std::string> runs);
  static std::string value_key(std::string_view run, std::string_view step, std::uint32_t n);
  static std::string output_key(std::string_view run, std::uint32_t round);

 private:
  using Got = Result<std::optional<core::Stored>>;

  template <class Is>
  Result<std::vector<bool>> each_run(std::span<const std::string> runs, Is is);
  using Wanted = std::function<bool(std::string_view step)>;  // empty: the run's own output
  Result<core::RunState> fill_in(core::RunState state, const Wanted& wanted);
  Result<void> settle_values(std::vector<store::Address> places);
  Got get(store::Address at);
  // An answer that was lost is read back.
  Result<store::Swapped> swap(store::Swap item);
  std::vector<Got> get(std::vector<store::Address> all) { return gets_.submit(std::move(all)); }
  void remember(const core::RunState& state, const core::Stored& stored);
  Result<FlowDefinitionRef> definition(const std::string& key);
  Result<std::string> read_definition(const std::string& key);
  Result<KeyFormat> key_format_for(const encoding::ParsedDefinition& asked);
  Result<std::vector<FlowDefinitionRef>> read_definitions(std::string_view name);  // empty: all
  Error no_workflow(std::string_view name, std::optional<std::uint32_t> version);

  store::Store& store_;
  Scheduler& scheduler_;
  Combiner<store::Address, Got> gets_;
  Combiner<store::Swap, Result<store::Swapped>> swaps_;
  struct Newest {
    FlowDefinitionRef definition{};
    Moment looked{};
  };
  std::mutex mutex_;
  std::map<std::string, FlowDefinitionRef> definitions_;  // under mutex_; by key
  std::map<std::string, Newest, std::less<>> newest_;     // under mutex_; by name
  std::map<std::string, KnownRun, std::less<>> runs_;     // under mutex_; some that go on
  std::deque<std::string> remembered_;                    // under mutex_; in what order
};

}  // namespace once::engine
