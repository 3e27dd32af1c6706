#include "flow/starter.h"

#include <algorithm>

#include "codec/digest.h"
#include "codec/stored_body.h"
#include "core/words.h"
#include "flow/definition/input.h"
#include "json/kept_json.h"

namespace once::engine {
namespace {

using namespace std::chrono_literals;

constexpr int kStartTries = 64;
constexpr std::size_t kMostInput = 256 << 10;  // the input is part of the run's value
constexpr Duration kLeftBehind = 10min;        // longer than any start takes

// 48 bits of time and 80 random bits in Crockford's alphabet. So ids sort by their time, and no id
// can be guessed.
std::string ulid(Time now, Scheduler& scheduler) {
  constexpr std::string_view kDigits = "0123456789abcdefghjkmnpqrstvwxyz";
  constexpr std::size_t kTimeDigits = 10;
  std::string text(26, '0');
  auto ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count());
  for (std::size_t i = kTimeDigits; i-- > 0; ms >>= 5) text[i] = kDigits[ms & 31];
  std::uint8_t chance[16];
  scheduler.random_bytes(chance, sizeof chance);
  for (std::size_t i = kTimeDigits; i < text.size(); ++i)
    text[i] = kDigits[chance[i - kTimeDigits] & 31];
  return text;
}

Result<std::string> kept_input(const Body& input) {
  const auto refused = [](Code code, const std::string& why) {
    return Error{.code = code, .message = why + "; nothing was started"};
  };
  if (!input.is_json()) return refused(Code::invalid_input, "the input of a run must be JSON");
  const auto json = encoding::parse_json(input.text());
  if (!json) return refused(Code::invalid_input, json.error().message);
  std::string text = encoding::kept(*json);
  if (text.size() > kMostInput)
    return refused(Code::too_large, "the input of a run is at most " + core::size_text(kMostInput) +
                                        ", this is " + core::size_text(text.size()) +
                                        ": keep it elsewhere, and pass where it is");
  return text;
}

Error other_input(const core::FlowDefinition& definition, const std::string& key,
                  const StartKey& known, const std::string& input, bool failed) {
  auto conflict = std::make_shared<Conflict>();
  conflict->id = known.run;
  conflict->key = key;
  conflict->differs =
      encoding::differing({}, StoredBody::json(known.input), {}, StoredBody::json(input));
  std::string where;
  for (const std::string& path : *conflict->differs) where += (where.empty() ? "" : ", ") + path;
  return {.code = Code::conflicting_duplicate,
          .message = "the key '" + key + "' of workflow '" + definition.name + "' has run '" +
                     known.run + "' with another input (" + where + "); nothing was started" +
                     (failed ? ". That run has failed: a retry lets it go on if the failed step "
                               "can run again"
                             : ""),
          .conflict = std::move(conflict),
          .reason = failed ? Reason::run_failed : Reason::none,
          .facts = {{"run", known.run}}};
}

// Whether the store would refuse every later try too.
bool refused_for_good(const Error& error) {
  return !error.in_doubt && !error.retryable &&
         (error.code == Code::too_large || error.code == Code::invalid_input);
}

core::FlowEvent started_event(std::string run, std::string workflow, std::uint32_t version,
                              std::optional<std::string> key, std::string input) {
  core::FlowEvent event;
  event.kind = core::FlowEvent::Kind::started;
  event.run = std::move(run);
  event.workflow = std::move(workflow);
  event.version = version;
  event.key = std::move(key);
  event.value = std::move(input);
  return event;
}

}  // namespace

std::string FlowStarter::new_run(std::string_view workflow) {
  return std::string(workflow) + '-' + ulid(store_.wall(), scheduler_);
}

Result<RunStarted> FlowStarter::start(const RunStart& start) {
  auto definition = run_store_.to_start(start.workflow, start.version);
  if (!definition) return definition.error();
  auto input = kept_input(start.input);
  if (!input) return input.error();
  std::optional<std::string> key;
  if (!start.unique) {
    auto made = encoding::run_key(**definition, start.input);
    if (made)
      key = std::move(*made);
    else if (!(*definition)->unprotected)
      return made.error();
  }
  const std::string name = (*definition)->name;
  // An event that cannot be encoded is refused before the key's value is written.
  const auto fits =
      EventLog::check(started_event(new_run(name), name, (*definition)->version, key, *input));
  if (!fits)
    return Error{.code = fits.error().code,
                 .message = fits.error().message + "; nothing was started"};
  RunStarted given{.run = {}, .duplicate = false, .version = (*definition)->version};
  if (key) {
    auto claimed = claim(**definition, *key, *input);
    if (!claimed) return claimed.error();
    given = std::move(*claimed);
  } else {
    given.run = new_run(name);
  }
  const bool has_key = key.has_value();
  auto begun =
      begin(started_event(given.run, name, given.version, std::move(key), std::move(*input)),
            given.duplicate);
  if (!begun) {
    // The key's value names the run, so a later start or a runner will begin it.
    Error error = begun.error();
    error.in_doubt = error.in_doubt || (has_key && !refused_for_good(error));
    return error;
  }
  return given;
}

// Returns the key's run. It is a new run if the key has none, or if its last run ended longer than
// key_ttl ago.
Result<RunStarted> FlowStarter::claim(const core::FlowDefinition& definition,
                                      const std::string& key, const std::string& input) {
  const StartKey mine{
      .run = new_run(definition.name), .version = definition.version, .input = input};
  core::Revision expected{};
  for (int tries = 0; tries < kStartTries; ++tries) {
    auto written = run_store_.write(definition.name, key, mine, expected);
    if (!written) return written.error();
    if (written->written)
      return RunStarted{.run = mine.run, .duplicate = false, .version = mine.version};
    expected = {};
    if (!written->current) continue;  // the value expired meanwhile
    const StartKey& known = *written->current;
    if (known.ended && store_.now() >= *known.ended + definition.key_ttl) {
      expected = known.revision;
      continue;
    }
    if (known.input == input)
      return RunStarted{.run = known.run, .duplicate = true, .version = known.version};
    return other_input(definition, key, known, input, has_failed(known));
  }
  return Error{.code = Code::store_unavailable,
               .message = "others keep writing the key '" + key + "' of workflow '" +
                          definition.name + "'; nothing was started: start it again",
               .retryable = true};
}

// The run's value is written after the event. So a run that has a value has begun.
Result<void> FlowStarter::begin(core::FlowEvent started, bool look) {
  if (look) {
    auto known = run_store_.run(started.run);
    if (!known) return known.error();
    if (*known) return {};
  }
  auto appended = log_.append(EventLog::entry_of(started));
  if (!appended)
    return refused_for_good(appended.error()) ? give_back(started, appended.error())
                                              : Result<void>(appended.error());
  if (appended->verdict == core::AppendVerdict::conflict)
    return Error{.code = Code::failed,
                 .message = "the id '" + core::event_id(started) +
                            "' has other content in the log: run '" + started.run +
                            "' cannot begin",
                 .reason = Reason::run_cannot_begin,
                 .facts = {{"run", started.run}, {"event", core::event_id(started)}}};
  // If the event was in the log before, a runner has handled it or will handle it.
  if (appended->verdict == core::AppendVerdict::duplicate) return settle_forgotten(started);
  started.sequence = appended->sequence;
  started.at = store_.wall();
  core::RunState state;
  core::fold(state, started);
  // So people can see the run before a runner handles the event. If this write fails, a runner
  // writes the value.
  static_cast<void>(run_store_.write(state, {}));
  return {};
}

Result<void> FlowStarter::give_back(const core::FlowEvent& started, const Error& refused) {
  const auto there = log_.find(core::event_id(started));
  if (!there) return there.error();
  if (*there) return {};
  Error error{.code = refused.code,
              .message = "run '" + started.run + "' of workflow '" + started.workflow +
                         "' cannot begin: " + refused.message + "; nothing was started"};
  if (!started.key) return error;
  const auto known = run_store_.key(started.workflow, *started.key);
  if (!known) return known.error();
  if (!*known || (*known)->run != started.run) return error;
  // Another starter may have freed the key already. That is fine.
  if (auto freed = run_store_.free_key(started.workflow, *started.key, (*known)->revision); !freed)
    return freed.error();
  return error;
}

Result<void> FlowStarter::settle_forgotten(const core::FlowEvent& started) {
  if (!started.key) return {};
  const auto handled = log_.handled(core::event_id(started));
  if (!handled) return handled.error();
  if (!*handled) return {};
  core::RunState state;
  core::fold(state, started);
  return run_store_.settle_key(state);
}

bool FlowStarter::has_failed(const StartKey& known) {
  if (!known.ended) return false;
  const auto run = run_store_.run(known.run);
  return run && *run && core::failed((*run)->state);
}

Result<void> FlowStarter::finish_starts(const std::function<bool()>& ended) {
  std::string after;
  while (!ended()) {
    auto page = run_store_.open_starts(after);
    if (!page) return page.error();
    std::vector<OpenStart> left;
    std::vector<std::string> runs;
    for (OpenStart& open : page->starts) {
      if (open.since + kLeftBehind > store_.now()) continue;
      runs.push_back(open.given.run);
      left.push_back(std::move(open));
    }
    const auto begun_before = run_store_.known(runs);
    if (!begun_before) return begun_before.error();
    for (std::size_t i = 0; i < left.size(); ++i) {
      if ((*begun_before)[i]) continue;
      OpenStart& open = left[i];
      auto begun = begin(started_event(open.given.run, open.workflow, open.given.version,
                                       std::move(open.key), std::move(open.given.input)),
                         true);
      if (!begun && begun.error().retryable) return begun.error();
    }
    if (page->next.empty()) break;
    after = std::move(page->next);
  }
  return {};
}

}  // namespace once::engine
