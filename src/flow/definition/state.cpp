// The facts of a run as canonical JSON:
//
//   {"admits":try?,"input":JSON,"key":"…"?,"rates":{step:try}?,"rounds":[round…],"run":"…",
//    "signals":{name:{"id":"…","s":sequence,"t":time,"v":JSON}}?,"started":[sequence,time],
//    "steps":{step:[{"e":"error"?,"n":3,"o":"outcome","s":sequence,"t":time,"v":JSON?,"x":true?}…]}?,
//    "v":1,"version":3,"workflow":"…"}
//   round := {"ended":{"e":"…"?,"o":"outcome","s":…,"step":"…"?,"t":…,"v":JSON?}?,"n":1,"s":…,"t":…,
//             "void":{step:n}?}
//   try   := [n,sequence,time]
//
// JSON values are text in a string. So they may have any depth and are parsed only when they are
// needed. Times are milliseconds since 1970. "x" marks a large output, which is a value of its own.
#include "flow/definition/state.h"

#include "json/object_reader.h"
#include "json/object_text.h"

namespace once::encoding {
namespace {

using core::RunState;

constexpr std::uint32_t kVersion = 1;
constexpr std::int64_t kEarliest = -9'007'199'254'740'992;

std::int64_t number_of(core::Sequence sequence) {
  return static_cast<std::int64_t>(sequence.value);
}
std::int64_t number_of(Time time) { return time.time_since_epoch().count(); }

std::string list_text(std::initializer_list<std::int64_t> numbers) {
  std::string text;
  for (const std::int64_t number : numbers)
    text += (text.empty() ? '[' : ',') + std::to_string(number);
  return text + ']';
}

std::string text_of(const core::TryFact& last) {
  return list_text({last.n, number_of(last.sequence), number_of(last.at)});
}

std::string text_of(std::uint32_t n, const core::StepFact& fact) {
  ObjectText text;
  if (!fact.error.empty()) text.string("e", fact.error);
  text.number("n", n);
  text.string("o", to_string(fact.outcome));
  text.number("s", number_of(fact.sequence));
  text.number("t", number_of(fact.at));
  if (!fact.value.empty()) text.string("v", fact.value);
  if (fact.elsewhere) text.boolean("x", true);
  return std::move(text).take();
}

std::string text_of(const std::map<std::uint32_t, core::StepFact>& facts) {
  std::string text;
  for (const auto& [n, fact] : facts) text += (text.empty() ? "" : ",") + text_of(n, fact);
  return '[' + text + ']';
}

std::string text_of(const core::SignalFact& fact) {
  ObjectText text;
  text.string("id", fact.id);
  if (fact.by_name) text.json("name", "true");
  text.number("s", number_of(fact.sequence));
  text.number("t", number_of(fact.at));
  text.string("v", fact.value);
  return std::move(text).take();
}

std::string text_of(const core::EndFact& fact) {
  ObjectText text;
  if (!fact.error.empty()) text.string("e", fact.error);
  text.string("o", to_string(fact.outcome));
  text.number("s", number_of(fact.sequence));
  if (!fact.step.empty()) text.string("step", fact.step);
  text.number("t", number_of(fact.at));
  if (!fact.value.empty()) text.string("v", fact.value);
  return std::move(text).take();
}

std::string text_of(std::uint32_t number, const core::FlowRound& round) {
  ObjectText voided;
  for (const auto& [step, n] : round.voided) voided.number(step, n);
  ObjectText text;
  if (round.ended) text.json("ended", text_of(*round.ended));
  text.number("n", number);
  text.number("s", number_of(round.sequence));
  text.number("t", number_of(round.at));
  if (!voided.empty()) text.json("void", std::move(voided).take());
  return std::move(text).take();
}

template <class Facts>
void put_all(std::string_view name, const Facts& facts, ObjectText& text) {
  ObjectText all;
  for (const auto& [of, fact] : facts) all.json(of, text_of(fact));
  if (!all.empty()) text.json(name, std::move(all).take());
}

// A member that may be missing.
void read_string(ObjectReader& reader, std::string_view name, std::string& into) {
  if (reader.find(name) != nullptr) reader.string(name, into);
}

template <class Fact>
void read_when(ObjectReader& reader, Fact& fact) {
  std::int64_t time = 0;
  reader.number("s", 0, fact.sequence.value);
  reader.number("t", kEarliest, time);
  fact.at = Time(Duration{time});
}

bool read(const Json& json, core::TryFact& into) {
  const auto& items = json.items();
  std::int64_t time = 0;
  if (items.size() != 3 || !ObjectReader::read(&items[0], 1, into.n) ||
      !ObjectReader::read(&items[1], 0, into.sequence.value) ||
      !ObjectReader::read(&items[2], kEarliest, time))
    return false;
  into.at = Time(Duration{time});
  return true;
}

bool read(const Json& json, std::map<std::uint32_t, core::StepFact>& into) {
  for (const Json& item : json.items()) {
    ObjectReader reader(item);
    std::uint32_t n = 0;
    std::string outcome;
    core::StepFact fact;
    reader.number("n", 0, n);
    reader.string("o", outcome);
    read_when(reader, fact);
    read_string(reader, "e", fact.error);
    read_string(reader, "v", fact.value);
    fact.elsewhere = reader.find("x") != nullptr;
    const auto known = flow_outcome_from(outcome);
    if (!reader.misfit().empty() || !known) return false;
    fact.outcome = *known;
    into.emplace(n, std::move(fact));
  }
  return true;
}

bool read(const Json& json, core::SignalFact& into) {
  ObjectReader reader(json);
  reader.string("id", into.id);
  into.by_name = reader.find("name") != nullptr;
  reader.string("v", into.value);
  read_when(reader, into);
  return reader.misfit().empty();
}

bool read(const Json& json, core::EndFact& into) {
  ObjectReader reader(json);
  std::string outcome;
  reader.string("o", outcome);
  read_when(reader, into);
  read_string(reader, "e", into.error);
  read_string(reader, "step", into.step);
  read_string(reader, "v", into.value);
  const auto known = flow_outcome_from(outcome);
  if (!reader.misfit().empty() || !known) return false;
  into.outcome = *known;
  return true;
}

bool read_rounds(const Json& json, std::map<std::uint32_t, core::FlowRound>& into) {
  for (const Json& item : json.items()) {
    ObjectReader reader(item);
    std::uint32_t number = 0;
    core::FlowRound round;
    reader.number("n", 1, number);
    read_when(reader, round);
    if (const Json* const voided = reader.find("void"))
      for (const auto& [step, n] : voided->members())
        if (!ObjectReader::read(&n, 0, round.voided[step])) reader.misfits("void");
    if (const Json* const ended = reader.find("ended"))
      if (!read(*ended, round.ended.emplace())) reader.misfits("ended");
    if (!reader.misfit().empty()) return false;
    into.emplace(number, std::move(round));
  }
  return true;
}

template <class Facts>
void read_all(ObjectReader& reader, std::string_view name, Facts& into) {
  const Json* const all = reader.find(name);
  if (all == nullptr) return;
  for (const auto& [of, fact] : all->members())
    if (!read(fact, into[of])) reader.misfits(name);
}

Error unusable(std::string_view what) {
  return {.code = Code::store_unusable,
          .message = "the record of a workflow's run cannot be read: " + std::string(what) +
                     "; nothing was changed"};
}

}  // namespace

std::string encode_state(const core::RunState& state) {
  ObjectText text;
  if (state.admits.n > 0) text.json("admits", text_of(state.admits));
  text.string("input", state.input);
  if (state.key) text.string("key", *state.key);
  put_all("rates", state.rate_retries, text);
  std::string rounds;
  for (const auto& [number, round] : state.rounds)
    rounds += (rounds.empty() ? "" : ",") + text_of(number, round);
  text.json("rounds", '[' + rounds + ']');
  text.string("run", state.run);
  put_all("signals", state.signals, text);
  text.json("started", list_text({number_of(state.started), number_of(state.started_at)}));
  put_all("steps", state.steps, text);
  text.number("v", kVersion);
  text.number("version", state.version);
  text.string("workflow", state.workflow);
  return std::move(text).take();
}

Result<core::RunState> decode_state(std::string_view json) {
  const auto root = parse_json(json);
  if (!root) return unusable(root.error().message);
  ObjectReader reader(*root);
  std::uint32_t version = 0;
  reader.number("v", 1, version);
  if (version > kVersion)
    return unusable("it was written by a newer version of Once; use that version");

  RunState state;
  reader.string("run", state.run);
  reader.string("workflow", state.workflow);
  reader.string("input", state.input);
  reader.number("version", 0, state.version);
  if (reader.find("key") != nullptr) reader.string("key", state.key.emplace());
  const Json* const started = reader.find("started");
  std::int64_t time = 0;
  if (started == nullptr || started->items().size() != 2 ||
      !ObjectReader::read(&started->items()[0], 0, state.started.value) ||
      !ObjectReader::read(&started->items()[1], kEarliest, time))
    reader.misfits("started");
  state.started_at = Time(Duration{time});
  read_all(reader, "steps", state.steps);
  read_all(reader, "signals", state.signals);
  read_all(reader, "rates", state.rate_retries);
  if (const Json* const admits = reader.find("admits"))
    if (!read(*admits, state.admits)) reader.misfits("admits");
  const Json* const rounds = reader.find("rounds");
  if (rounds == nullptr || !read_rounds(*rounds, state.rounds)) reader.misfits("rounds");
  if (!reader.misfit().empty())
    return unusable("\"" + reader.misfit() + "\" is missing or damaged");
  return state;
}

}  // namespace once::encoding
