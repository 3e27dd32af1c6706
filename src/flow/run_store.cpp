#include "flow/run_store.h"

#include <algorithm>

#include "codec/digest.h"
#include "codec/stored_body.h"
#include "core/names.h"
#include "core/words.h"
#include "flow/definition/input.h"
#include "flow/definition/state.h"
#include "json/object_reader.h"
#include "json/object_text.h"

namespace once::engine {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kRunBatch = 1024;
constexpr auto kNewestFor = 1s;
constexpr std::string_view kRemoved = "{\"removed\":";  // what a removed definition begins with
constexpr int kSwapTries = 64;                          // of reading a value and replacing it
constexpr int kWrites = 3;                              // of one value whose answers are lost
constexpr std::size_t kRunsRemembered = 4096;
constexpr std::size_t kMostRemembered = 4 << 10;  // largest value that is remembered, in bytes

// The queue of events. Every action for an event can be performed twice. So events may be claimed
// ahead and retried without limit.
Queue queue_of_events() {
  return {.name = std::string(core::kFlowQueue),
          .topic = "$once.flow.>",
          .lease = 30s,
          .attempts = 1'000'000,
          .backoff = {200ms, 1s, 5s, 30s},
          .in_doubt = InDoubt::retry,
          .window = 64};
}

// Whether the queue has the fields that Once needs. A person may have changed the other fields.
bool serves(const Queue& existing, const Queue& wanted) {
  return existing.topic == wanted.topic && existing.key == wanted.key && !existing.from &&
         existing.stream.empty() && existing.ledger == wanted.ledger;
}

store::Key definition_key(std::string_view name, std::uint32_t version) {
  std::string digits = std::to_string(version);
  digits.insert(0, 10 - digits.size(), '0');
  return {"flow", std::string(name), std::move(digits)};
}
std::string named(const store::Key& definition) {
  return "the definition of '" + definition[1] + "@" + definition[2] + "'";
}
store::Key run_key(std::string_view run) { return {"run", std::string(run)}; }
store::Key start_key(std::string_view workflow, std::string_view key) {
  return {"key", std::string(workflow), std::string(key)};
}
store::Key kept_value(std::string key) { return {"value", std::move(key)}; }
store::Key note_key(std::string_view name) { return {"note", std::string(name)}; }

bool is_removed(std::string_view definition) { return definition.starts_with(kRemoved); }
// The definition's JSON as it was added, even if the definition was removed.
std::string_view as_added(std::string_view definition) {
  if (!is_removed(definition)) return definition;
  return definition.substr(kRemoved.size(), definition.size() - kRemoved.size() - 1);
}

Error damaged(const std::string& what) {
  return {.code = Code::store_unusable,
          .message = what +
                     " cannot be read: it was damaged, or written by a newer version of "
                     "once; nothing was done"};
}

Result<KnownRun> run_of(const store::Value& value) {
  auto state = encoding::decode_state(value.bytes);
  if (!state) return state.error();
  return KnownRun{.state = std::move(*state), .revision = value.revision};
}

Result<StartKey> key_of(std::string_view key, const store::Value& value) {
  const auto json = encoding::parse_json(value.bytes);
  if (!json) return damaged("the value of the key '" + std::string(key) + "'");
  StartKey known{.revision = value.revision};
  Duration::rep ended = 0;
  encoding::ObjectReader reader(*json);
  const bool has_ended = reader.find("ended") != nullptr;
  if (has_ended) reader.number("ended", 0, ended);
  reader.string("input", known.input);
  reader.string("run", known.run);
  reader.number("version", 1, known.version);
  if (!reader.misfit().empty()) return damaged("the value of the key '" + std::string(key) + "'");
  if (has_ended) known.ended = core::StoreTime{Duration{ended}};
  return known;
}

std::string text_of(const StartKey& key) {
  encoding::ObjectText json;
  if (key.ended) json.number("ended", key.ended->time_since_epoch().count());
  json.string("input", key.input);
  json.string("run", key.run);
  json.number("version", key.version);
  return std::move(json).take();
}

// Calls with each large output: its key, its step (empty for the run's own output), and the field
// of the state to fill in, which is empty.
template <class State, class Do>
void each_elsewhere(State& state, Do&& act) {
  for (auto& [step, facts] : state.steps)
    for (auto& [n, fact] : facts)
      if (fact.elsewhere) act(RunStore::value_key(state.run, step, n), step, fact.value);
  for (auto& [number, round] : state.rounds)
    if (round.ended && round.ended->outcome == core::RunOutcome::completed &&
        round.ended->value.empty())
      act(RunStore::output_key(state.run, number), std::string(), round.ended->value);
}

Error busy(std::string_view what) {
  return {.code = Code::store_unavailable,
          .message = "others keep writing " + std::string(what) + "; it is tried again",
          .retryable = true};
}

Error another_definition(const core::FlowDefinition& given, std::vector<std::string> differs,
                         std::uint32_t next) {
  std::string where;
  for (const std::string& path : differs) where += (where.empty() ? "" : ", ") + path;
  auto conflict = std::make_shared<Conflict>();
  conflict->id = given.name + "@" + std::to_string(given.version);
  conflict->differs = std::move(differs);
  return {.code = Code::conflicting_duplicate,
          .message = "workflow '" + given.name + "' version " + std::to_string(given.version) +
                     " exists with another definition (" + where +
                     "); nothing was added: give it version " + std::to_string(next),
          .conflict = std::move(conflict)};
}

}  // namespace

RunStore::RunStore(store::Store& store, Scheduler& scheduler)
    : store_(store),
      scheduler_(scheduler),
      values_(store.key_values()),
      gets_(scheduler, kRunBatch, [this](const auto& keys) { return values_.get(keys); }),
      writes_(scheduler, kRunBatch, [this](const auto& items) { return values_.write(items); }) {}

Result<void> RunStore::make_event_queue() {
  const Queue wanted = queue_of_events();
  const auto there = store_.queues();
  if (!there) return there.error();
  const auto found = std::find_if(there->begin(), there->end(),
                                  [&](const Queue& queue) { return queue.name == wanted.name; });
  Queue existing;
  if (found != there->end()) {
    existing = *found;
  } else {
    auto added = store_.add_queue(wanted);
    if (!added) return added.error();
    existing = std::move(added->existing);
  }
  if (serves(existing, wanted)) return {};
  return Error{.code = Code::queue_mismatch,
               .message = "there is a queue '" + wanted.name +
                          "' that is not one of Once's own: workflows need that name, and "
                          "nothing was done. Use a zone without such a queue."};
}

// --- Definitions ------------------------------------------------------------------------------

// All versions of a workflow share its keys. So all versions must use one key format.
Result<KeyFormat> RunStore::key_format_for(const encoding::ParsedDefinition& asked) {
  const auto all = read_definitions(asked.definition.name);
  if (!all) return all.error();
  const auto keyed =
      std::find_if(all->rbegin(), all->rend(), [](const auto& each) { return !each->key.empty(); });
  if (keyed == all->rend()) return asked.key_format.value_or(KeyFormat::plain);
  const KeyFormat format = (*keyed)->key_format;
  if (!asked.key_format || *asked.key_format == format) return format;
  return Error{.code = Code::invalid_input,
               .message = "workflow '" + asked.definition.name + "': its keys have the format " +
                          std::string(to_string(format)) + " since version " +
                          std::to_string((*keyed)->version) +
                          ", and with another one a start would not find the run that has its "
                          "key; nothing was added: leave out \"key_format\", or give the workflow "
                          "another name"};
}

Result<bool> RunStore::add(const encoding::ParsedDefinition& asked) {
  auto format = KeyFormat::plain;
  if (!asked.definition.key.empty()) {
    const auto found = key_format_for(asked);
    if (!found) return found.error();
    format = *found;
  }
  const encoding::ParsedDefinition parsed = encoding::with_key_format(asked, format);
  const core::FlowDefinition& given = parsed.definition;
  const store::Key key = definition_key(given.name, given.version);
  const auto written = write({.key = key, .bytes = parsed.canonical});
  if (!written) return written.error();
  {
    const std::lock_guard lock(mutex_);
    newest_.erase(given.name);
  }
  if (written->written) return true;
  const auto& current = written->current;
  if (!current) return damaged(named(key));
  // Two texts of a definition may differ and mean the same, for example if a default is left out.
  const std::string canonical(as_added(current->bytes));
  const auto there = encoding::parse_kept(canonical);
  if (!there) return damaged(named(key));
  auto differs = encoding::differing({}, StoredBody::json(encoding::meaning_of(there->definition)),
                                     {}, StoredBody::json(encoding::meaning_of(given)));
  if (differs.empty() && is_removed(current->bytes)) {
    const auto restored = write({.key = key, .expected = current->revision, .bytes = canonical});
    if (!restored) return restored.error();
    return restored->written;
  }
  if (differs.empty()) return false;
  const auto last = newest(given.name);
  return another_definition(given, std::move(differs),
                            (last ? (*last)->version : given.version) + 1);
}

// Runs that started with the definition still need it. So remove() only marks its value.
Result<void> RunStore::remove(std::string_view name, std::uint32_t version) {
  if (auto ok = core::check_name(name, "workflow"); !ok) return ok.error();
  const store::Key key = definition_key(name, version);
  const auto stored = get(key);
  if (!stored) return stored.error();
  if (!*stored || is_removed((*stored)->bytes)) return no_workflow(name, version);
  const auto written = write({.key = key,
                              .expected = (*stored)->revision,
                              .bytes = std::string(kRemoved) + (*stored)->bytes + "}"});
  if (!written) return written.error();
  const std::lock_guard lock(mutex_);
  newest_.erase(std::string(name));
  return {};
}

Result<FlowDefinitionRef> RunStore::to_start(std::string_view name, std::uint32_t version) {
  if (version == 0) return newest(name);
  const auto stored = get(definition_key(name, version));
  if (stored && *stored && is_removed((*stored)->bytes)) return no_workflow(name, version);
  return definition(name, version);
}

Result<FlowDefinitionRef> RunStore::definition(std::string_view name, std::uint32_t version) {
  if (auto ok = core::check_name(name, "workflow"); !ok) return ok.error();
  auto known = definition(definition_key(name, version));
  if (!known && known.error().code == Code::not_found) return no_workflow(name, version);
  return known;
}

Error RunStore::no_workflow(std::string_view name, std::optional<std::uint32_t> version) {
  std::vector<std::string_view> names;
  const auto all = definitions();
  if (all)
    for (const FlowDefinitionRef& each : *all) names.push_back(each->name);
  const auto meant = core::nearest(name, names);
  return {
      .code = Code::not_found,
      .message = "there is no workflow '" + std::string(name) + "'" +
                 (version ? " of version " + std::to_string(*version) : "") +
                 (meant && *meant != name ? "; did you mean '" + std::string(*meant) + "'?" : ""),
      .reason = Reason::no_workflow,
      .facts = {{"workflow", std::string(name)}}};
}

// A definition never changes, so it is read once and remembered.
Result<FlowDefinitionRef> RunStore::definition(const store::Key& key) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = definitions_.find(key); known != definitions_.end())
      return known->second;
  }
  const auto json = read_definition(key);
  if (!json) return json.error();
  return learn(key, *json);
}

Result<FlowDefinitionRef> RunStore::learn(const store::Key& key, std::string_view json) {
  auto parsed = encoding::parse_kept(json);
  if (!parsed) return damaged(named(key));
  auto made = std::make_shared<const core::FlowDefinition>(std::move(parsed->definition));
  const std::lock_guard lock(mutex_);
  return definitions_.emplace(key, std::move(made)).first->second;
}

Result<std::string> RunStore::read_definition(const store::Key& key) {
  const auto stored = get(key);
  if (!stored) return stored.error();
  if (!*stored)
    return Error{.code = Code::not_found, .message = "there is no workflow '" + key[1] + "'"};
  return std::string(as_added((*stored)->bytes));
}

Result<std::string> RunStore::json_of(const core::FlowDefinition& definition) {
  return read_definition(definition_key(definition.name, definition.version));
}

Result<FlowDefinitionRef> RunStore::newest(std::string_view name) {
  if (auto ok = core::check_name(name, "workflow"); !ok) return ok.error();
  const Moment now = scheduler_.now();
  {
    const std::lock_guard lock(mutex_);
    const auto known = newest_.find(name);
    if (known != newest_.end() && now - known->second.looked < kNewestFor)
      return known->second.definition;
  }
  const auto all = read_definitions(name);
  if (!all) return all.error();
  if (all->empty()) return no_workflow(name, {});
  const std::lock_guard lock(mutex_);
  newest_[std::string(name)] = {.definition = all->back(), .looked = now};
  return all->back();
}

Result<std::vector<FlowDefinitionRef>> RunStore::definitions() { return read_definitions({}); }

Result<std::vector<FlowDefinitionRef>> RunStore::read_definitions(std::string_view name) {
  store::Key prefix{"flow"};
  if (!name.empty()) prefix.emplace_back(name);
  std::map<store::Key, FlowDefinitionRef> found;
  const auto read =
      each_value({.prefix = std::move(prefix)},
                 [&](const store::Key& key, const store::Value& value) -> Result<bool> {
                   if (is_removed(value.bytes)) return true;
                   auto known = learn(key, value.bytes);
                   if (!known) return known.error();
                   found[key] = std::move(*known);
                   return true;
                 });
  if (!read) return read.error();
  std::vector<FlowDefinitionRef> all;
  for (auto& [key, definition] : found) all.push_back(std::move(definition));
  return all;
}

// --- Runs and keys ----------------------------------------------------------------------------

Result<std::optional<KnownRun>> RunStore::run(std::string_view run) {
  const auto stored = get(run_key(run));
  if (!stored) return stored.error();
  if (!*stored) return std::optional<KnownRun>{};
  auto known = run_of(**stored);
  if (!known) return known.error();
  return std::optional<KnownRun>(std::move(*known));
}

std::vector<Result<std::optional<KnownRun>>> RunStore::runs(std::span<const std::string> runs) {
  std::vector<Result<std::optional<KnownRun>>> answers;
  if (runs.empty()) return answers;
  std::vector<store::Key> keys;
  for (const std::string& run : runs) keys.push_back(run_key(run));
  for (const Got& stored : get(std::move(keys))) {
    if (!stored || !*stored) {
      answers.push_back(stored ? Result<std::optional<KnownRun>>(std::optional<KnownRun>{})
                               : stored.error());
      continue;
    }
    auto known = run_of(**stored);
    answers.push_back(known ? Result<std::optional<KnownRun>>(std::optional(std::move(*known)))
                            : known.error());
  }
  return answers;
}

Result<void> RunStore::each_run(Which which, const LookAtRun& look, const Unreadable& unreadable,
                                const WantRun& wanted) {
  return each_value(
      {.prefix = {"run"}, .lasting = which == Which::open},
      [&](const store::Key& key, const store::Value& value) -> Result<bool> {
        if (wanted && !wanted(key.back())) return true;
        const auto known = run_of(value);
        if (known) return look(*known);
        unreadable(key.back(), known.error());
        return true;
      },
      [&](const store::Key& key, const Error& why) {
        if (!wanted || wanted(key.back())) unreadable(key.back(), why);
      });
}

// First looks at the run that was active at the last call, because it mostly still is.
Result<bool> RunStore::any_active() {
  std::string last;
  {
    const std::lock_guard lock(mutex_);
    last = active_;
  }
  if (!last.empty()) {
    const auto still = active(std::span(&last, 1));
    if (!still || still->front()) return still ? Result<bool>(true) : still.error();
    last.clear();
  }
  const auto read = each_run(
      Which::open,
      [&](const KnownRun& known) -> Result<bool> {
        if (core::end_of(known.state) == nullptr) last = known.state.run;
        return last.empty();
      },
      [](const std::string&, const Error&) {});  // no runner can move it
  if (!read) return read.error();
  const std::lock_guard lock(mutex_);
  active_ = last;
  return !last.empty();
}

Result<ValueWriteResult<KnownRun>> RunStore::write(const core::RunState& state,
                                                   core::Revision expected) {
  const KnownRun run{.state = state, .revision = expected};
  const KnownRun* const one = &run;
  return std::move(write(std::span(&one, 1)).front());
}

std::vector<Result<ValueWriteResult<KnownRun>>> RunStore::write(
    std::span<const KnownRun* const> runs) {
  std::vector<store::KeyWrite> items;
  std::vector<std::size_t> sizes;
  for (const KnownRun* const run : runs) {
    auto item = run_write(*run);
    if (!item) return std::vector<Result<ValueWriteResult<KnownRun>>>(runs.size(), item.error());
    sizes.push_back(item->bytes.size());
    items.push_back(std::move(*item));
  }
  std::vector<Result<ValueWriteResult<KnownRun>>> answers;
  std::vector<Result<store::KeyWriteResult>> written = write(std::move(items));
  for (std::size_t i = 0; i < runs.size(); ++i)
    answers.push_back(run_written(runs[i]->state, sizes[i], std::move(written[i])));
  return answers;
}

Result<store::KeyWrite> RunStore::run_write(const KnownRun& run) {
  store::KeyWrite item{.key = run_key(run.state.run),
                       .expected = run.revision,
                       .bytes = encoding::encode_state(run.state)};
  if (core::over_for_good(run.state)) {
    const auto lives = kept_for();
    if (!lives) return lives.error();
    item.lives = *lives;
  }
  return item;
}

Result<ValueWriteResult<KnownRun>> RunStore::run_written(const core::RunState& state,
                                                         std::size_t size,
                                                         Result<store::KeyWriteResult> written) {
  if (!written) return written.error();
  ValueWriteResult<KnownRun> answer{.written = written->written};
  if (answer.written) remember(state, written->revision, size);
  if (answer.written || !written->current) return answer;
  auto known = run_of(*written->current);
  if (!known) return known.error();
  answer.current = std::move(*known);
  return answer;
}

std::optional<KnownRun> RunStore::recall(std::string_view run) {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(run);
  return found == runs_.end() ? std::nullopt : std::optional(found->second);
}

// Remembers only a bounded number of small, active runs. So a runner's memory stays bounded.
void RunStore::remember(const core::RunState& state, core::Revision revision, std::size_t size) {
  const bool worth_it = core::end_of(state) == nullptr && size <= kMostRemembered;
  const std::lock_guard lock(mutex_);
  if (!worth_it) {
    runs_.erase(state.run);
    return;
  }
  const auto [place, is_new] = runs_.try_emplace(state.run);
  if (!is_new && place->second.revision > revision) return;
  place->second = {.state = state, .revision = revision};
  if (!is_new) return;
  remembered_.push_back(state.run);
  while (remembered_.size() > kRunsRemembered) {
    runs_.erase(remembered_.front());
    remembered_.pop_front();
  }
}

Result<std::optional<StartKey>> RunStore::key(std::string_view workflow, std::string_view key) {
  const auto stored = get(start_key(workflow, key));
  if (!stored) return stored.error();
  if (!*stored) return std::optional<StartKey>{};
  auto known = key_of(key, **stored);
  if (!known) return known.error();
  return std::optional<StartKey>(std::move(*known));
}

Result<store::KeyWrite> RunStore::key_write(std::string_view workflow, std::string_view key,
                                            StartKey next, core::Revision expected) {
  store::KeyWrite item{.key = start_key(workflow, key), .expected = expected};
  if (next.ended) {
    const auto lives = kept_for();
    if (!lives) return lives.error();
    item.lives = *lives;
    next.ended = store_.now();
  }
  item.bytes = text_of(next);
  return item;
}

Result<ValueWriteResult<StartKey>> RunStore::write(std::string_view workflow, std::string_view key,
                                                   const StartKey& next, core::Revision expected) {
  auto item = key_write(workflow, key, next, expected);
  if (!item) return item.error();
  const auto written = write(std::move(*item));
  if (!written) return written.error();
  ValueWriteResult<StartKey> answer{.written = written->written};
  if (answer.written || !written->current) return answer;
  auto known = key_of(key, *written->current);
  if (!known) return known.error();
  answer.written = known->run == next.run && known->ended.has_value() == next.ended.has_value();
  if (!answer.written) answer.current = std::move(*known);
  return answer;
}

Result<void> RunStore::free_key(std::string_view workflow, std::string_view key,
                                core::Revision revision) {
  const auto removed = values_.remove(start_key(workflow, key), revision);
  if (!removed) return removed.error();
  return {};
}

Result<RunStore::OpenStarts> RunStore::open_starts(const std::string& after) {
  auto page = values_.list({.prefix = {"key"}, .lasting = true, .after = after});
  if (!page) return page.error();
  OpenStarts open{.starts = {}, .next = std::move(page->next)};
  for (auto& [key, value] : page->values) {
    if (key.size() != 3) continue;
    auto given = key_of(key[2], value);
    if (!given) continue;  // a start with this key returns the error
    open.starts.push_back({.workflow = std::move(key[1]),
                           .key = std::move(key[2]),
                           .given = std::move(*given),
                           .since = value.stamp});
  }
  return open;
}

// Two runners may call this at the same time, one for an end and one for a retry, and either may be
// late. So the key's value follows the run's value, which is read before the write and again after
// it.
Result<void> RunStore::settle_key(const core::RunState& state) {
  const core::RunState* const one = &state;
  return std::move(settle_keys(std::span(&one, 1)).front());
}

std::vector<Result<void>> RunStore::settle_keys(std::span<const core::RunState* const> runs) {
  std::vector<Result<void>> answers(runs.size());
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (runs[i]->key) open.push_back(i);
  for (int tries = 0; tries < kSwapTries && !open.empty(); ++tries) {
    std::vector<store::Key> keys;
    for (const std::size_t i : open) {
      keys.push_back(start_key(runs[i]->workflow, *runs[i]->key));
      keys.push_back(run_key(runs[i]->run));
    }
    const auto found = get(std::move(keys));
    std::vector<std::size_t> writing;
    std::vector<store::KeyWrite> writes;
    for (std::size_t at = 0; at < open.size(); ++at) {
      auto next = key_write(*runs[open[at]], found[2 * at], found[2 * at + 1]);
      if (!next) answers[open[at]] = next.error();
      if (!next || !*next) continue;
      writing.push_back(open[at]);
      writes.push_back(std::move(**next));
    }
    open.clear();
    if (writes.empty()) return answers;
    const auto written = write(std::move(writes));
    for (std::size_t at = 0; at < writing.size(); ++at) {
      if (!written[at]) answers[writing[at]] = written[at].error();
      if (written[at]) open.push_back(writing[at]);
    }
  }
  for (const std::size_t i : open) answers[i] = busy("the key of run '" + runs[i]->run + "'");
  return answers;
}

Result<std::optional<store::KeyWrite>> RunStore::key_write(const core::RunState& state,
                                                           const Got& key, const Got& run) {
  using Answer = std::optional<store::KeyWrite>;
  if (!key) return key.error();
  if (!run) return run.error();
  if (!*key) return Answer{};
  auto known = key_of(*state.key, **key);
  if (!known) return known.error();
  if (known->run != state.run) return Answer{};
  bool ended = !*run;
  if (!ended) {
    const auto read = run_of(**run);
    if (!read) return read.error();
    ended = core::end_of(read->state) != nullptr;
  }
  if (known->ended.has_value() == ended) return Answer{};
  StartKey next = *known;
  next.ended.reset();
  if (ended) next.ended.emplace();
  auto item = key_write(state.workflow, *state.key, std::move(next), known->revision);
  if (!item) return item.error();
  return Answer(std::move(*item));
}

// --- Values and notes -------------------------------------------------------------------------

std::string RunStore::value_key(std::string_view run, std::string_view step, std::uint32_t n) {
  return core::step_id(run, step) + '.' + std::to_string(n);
}

std::string RunStore::output_key(std::string_view run, std::uint32_t round) {
  return std::string(run) + ".ended." + std::to_string(round);
}

Result<void> RunStore::put_value(std::string_view key, std::string json) {
  const auto written = write({.key = kept_value(std::string(key)), .bytes = std::move(json)});
  if (!written) return written.error();
  return {};
}

Result<std::optional<std::string>> RunStore::value(std::string_view key) {
  auto stored = get(kept_value(std::string(key)));
  if (!stored) return stored.error();
  if (!*stored) return std::optional<std::string>{};
  return std::optional(std::move((*stored)->bytes));
}

Result<core::RunState> RunStore::whole(core::RunState state) {
  return fill_in(std::move(state), [](std::string_view) { return true; });
}

Result<core::RunState> RunStore::with_outputs(core::RunState state,
                                              const std::set<std::string>& steps) {
  return fill_in(std::move(state),
                 [&](std::string_view step) { return steps.contains(std::string(step)); });
}

Result<core::RunState> RunStore::with_judged_outputs(const core::FlowDefinition& definition,
                                                     core::RunState state) {
  std::set<std::string> looked_at;
  for (const core::FlowStep& step : definition.steps)
    if (!step.skip_if.empty()) encoding::add_steps_of(step.skip_if, looked_at);
  return with_outputs(std::move(state), looked_at);
}

// An output of an ended run may expire shortly before the run's value does.
Result<core::RunState> RunStore::fill_in(core::RunState state, const Wanted& wanted) {
  std::vector<store::Key> keys;
  std::vector<std::string*> values;
  each_elsewhere(state, [&](std::string key, const std::string& step, std::string& value) {
    if (!wanted(step) || !value.empty()) return;
    keys.push_back(kept_value(std::move(key)));
    values.push_back(&value);
  });
  if (keys.empty()) return state;
  auto found = get(keys);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) return found[i].error();
    if (*found[i])
      *values[i] = std::move((*found[i])->bytes);
    else if (core::end_of(state) != nullptr)
      *values[i] = "null";
    else
      return damaged("the output '" + keys[i][1] + "', which should be kept with its run,");
  }
  return state;
}

Result<void> RunStore::settle_value(std::string_view key) {
  return settle_values({kept_value(std::string(key))});
}

Result<void> RunStore::settle_values(const core::RunState& state) {
  std::vector<store::Key> keys;
  each_elsewhere(state, [&](std::string key, const std::string&, const std::string&) {
    keys.push_back(kept_value(std::move(key)));
  });
  // A runner that saw the run complete may have stored its output, and then another end counted.
  for (const auto& [number, round] : state.rounds)
    if (round.ended && round.ended->outcome != core::RunOutcome::completed)
      keys.push_back(kept_value(output_key(state.run, number)));
  return settle_values(std::move(keys));
}

Result<void> RunStore::settle_values(std::vector<store::Key> keys) {
  if (keys.empty()) return {};
  const auto lives = kept_for();
  if (!lives) return lives.error();
  auto found = get(keys);
  std::vector<store::KeyWrite> writes;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) return found[i].error();
    if (!*found[i] || (*found[i])->lives) continue;
    writes.push_back({.key = std::move(keys[i]),
                      .expected = (*found[i])->revision,
                      .bytes = std::move((*found[i])->bytes),
                      .lives = *lives});
  }
  if (writes.empty()) return {};
  for (const auto& written : writes_.submit(std::move(writes)))
    if (!written) return written.error();
  return {};
}

Result<void> RunStore::keep_longer(Duration lives) {
  for (const char* kind : {"run", "key", "value"}) {
    store::KeyList query{.prefix = {kind}};
    do {
      auto page = values_.list(query);
      if (!page) return page.error();
      std::vector<store::KeyWrite> writes;
      for (auto& [key, value] : page->values)
        if (value.lives && *value.lives < lives)
          writes.push_back({.key = std::move(key),
                            .expected = value.revision,
                            .bytes = std::move(value.bytes),
                            .lives = lives});
      // A value that another process replaced meanwhile has the new age, or does not expire.
      if (!writes.empty())
        for (const auto& written : writes_.submit(std::move(writes)))
          if (!written) return written.error();
      query.after = std::move(page->next);
    } while (!query.after.empty());
  }
  return {};
}

Result<std::optional<FlowNote>> RunStore::note(std::string_view name) {
  auto stored = get(note_key(name));
  if (!stored) return stored.error();
  if (!*stored) return std::optional<FlowNote>{};
  return std::optional(
      FlowNote{.json = std::move((*stored)->bytes), .revision = (*stored)->revision});
}

Result<bool> RunStore::write_note(std::string_view name, std::string json,
                                  core::Revision expected) {
  const auto written =
      write({.key = note_key(name), .expected = expected, .bytes = std::move(json)});
  if (!written) return written.error();
  return written->written;
}

Result<std::vector<bool>> RunStore::active(std::span<const std::string> runs) {
  return of_each(runs, [](const store::Value& value) -> Result<bool> {
    const auto run = run_of(value);
    if (!run) return run.error();
    return core::end_of(run->state) == nullptr;
  });
}

Result<std::vector<bool>> RunStore::known(std::span<const std::string> runs) {
  return of_each(runs, [](const store::Value&) -> Result<bool> { return true; });
}

template <class Is>
Result<std::vector<bool>> RunStore::of_each(std::span<const std::string> runs, Is is) {
  std::vector<store::Key> keys;
  for (const std::string& run : runs) keys.push_back(run_key(run));
  std::vector<bool> answers;
  if (keys.empty()) return answers;
  for (const Got& got : get(std::move(keys))) {
    if (!got) return got.error();
    const Result<bool> so = *got ? is(**got) : Result<bool>(false);
    if (!so) return so.error();
    answers.push_back(*so);
  }
  return answers;
}

// --- Calls of the store -----------------------------------------------------------------------

RunStore::Got RunStore::get(store::Key key) {
  std::vector<store::Key> one;
  one.push_back(std::move(key));
  return std::move(gets_.submit(std::move(one)).front());
}

Result<store::KeyWriteResult> RunStore::write(store::KeyWrite item) {
  std::vector<store::KeyWrite> one;
  one.push_back(std::move(item));
  return std::move(write(std::move(one)).front());
}

std::vector<Result<store::KeyWriteResult>> RunStore::write(std::vector<store::KeyWrite> items) {
  std::vector<Result<store::KeyWriteResult>> answers = writes_.submit(items);
  for (std::size_t i = 0; i < items.size(); ++i)
    if (!answers[i] && answers[i].error().in_doubt)
      answers[i] = find_out(items[i], std::move(answers[i]));
  return answers;
}

Result<store::KeyWriteResult> RunStore::find_out(const store::KeyWrite& item,
                                                 Result<store::KeyWriteResult> written) {
  for (int round = 1;; ++round) {
    if (round > 1) written = std::move(writes_.submit({item}).front());
    if (!written && !written.error().in_doubt) return written;
    if (written && (written->written || round == 1)) return written;
    auto there = written ? Got(std::move(written->current)) : get(item.key);
    if (!there) return written;  // the write stays in doubt
    const core::Revision revision = *there ? (*there)->revision : core::Revision{};
    if (revision == item.expected) {
      // The write was lost, or may still arrive. The same write is sent again. One of the two
      // succeeds.
      if (round == kWrites) return written;
      continue;
    }
    if (*there && (*there)->bytes == item.bytes && (*there)->lives == item.lives)
      return store::KeyWriteResult{.written = true, .revision = revision};
    return store::KeyWriteResult{.written = false, .revision = {}, .current = std::move(*there)};
  }
}

Result<void> RunStore::each_value(store::KeyList query, const LookAtValue& look,
                                  const DamagedValue& unreadable) {
  do {
    auto page = values_.list(query);
    if (!page) return page.error();
    for (const auto& [key, why] : page->unreadable) {
      if (!unreadable) return why;
      unreadable(key, why);
    }
    for (const auto& [key, value] : page->values) {
      const auto more = look(key, value);
      if (!more) return more.error();
      if (!*more) return {};
    }
    query.after = std::move(page->next);
  } while (!query.after.empty());
  return {};
}

Result<Duration> RunStore::kept_for() {
  const Moment now = scheduler_.now();
  {
    const std::lock_guard lock(mutex_);
    if (kept_for_ && now - kept_for_read_ < kNewestFor) return *kept_for_;
  }
  const auto ages = store_.retention();
  if (!ages) return ages.error();
  const std::lock_guard lock(mutex_);
  kept_for_ = ages->records;
  kept_for_read_ = now;
  return ages->records;
}

}  // namespace once::engine
