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
#include "json/utf8.h"

namespace once::engine {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBatch = 1024;
constexpr std::size_t kPage = 100;
constexpr std::size_t kLargePage = 20'000;  // a store may have to read all for each
constexpr auto kNewestFor = 1s;
// The mark of a definition that was removed.
constexpr std::string_view kRemoved = "removed";
constexpr int kTries = 64;  // to write over what was read
constexpr std::size_t kRunsRemembered = 4096;
constexpr std::size_t kMostRemembered = 4 << 10;  // bytes of one

std::vector<Queue> own_queues() {
  std::vector<Queue> all;
  // Whatever is done for an event can be done twice: it may be claimed ahead, and tried for ever.
  all.push_back({.name = std::string(core::kFlowQueue),
                 .topic = "$once.flow.>",
                 .lease = 30s,
                 .attempts = 1'000'000,
                 .backoff = {200ms, 1s, 5s, 30s},
                 .in_doubt = InDoubt::retry,
                 .window = 64});
  for (const std::string_view name :
       {core::kFlowsLedger, core::kRunsLedger, core::kKeysLedger, core::kValuesLedger})
    all.push_back({.name = std::string(name), .ledger = true});
  return all;
}

// A person may have set the rest.
bool serves(const Queue& existing, const Queue& wanted) {
  return existing.topic == wanted.topic && existing.key == wanted.key && !existing.from &&
         existing.stream.empty() && existing.ledger == wanted.ledger;
}

store::Address at(std::string_view ledger, std::string key) {
  return {.queue = std::string(ledger), .key = std::move(key)};
}

std::string start_key(std::string_view workflow, std::string_view key) {
  return std::string(workflow) + ":" + std::string(key);
}

Error damaged(const std::string& what) {
  return {.code = Code::store_unusable,
          .message = what +
                     " cannot be read: it was damaged, or written by a newer version of "
                     "once; nothing was done"};
}

Result<KnownRun> run_of(const std::string& run, const core::Stored& stored) {
  if (!stored.record.result) return damaged("the record of run '" + run + "'");
  auto state = encoding::decode_state(stored.record.result->text());
  if (!state) return state.error();
  return KnownRun{.state = std::move(*state), .revision = stored.revision};
}

Result<StartKey> key_of(const std::string& key, const core::Stored& stored) {
  const auto json = encoding::parse_json(stored.record.result ? stored.record.result->text() : "");
  if (!json) return damaged("the record of the key '" + key + "'");
  StartKey known{.revision = stored.revision};
  encoding::ObjectReader reader(*json);
  reader.string("input", known.input);
  reader.string("run", known.run);
  reader.number("version", 1, known.version);
  if (!reader.misfit().empty()) return damaged("the record of the key '" + key + "'");
  if (core::settled(stored.record.state)) known.ended = stored.stamp;
  return known;
}

// Something that is kept as long as its run goes on, and ages from its end.
core::Record kept_record(std::string json, bool ended, Time now) {
  core::Record record{.result = StoredBody::json(std::move(json)), .since = now};
  if (!ended) return record;
  record.state = State::completed;
  record.claims = 1;
  record.attempts.push_back(
      {.number = 1, .started_at = now, .ended_at = now, .ending = core::Ending::completed});
  return record;
}

core::Record key_record(const StartKey& key, Time now) {
  encoding::ObjectText json;
  json.string("input", key.input);
  json.string("run", key.run);
  json.number("version", key.version);
  return kept_record(std::move(json).take(), key.ended.has_value(), now);
}

// Calls with the key of each output that lies elsewhere, its step (empty: the run's own), and the value
// that is empty in its stead.
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

store::Address note_at(std::string_view name) {
  return {.kind = store::Address::Kind::lone,
          .queue = std::string(core::kFlowQueue),
          .key = std::string(name)};
}

Error busy(std::string_view what) {
  return {.code = Code::store_unavailable,
          .message = "others keep writing " + std::string(what) + "; it is tried again",
          .retryable = true};
}

State state_after(core::RunOutcome outcome) {
  switch (outcome) {
    case core::RunOutcome::completed: return State::completed;
    case core::RunOutcome::cancelled: return State::cancelled;
    case core::RunOutcome::failed:
    case core::RunOutcome::timed_out: break;
  }
  return State::dead;
}

core::Ending ending_of(core::RunOutcome outcome) {
  switch (outcome) {
    case core::RunOutcome::completed: return core::Ending::completed;
    case core::RunOutcome::cancelled: return core::Ending::failed;
    case core::RunOutcome::failed:
    case core::RunOutcome::timed_out: break;
  }
  return core::Ending::dead;
}

template <class T>
void keep_last(std::vector<T>& all, std::size_t most) {
  if (all.size() > most) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(most));
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

core::Record run_record(const core::RunState& state) {
  core::Record record{.result = StoredBody::json(encoding::encode_state(state)),
                      .since = state.started_at};
  for (const auto& [number, round] : state.rounds) {
    if (number > 1 && round.sequence) {
      ++record.deeds;
      record.story.push_back({.act = core::Deed::Act::retried, .at = round.at});
      record.since = round.at;
    }
    if (!round.ended) {
      record.state = State::waiting;
      continue;
    }
    const core::EndFact& end = *round.ended;
    if (number > 1 && !round.sequence) {  // closed: nobody had it run again
      ++record.deeds;
      record.story.push_back({.act = core::Deed::Act::dropped, .at = end.at});
      record.state = State::cancelled;
      record.since = end.at;
      continue;
    }
    ++record.claims;
    record.state = state_after(end.outcome);
    record.error = encoding::excerpt(end.error, core::kErrorKept);
    record.since = end.at;
    record.attempts.push_back({.number = number,
                               .started_at = number == 1 ? state.started_at : round.at,
                               .ended_at = end.at,
                               .ending = ending_of(end.outcome),
                               .error = record.error});
  }
  record.counted = record.claims;
  keep_last(record.attempts, core::kAttemptsKept);
  keep_last(record.story, core::kDeedsKept);
  return record;
}

RunStore::RunStore(store::Store& store, Scheduler& scheduler)
    : store_(store),
      scheduler_(scheduler),
      gets_(scheduler, kBatch, [this](const auto& items) { return store_.get(items); }),
      swaps_(scheduler, kBatch, [this](const auto& items) { return store_.swap(items); }) {}

Result<void> RunStore::make_queues() {
  const auto there = store_.queues();
  if (!there) return there.error();
  for (const Queue& wanted : own_queues()) {
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
    if (!serves(existing, wanted))
      return Error{.code = Code::queue_mismatch,
                   .message = "there is a queue '" + wanted.name +
                              "' that is not one of Once's own: workflows need that name, and "
                              "nothing was done. Use a zone without such a queue."};
  }
  return {};
}

// It ages like the key of a run that ended.
StartKey nobodys_key() { return {.version = 1, .ended = core::StoreTime{}}; }

// --- Definitions ------------------------------------------------------------------------------

// A key is the workflow's, whatever the version: all its versions have one format.
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
  const std::string key = encoding::definition_key(given.name, given.version);
  auto swapped =
      swap({.at = at(core::kFlowsLedger, key),
            .record = {.result = StoredBody::json(parsed.canonical), .since = store_.wall()}});
  if (!swapped) return swapped.error();
  {
    const std::lock_guard lock(mutex_);
    newest_.erase(given.name);
  }
  if (swapped->written) return true;
  const auto& current = swapped->current;
  if (!current || !current->record.result) return damaged("the definition of '" + key + "'");
  // What is left out, or written in another way, means the same.
  const auto there = encoding::parse_kept(current->record.result->text());
  if (!there) return damaged("the definition of '" + key + "'");
  auto differs = encoding::differing({}, StoredBody::json(encoding::meaning_of(there->definition)),
                                     {}, StoredBody::json(encoding::meaning_of(given)));
  if (differs.empty() && current->record.reason == kRemoved) {
    core::Record again = current->record;
    again.reason.clear();
    const auto restored = swap({.at = at(core::kFlowsLedger, key),
                                .expected = current->revision,
                                .record = std::move(again)});
    if (!restored) return restored.error();
    return restored->written;
  }
  if (differs.empty()) return false;
  const auto last = newest(given.name);
  return another_definition(given, std::move(differs),
                            (last ? (*last)->version : given.version) + 1);
}

// A definition stays for the runs that began with it. So removing it is a mark on its record.
Result<void> RunStore::remove(std::string_view name, std::uint32_t version) {
  if (auto ok = core::check_name(name, "workflow"); !ok) return ok.error();
  const store::Address where = at(core::kFlowsLedger, encoding::definition_key(name, version));
  const auto stored = get(where);
  if (!stored) return stored.error();
  if (!*stored || (*stored)->record.reason == kRemoved) return no_workflow(name, version);
  core::Record record = (*stored)->record;
  record.reason = std::string(kRemoved);
  const auto swapped =
      swap({.at = where, .expected = (*stored)->revision, .record = std::move(record)});
  if (!swapped) return swapped.error();
  const std::lock_guard lock(mutex_);
  newest_.erase(std::string(name));
  return {};
}

Result<FlowDefinitionRef> RunStore::to_start(std::string_view name, std::uint32_t version) {
  if (version == 0) return newest(name);
  const auto stored = get(at(core::kFlowsLedger, encoding::definition_key(name, version)));
  if (stored && *stored && (*stored)->record.reason == kRemoved) return no_workflow(name, version);
  return definition(name, version);
}

Result<FlowDefinitionRef> RunStore::definition(std::string_view name, std::uint32_t version) {
  if (auto ok = core::check_name(name, "workflow"); !ok) return ok.error();
  auto known = definition(encoding::definition_key(name, version));
  if (!known && known.error().code == Code::not_found) return no_workflow(name, version);
  return known;
}

Error RunStore::no_workflow(std::string_view name, std::optional<std::uint32_t> version) {
  std::vector<std::string_view> names;
  const auto all = definitions();
  if (all)
    for (const FlowDefinitionRef& each : *all) names.push_back(each->name);
  const auto meant = core::nearest(name, names);
  return {.code = Code::not_found,
          .message = "there is no workflow '" + std::string(name) + "'" +
                     (version ? " of version " + std::to_string(*version) : "") +
                     (meant && *meant != name ? "; did you mean '" + std::string(*meant) + "'?"
                                              : "; add it with 'once flow add FILE',") +
                     " 'once flow list' shows those that are there"};
}

// Once read it is known for ever: a definition does not change.
Result<FlowDefinitionRef> RunStore::definition(const std::string& key) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = definitions_.find(key); known != definitions_.end())
      return known->second;
  }
  const auto json = read_definition(key);
  if (!json) return json.error();
  auto parsed = encoding::parse_kept(*json);
  if (!parsed) return damaged("the definition of '" + key + "'");
  auto made = std::make_shared<const core::FlowDefinition>(std::move(parsed->definition));
  const std::lock_guard lock(mutex_);
  return definitions_.emplace(key, std::move(made)).first->second;
}

Result<std::string> RunStore::read_definition(const std::string& key) {
  const auto stored = get(at(core::kFlowsLedger, key));
  if (!stored) return stored.error();
  if (!*stored)
    return Error{.code = Code::not_found, .message = "there is no workflow '" + key + "'"};
  const auto& json = (*stored)->record.result;
  if (!json) return damaged("the definition of '" + key + "'");
  return std::string(json->text());
}

Result<std::string> RunStore::json_of(const core::FlowDefinition& definition) {
  return read_definition(encoding::definition_key(definition.name, definition.version));
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
  std::vector<FlowDefinitionRef> all;
  store::Row last;
  last.queue = core::kFlowsLedger;
  if (!name.empty()) last.key = encoding::definition_key(name, 0);
  const std::string mine = std::string(name) + "@";
  while (true) {
    auto page = store_.rows({.queue = last.queue}, &last, kPage);
    if (!page) return page.error();
    for (const store::Row& row : page->rows) {
      if (!name.empty() && !row.key.starts_with(mine)) return all;
      if (row.stored && row.stored->record.reason == kRemoved) continue;
      auto known = definition(row.key);
      if (!known) return known.error();
      all.push_back(std::move(*known));
    }
    if (!page->more || page->rows.empty()) return all;
    last = std::move(page->rows.back());
  }
}

// --- Runs and keys ----------------------------------------------------------------------------

Result<std::optional<KnownRun>> RunStore::run(std::string_view run) {
  const std::string name(run);
  const auto stored = get(at(core::kRunsLedger, name));
  if (!stored) return stored.error();
  if (!*stored) return std::optional<KnownRun>{};
  auto known = run_of(name, **stored);
  if (!known) return known.error();
  return std::optional<KnownRun>(std::move(*known));
}

Result<BookWrite<KnownRun>> RunStore::write(const core::RunState& state, core::Revision expected) {
  auto swapped = swap(
      {.at = at(core::kRunsLedger, state.run), .expected = expected, .record = run_record(state)});
  if (!swapped) return swapped.error();
  BookWrite<KnownRun> answer{.written = swapped->written};
  if (answer.written && swapped->current) remember(state, *swapped->current);
  if (answer.written || !swapped->current) return answer;
  auto known = run_of(state.run, *swapped->current);
  if (!known) return known.error();
  answer.current = std::move(*known);
  return answer;
}

std::optional<KnownRun> RunStore::recall(std::string_view run) {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(run);
  return found == runs_.end() ? std::nullopt : std::optional(found->second);
}

// Small ones that go on, and not too many: a runner's memory does not grow with its runs.
void RunStore::remember(const core::RunState& state, const core::Stored& stored) {
  const bool worth_it = !core::settled(stored.record.state) && stored.record.result &&
                        stored.record.result->text().size() <= kMostRemembered;
  const std::lock_guard lock(mutex_);
  if (!worth_it) {
    runs_.erase(state.run);
    return;
  }
  const auto [place, is_new] = runs_.try_emplace(state.run);
  if (!is_new && place->second.revision > stored.revision) return;
  place->second = {.state = state, .revision = stored.revision};
  if (!is_new) return;
  remembered_.push_back(state.run);
  while (remembered_.size() > kRunsRemembered) {
    runs_.erase(remembered_.front());
    remembered_.pop_front();
  }
}

Result<std::optional<StartKey>> RunStore::key(std::string_view workflow, std::string_view key) {
  const std::string name = start_key(workflow, key);
  const auto stored = get(at(core::kKeysLedger, name));
  if (!stored) return stored.error();
  if (!*stored) return std::optional<StartKey>{};
  auto known = key_of(name, **stored);
  if (!known) return known.error();
  return std::optional<StartKey>(std::move(*known));
}

Result<BookWrite<StartKey>> RunStore::write(std::string_view workflow, std::string_view key,
                                            const StartKey& next, core::Revision expected) {
  const std::string name = start_key(workflow, key);
  auto swapped = swap({.at = at(core::kKeysLedger, name),
                       .expected = expected,
                       .record = key_record(next, store_.wall())});
  if (!swapped) return swapped.error();
  BookWrite<StartKey> answer{.written = swapped->written};
  if (answer.written || !swapped->current) return answer;
  auto known = key_of(name, *swapped->current);
  if (!known) return known.error();
  answer.written = known->run == next.run && known->ended.has_value() == next.ended.has_value();
  if (!answer.written) answer.current = std::move(*known);
  return answer;
}

Result<RunStore::OpenStarts> RunStore::open_starts(const std::string& after) {
  store::Row last;
  last.queue = core::kKeysLedger;
  last.key = after;
  auto page = store_.rows({.queue = last.queue, .state = State::waiting},
                          after.empty() ? nullptr : &last, kLargePage);
  if (!page) return page.error();
  OpenStarts open;
  open.more = page->more && !page->rows.empty();
  for (const store::Row& row : page->rows) {
    open.last = row.key;
    const std::size_t colon = row.key.find(':');
    if (!row.stored || row.damaged || colon == std::string::npos) continue;
    auto given = key_of(row.key, *row.stored);
    if (!given) return given.error();
    open.starts.push_back({.workflow = row.key.substr(0, colon),
                           .key = row.key.substr(colon + 1),
                           .given = std::move(*given),
                           .since = row.stored->stamp});
  }
  return open;
}

// Of two who come at once, one for an end and one for a retry, each may be late: what the key is to say
// is how the run stands, looked at before the write and again after it.
Result<void> RunStore::settle_key(const core::RunState& state) {
  if (!state.key) return {};
  for (int tries = 0; tries < kTries; ++tries) {
    const std::string name = start_key(state.workflow, *state.key);
    const auto found = get({at(core::kKeysLedger, name), at(core::kRunsLedger, state.run)});
    for (const Got& got : found)
      if (!got) return got.error();
    if (!*found[0]) return {};
    auto known = key_of(name, **found[0]);
    if (!known) return known.error();
    if (known->run != state.run) return {};
    const bool ended = !*found[1] || core::settled((*found[1])->record.state);
    if (known->ended.has_value() == ended) return {};
    StartKey next = *known;
    next.ended.reset();
    if (ended) next.ended.emplace();
    if (auto written = write(state.workflow, *state.key, next, known->revision); !written)
      return written.error();
  }
  return busy("the key of run '" + state.run + "'");
}

// --- Values and notes -------------------------------------------------------------------------

std::string RunStore::value_key(std::string_view run, std::string_view step, std::uint32_t n) {
  return core::step_id(run, step) + '.' + std::to_string(n);
}

std::string RunStore::output_key(std::string_view run, std::uint32_t round) {
  return std::string(run) + ".ended." + std::to_string(round);
}

Result<void> RunStore::put_value(std::string_view key, std::string json) {
  auto swapped = swap({.at = at(core::kValuesLedger, std::string(key)),
                       .record = kept_record(std::move(json), false, store_.wall())});
  if (!swapped) return swapped.error();
  return {};
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

// Of a run that is over an output may be forgotten a little before its facts are.
Result<core::RunState> RunStore::fill_in(core::RunState state, const Wanted& wanted) {
  std::vector<store::Address> places;
  std::vector<std::string*> values;
  each_elsewhere(state, [&](std::string key, const std::string& step, std::string& value) {
    if (!wanted(step) || !value.empty()) return;
    places.push_back(at(core::kValuesLedger, std::move(key)));
    values.push_back(&value);
  });
  if (places.empty()) return state;
  auto found = get(places);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) return found[i].error();
    if (*found[i] && (*found[i])->record.result)
      *values[i] = (*found[i])->record.result->text();
    else if (core::end_of(state) != nullptr)
      *values[i] = "null";
    else
      return damaged("the output '" + places[i].key + "', which should be kept beside its run,");
  }
  return state;
}

Result<void> RunStore::settle_value(std::string_view key) {
  return settle_values({at(core::kValuesLedger, std::string(key))});
}

Result<void> RunStore::settle_values(const core::RunState& state) {
  std::vector<store::Address> places;
  each_elsewhere(state, [&](std::string key, const std::string&, const std::string&) {
    places.push_back(at(core::kValuesLedger, std::move(key)));
  });
  // Whoever saw a run complete may have put its output away before somebody else's end counted.
  for (const auto& [number, round] : state.rounds)
    if (round.ended && round.ended->outcome != core::RunOutcome::completed)
      places.push_back(at(core::kValuesLedger, output_key(state.run, number)));
  return settle_values(std::move(places));
}

Result<void> RunStore::settle_values(std::vector<store::Address> places) {
  if (places.empty()) return {};
  auto found = get(places);
  std::vector<store::Swap> writes;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) return found[i].error();
    if (!*found[i] || core::settled((*found[i])->record.state)) continue;
    const core::Stored& stored = **found[i];
    writes.push_back(
        {.at = places[i],
         .expected = stored.revision,
         .record = kept_record(std::string(stored.record.result->text()), true, store_.wall())});
  }
  if (writes.empty()) return {};
  for (const auto& swapped : swaps_.submit(std::move(writes)))
    if (!swapped) return swapped.error();
  return {};
}

Result<std::optional<FlowNote>> RunStore::note(std::string_view name) {
  const auto stored = get(note_at(name));
  if (!stored) return stored.error();
  if (!*stored || !(*stored)->record.result) return std::optional<FlowNote>{};
  return std::optional(FlowNote{.json = std::string((*stored)->record.result->text()),
                                .revision = (*stored)->revision});
}

Result<bool> RunStore::write_note(std::string_view name, std::string json,
                                  core::Revision expected) {
  auto swapped = swap({.at = note_at(name),
                       .expected = expected,
                       .record = kept_record(std::move(json), false, store_.wall())});
  if (!swapped) return swapped.error();
  return swapped->written;
}

Result<std::vector<bool>> RunStore::active(std::span<const std::string> runs) {
  return each_run(runs,
                  [](const core::Stored& stored) { return !core::settled(stored.record.state); });
}

Result<std::vector<bool>> RunStore::known(std::span<const std::string> runs) {
  return each_run(runs, [](const core::Stored&) { return true; });
}

template <class Is>
Result<std::vector<bool>> RunStore::each_run(std::span<const std::string> runs, Is is) {
  std::vector<store::Address> places;
  for (const std::string& run : runs) places.push_back(at(core::kRunsLedger, run));
  std::vector<bool> answers;
  if (places.empty()) return answers;
  for (const Got& got : get(std::move(places))) {
    if (!got) return got.error();
    answers.push_back(*got && is(**got));
  }
  return answers;
}

RunStore::Got RunStore::get(store::Address at) {
  std::vector<store::Address> one;
  one.push_back(std::move(at));
  auto got = std::move(gets_.submit(std::move(one)).front());
  // A zone that has had no workflow yet has no queues of theirs.
  if (!got && got.error().code == Code::not_found) return std::optional<core::Stored>{};
  return got;
}

Result<store::Swapped> RunStore::swap(store::Swap item) {
  auto swapped = std::move(swaps_.submit({item}).front());
  if (swapped || !swapped.error().in_doubt) return swapped;
  auto there = get(item.at);
  if (!there) return swapped;  // the error in doubt stands
  return store::Swapped{.written = *there && (*there)->record == item.record,
                        .current = std::move(*there)};
}

}  // namespace once::engine
