#include "flow/start_limits.h"

#include <algorithm>

#include "json/object_reader.h"
#include "json/object_text.h"

namespace once::engine {
namespace {

using namespace std::chrono_literals;

constexpr int kLimitTries = 64;
constexpr Duration kFirstLook = 1s;  // wait of a run that was refused; it doubles each time
constexpr Duration kLastLook = 30s;
constexpr Duration kDropEvery = 10s;
constexpr Duration kLongestBooking = 10min;  // a longer booking asks again after this time

std::string array_of(const std::vector<std::string>& runs) {
  std::string text = "[";
  for (const std::string& run : runs) {
    if (text.size() > 1) text += ',';
    encoding::append_canonical_string(run, text);
  }
  return text + "]";
}

std::vector<std::string> runs_in(const encoding::Json* array) {
  std::vector<std::string> runs;
  if (array != nullptr)
    for (const encoding::Json& run : array->items()) runs.push_back(run.string());
  return runs;
}

bool has(const std::vector<std::string>& runs, std::string_view run) {
  return std::find(runs.begin(), runs.end(), run) != runs.end();
}

// A wait of at most `most`, always the same for one run. So refused runs do not ask all at once.
Duration spread(std::string_view run, Duration most) {
  const auto part = static_cast<Duration::rep>(std::hash<std::string_view>{}(run) % 1000);
  return most * part / 1000;
}

// The starts that were admitted in one window of time, and the last later window that is booked. A
// start that is refused gets a later window with room. So refused starts come back in their order.
struct RateNote {
  std::uint64_t window{};
  std::vector<std::string> taken{};
  std::uint64_t booked_to{};  // the last window that refused starts were told to use
  std::uint64_t booked{};     // how many starts were told to use that window
};

RateNote rate_from(std::string_view text) {
  RateNote note;
  const auto json = encoding::parse_json(text);
  if (!json) return note;
  encoding::ObjectReader reader(*json);
  reader.number("window", 0, note.window);
  reader.number("booked_to", 0, note.booked_to);
  reader.number("booked", 0, note.booked);
  note.taken = runs_in(json->member("taken"));
  return note;
}

std::string text_of(const RateNote& note) {
  encoding::ObjectText text;
  text.number("booked", static_cast<std::int64_t>(note.booked));
  text.number("booked_to", static_cast<std::int64_t>(note.booked_to));
  text.json("taken", array_of(note.taken));
  text.number("window", static_cast<std::int64_t>(note.window));
  return std::move(text).take();
}

// A new start does not overtake starts that were refused before.
std::uint64_t left_to_newcomers(const RateNote& note, std::uint64_t limit) {
  if (note.booked_to < note.window) return limit;
  return note.booked_to == note.window ? limit - std::min(note.booked, limit) : 0;
}

// Books the first later window that has room.
void book_window(RateNote& note, std::uint64_t limit) {
  if (note.booked_to <= note.window) {
    note.booked_to = note.window + 1;
    note.booked = 0;
  } else if (note.booked >= limit) {
    ++note.booked_to;
    note.booked = 0;
  }
  ++note.booked;
}

// A clock that goes back by less than a window does not open that window again. A clock that was
// far ahead and was corrected opens a new window. Otherwise all starts would wait until the wrong
// time.
bool begins(const RateNote& note, std::uint64_t window) {
  return window > note.window || window + 1 < note.window;
}

// If a window had room left, or no start asked in it, then starts that were booked did not come. So
// the bookings are dropped.
void open_window(RateNote& note, std::uint64_t window, std::uint64_t limit) {
  if (note.taken.size() < limit || window != note.window + 1) {
    note.booked_to = 0;
    note.booked = 0;
  }
  note.window = window;
  note.taken.clear();
}

Duration until_window(std::uint64_t window, Duration per, Duration now) {
  return std::max(per * static_cast<Duration::rep>(window) - now, Duration{1});
}

// Books a window for a start that is refused for the first time. Returns the wait until then.
Duration until_booked(RateNote& note, Duration per, Duration now, std::string_view who,
                      std::uint64_t limit) {
  book_window(note, limit);
  const Duration next = until_window(note.window + 1, per, now);
  return std::clamp(until_window(note.booked_to, per, now), next, std::max(next, kLongestBooking)) +
         spread(who, per / 10);
}

// A start that came back and found no room asks again before the last booked window ends.
Duration until_later(const RateNote& note, Duration per, Duration now, std::string_view who) {
  const auto windows =
      static_cast<Duration::rep>(note.booked_to > note.window ? note.booked_to - note.window : 1);
  return until_window(note.window + 1, per, now) +
         spread(who, std::min(per * windows, std::max(per / 10, kLongestBooking)));
}

Error limits_busy(std::string_view what) {
  return {
      .code = Code::store_unavailable,
      .message = "others keep writing who may start " + std::string(what) + "; it is tried again",
      .retryable = true};
}

std::string runs_note(const core::FlowDefinition& definition) { return "runs." + definition.name; }

}  // namespace

Result<std::optional<Duration>> StartLimits::admit(const core::FlowDefinition& definition,
                                                   const core::RunState& run) {
  for (int tries = 0; tries < kLimitTries; ++tries) {
    auto note = run_store_.note(runs_note(definition));
    if (!note) return note.error();
    const auto json = encoding::parse_json(*note ? (*note)->json : "{}");
    std::vector<std::string> in = runs_in(json ? json->member("active") : nullptr);
    if (has(in, run.run)) return std::optional<Duration>{};
    if (in.size() >= definition.max_runs) {
      if (auto dropped = drop_ended(definition, in); !dropped) return dropped.error();
      if (in.size() >= definition.max_runs) {
        const Duration wait =
            std::min(kFirstLook * (1 << std::min<std::uint32_t>(run.admits.n, 5)), kLastLook);
        return std::optional(wait + spread(run.run, wait / 4));
      }
    }
    in.push_back(run.run);
    auto written = write_runs(definition, in, *note ? (*note)->revision : core::Revision{});
    if (!written) return written.error();
    if (*written) return std::optional<Duration>{};
  }
  return limits_busy("runs of workflow '" + definition.name + "'");
}

Result<bool> StartLimits::admitted(const core::FlowDefinition& definition, std::string_view run) {
  if (definition.max_runs == 0) return true;
  auto note = run_store_.note(runs_note(definition));
  if (!note) return note.error();
  if (!*note) return false;
  const auto json = encoding::parse_json((*note)->json);
  return has(runs_in(json ? json->member("active") : nullptr), run);
}

// A runner that died may have left ended runs in the note. Reading all runs is expensive, so each
// process does it only every kDropEvery.
Result<void> StartLimits::drop_ended(const core::FlowDefinition& definition,
                                     std::vector<std::string>& runs) {
  {
    const std::lock_guard lock(mutex_);
    const auto [last, is_new] = dropped_at_.try_emplace(definition.name);
    if (!is_new && scheduler_.now() < last->second + kDropEvery) return {};
    last->second = scheduler_.now();
  }
  const auto active = run_store_.active(runs);
  if (!active) return active.error();
  std::vector<std::string> left;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if ((*active)[i]) left.push_back(std::move(runs[i]));
  runs = std::move(left);
  return {};
}

Result<bool> StartLimits::write_runs(const core::FlowDefinition& definition,
                                     const std::vector<std::string>& active,
                                     core::Revision expected) {
  return run_store_.write_note(runs_note(definition), "{\"active\":" + array_of(active) + "}",
                               expected);
}

// A run that is retried at that moment keeps its place. So the run's state is read after the note,
// and again after the note is written.
Result<void> StartLimits::leave(const core::FlowDefinition& definition, const std::string& run) {
  if (definition.max_runs == 0) return {};
  for (int tries = 0; tries < kLimitTries; ++tries) {
    auto note = run_store_.note(runs_note(definition));
    if (!note) return note.error();
    const auto active = run_store_.active(std::span(&run, 1));
    if (!active) return active.error();
    const auto json = encoding::parse_json(*note ? (*note)->json : "{}");
    std::vector<std::string> in = runs_in(json ? json->member("active") : nullptr);
    const bool goes_on = active->front();
    if (has(in, run) == goes_on || (goes_on && tries == 0)) return {};
    if (goes_on)
      in.push_back(run);
    else
      std::erase(in, run);
    auto written = write_runs(definition, in, *note ? (*note)->revision : core::Revision{});
    if (!written) return written.error();
  }
  return limits_busy("runs of workflow '" + definition.name + "'");
}

// Windows of another length are counted apart.
Result<std::optional<Duration>> StartLimits::pass_rate(const core::FlowDefinition& definition,
                                                       const core::FlowStep& step,
                                                       const std::string& who, bool sent_away) {
  const Duration per = step.rate->per;
  const auto limit = static_cast<std::uint64_t>(step.rate->limit);
  const std::string name =
      "rate." + definition.name + "." + step.id + "." + std::to_string(per.count());
  for (int tries = 0; tries < kLimitTries; ++tries) {
    auto stored = run_store_.note(name);
    if (!stored) return stored.error();
    RateNote note = *stored ? rate_from((*stored)->json) : RateNote{};
    const Duration now = store_.now().time_since_epoch();
    if (const auto window = static_cast<std::uint64_t>(now / per); !*stored || begins(note, window))
      open_window(note, window, limit);
    if (has(note.taken, who)) return std::optional<Duration>{};
    const bool room = note.taken.size() < (sent_away ? limit : left_to_newcomers(note, limit));
    if (!room && sent_away) return std::optional(until_later(note, per, now, who));
    std::optional<Duration> wait;
    if (room)
      note.taken.push_back(who);
    else
      wait = until_booked(note, per, now, who, limit);
    auto written = run_store_.write_note(name, text_of(note),
                                         *stored ? (*stored)->revision : core::Revision{});
    if (!written) return written.error();
    if (*written) return wait;
  }
  return limits_busy("step '" + step.id + "' of workflow '" + definition.name + "'");
}

}  // namespace once::engine
