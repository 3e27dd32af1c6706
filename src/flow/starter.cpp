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

constexpr int kTries = 64;
constexpr std::size_t kMostInput = 256 << 10;  // it is kept with the run's facts
constexpr Duration kLeftBehind = 10min;        // longer than any start takes

// 48 bits of time and 80 of chance in Crockford's alphabet: of two runs the later sorts last, and no id
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
                  const StartKey& known, const std::string& input, const std::string& way_on) {
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
                     way_on,
          .conflict = std::move(conflict)};
}

// It would be refused the next time, too, whoever asks.
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
  auto definition = book_.to_start(start.workflow, start.version);
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
  // What cannot be said is refused before a key stands for it.
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
    // The key stands for the run: somebody begins it sooner or later.
    Error error = begun.error();
    error.in_doubt = error.in_doubt || (has_key && !refused_for_good(error));
    return error;
  }
  return given;
}

// The key's run: ours, when nobody has the key, or when the time of who had it is over.
Result<RunStarted> FlowStarter::claim(const core::FlowDefinition& definition,
                                      const std::string& key, const std::string& input) {
  const StartKey mine{
      .run = new_run(definition.name), .version = definition.version, .input = input};
  core::Revision expected{};
  for (int tries = 0; tries < kTries; ++tries) {
    auto written = book_.write(definition.name, key, mine, expected);
    if (!written) return written.error();
    if (written->written)
      return RunStarted{.run = mine.run, .duplicate = false, .version = mine.version};
    expected = {};
    if (!written->current) continue;  // it was forgotten meanwhile
    const StartKey& known = *written->current;
    if (known.run.empty() || (known.ended && store_.now() >= *known.ended + definition.key_ttl)) {
      expected = known.revision;
      continue;
    }
    if (known.input == input)
      return RunStarted{.run = known.run, .duplicate = true, .version = known.version};
    return other_input(definition, key, known, input, way_on(known));
  }
  return Error{.code = Code::store_unavailable,
               .message = "others keep writing the key '" + key + "' of workflow '" +
                          definition.name + "'; nothing was started: start it again",
               .retryable = true};
}

// Whoever finds a run that has not begun begins it. Its record comes after the event, so that who finds
// the record knows that it has begun.
Result<void> FlowStarter::begin(core::FlowEvent started, bool look) {
  if (look) {
    auto known = book_.run(started.run);
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
                            "' cannot begin. Start it with --unique, and see 'once inspect'"};
  // One that was there has its event handled, or waiting to be.
  if (appended->verdict == core::AppendVerdict::duplicate) return settle_forgotten(started);
  started.sequence = appended->sequence;
  started.at = store_.wall();
  core::RunState state;
  core::fold(state, started);
  // The run can be seen before a runner comes. One that comes first writes it, and where this fails
  // one will.
  static_cast<void>(book_.write(state, {}));
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
  const auto known = book_.key(started.workflow, *started.key);
  if (!known) return known.error();
  if (!*known || (*known)->run != started.run) return error;
  // Somebody else may have found the key and given it back; what counts is that it is free.
  if (auto freed = book_.write(started.workflow, *started.key, nobodys_key(), (*known)->revision);
      !freed)
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
  return book_.settle_key(state);
}

std::string FlowStarter::way_on(const StartKey& known) {
  if (!known.ended) return {};
  const auto run = book_.run(known.run);
  if (!run || !*run || !core::failed((*run)->state)) return {};
  return ": that run has failed, and 'once flow retry " + known.run + "' lets it go on";
}

Result<void> FlowStarter::finish_starts(const std::function<bool()>& ended) {
  std::string after;
  while (!ended()) {
    auto page = book_.open_starts(after);
    if (!page) return page.error();
    std::vector<OpenStart> left;
    std::vector<std::string> runs;
    for (OpenStart& open : page->starts) {
      if (open.since + kLeftBehind > store_.now()) continue;
      runs.push_back(open.given.run);
      left.push_back(std::move(open));
    }
    const auto begun_before = book_.known(runs);
    if (!begun_before) return begun_before.error();
    for (std::size_t i = 0; i < left.size(); ++i) {
      if ((*begun_before)[i]) continue;
      OpenStart& open = left[i];
      auto begun = begin(started_event(open.given.run, open.workflow, open.given.version,
                                       std::move(open.key), std::move(open.given.input)),
                         true);
      if (!begun && begun.error().retryable) return begun.error();
    }
    if (!page->more) break;
    after = std::move(page->last);
  }
  return {};
}

}  // namespace once::engine
