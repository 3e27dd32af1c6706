#include "store/nats/streams.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "store/nats/marks.h"
#include "store/uuid.h"

namespace once::store::nats {
namespace {

using encoding::Json;

constexpr std::string_view kSchema = "1";
constexpr int kStreamRounds = 20;  // of making and looking: others may make it at the same time
constexpr int kSure = 5;           // so often it is looked for what is missing of a zone
constexpr std::chrono::milliseconds kBetweenStreamRounds{100};

constexpr int kClearing = 40;  // so often a server is asked again that cannot make a stream's files
constexpr std::chrono::milliseconds kBetweenClearings{50};

constexpr int kNoPeers = 10005;
constexpr int kNoFiles = 10049;
constexpr int kNameInUse = 10058;
constexpr int kNoReplicas = 10074;

// Nothing may go by itself: no age, nothing is discarded to make room. A limit that refuses what is
// new is the operator's to set; counters have none, for the server does not refuse new ones.
std::string config_of(const std::string& subjects, const std::string& more) {
  return R"({"subjects":[)" + json_string(subjects) +
         R"(],"storage":"file","max_age":0,"allow_direct":true,)" +
         R"("sealed":false,"deny_delete":false,"deny_purge":false,"no_ack":false,)" + more + "}";
}

std::vector<Plan> plans_of(const Subjects& subjects) {
  const std::string& zone = subjects.zone;
  return {
      {subjects.meta_stream(),
       config_of(subjects.meta(">"),
                 R"("discard":"new","retention":"limits","max_msgs_per_subject":1,)"
                 R"("discard_new_per_subject":false,"allow_msg_ttl":true,)"
                 R"("republish":{"src":")" +
                     subjects.meta("queue.>") + R"(","dest":")" + subjects.news() + R"("})")},
      {subjects.log_stream(),
       config_of(
           "once." + zone + ".>",
           R"("discard":"new","retention":"limits","max_msgs_per_subject":-1,"allow_atomic":true)")},
      {subjects.ledger_stream(),
       config_of("$KV.once_" + zone + "_ledger.>",
                 R"("discard":"new","retention":"limits","max_msgs_per_subject":1,)"
                 R"("discard_new_per_subject":false,"allow_atomic":true)"),
       subjects.ledger_seal()},
      {subjects.old_stream(),
       config_of("once-old." + zone + ".>",
                 R"("discard":"new","retention":"limits","max_msgs_per_subject":1,)"
                 R"("discard_new_per_subject":false)"),
       "once-old." + zone + ".seal."},
      {subjects.blob_stream(),
       config_of("once-blob." + zone + ".>",
                 R"("discard":"new","retention":"limits","max_msgs_per_subject":1,)"
                 R"("discard_new_per_subject":false)"),
       "once-blob." + zone + ".seal."},
      {subjects.wake_stream(),
       config_of("once-wake." + zone + ".>",
                 R"("discard":"new","retention":"workqueue","max_msgs_per_subject":1,)"
                 R"("discard_new_per_subject":false)"),
       "once-wake." + zone + ".seal."},
      {subjects.count_stream(),
       config_of("once-count." + zone + ".>",
                 R"("max_msgs":-1,"max_bytes":-1,"retention":"limits","max_msgs_per_subject":1,)"
                 R"("discard_new_per_subject":false,"allow_msg_counter":true)"),
       "once-count." + zone + ".seal."},
  };
}

Plan copy_plan(const Subjects& subjects) {
  return {subjects.copy_stream(),
          config_of("once-copy." + subjects.zone + ".>",
                    R"("discard":"new","retention":"limits","max_msgs_per_subject":1,)"
                    R"("discard_new_per_subject":false)")};
}

}  // namespace

Plan kv_plan(const Subjects& subjects) {
  return {subjects.kv_stream(),
          config_of(subjects.kv_root() + ">",
                    R"("discard":"new","retention":"limits","max_msgs_per_subject":1,)"
                    R"("discard_new_per_subject":false)"),
          subjects.kv_root() + "seal."};
}

std::string_view harm_of(std::string_view field) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kHarms{{
      {"max_age", "what is older is dropped: waiting tasks are lost and old ids may run again"},
      {"max_msgs", "what is old is dropped to make room: duplicates are not counted"},
      {"max_bytes", "what is old is dropped to make room: duplicates are not counted"},
      {"discard", "what is old is dropped to make room: waiting tasks are lost without a word"},
      {"retention", "what is acknowledged is deleted, and with it the memory of what has run"},
      {"max_msgs_per_subject", "records are dropped, or old ones are taken for new"},
      {"discard_new_per_subject", "records cannot be changed any more"},
      {"subjects", "tasks or records are not stored, or those of others are"},
      {"storage", "everything is lost with the server's memory"},
      {"deny_delete", "what retention wants to forget cannot be deleted"},
      {"deny_purge", "what a removed queue leaves cannot be cleared"},
      {"sealed", "nothing can be stored"},
      {"no_ack", "nobody is told whether a task was stored"},
      {"persist_mode", "what was acknowledged can be lost when the server dies"},
      {"subject_transform", "tasks are stored under other names than those that are looked for"},
      {"sources", "messages come in that no once has written"},
  }};
  for (const auto& [name, harm] : kHarms)
    if (name == field) return harm;
  return "tasks could be lost or repeated";
}

Error stream_edited(const std::string& stream, const Difference& difference) {
  return {.code = Code::store_unusable,
          .message =
              "the stream " + stream + " has " + difference.field + " " + difference.found +
              " instead of " + difference.wanted + ": " + std::string(harm_of(difference.field)) +
              "; nothing new is begun until it is set back (nats stream edit " + stream + ")"};
}

namespace {

std::optional<Error> verify(const Plan& plan, const Json& info) {
  const auto edits = edits_of({plan, info});
  return edits.empty() ? std::nullopt : std::optional(stream_edited(plan.name, edits.front()));
}

Error lost(const std::string& zone, const std::string& what) {
  return {
      .code = Code::store_unusable,
      .message = "the zone " + zone + " is not what it was: " + what +
                 "; nothing was done, for what has run already is not known any more. Bring the "
                 "server's data back, or restore a backup of all of the zone's streams. To begin "
                 "anew without it, delete the rest of them and start again"};
}

Error missing_stream(const std::string& zone, const std::string& stream) {
  return lost(
      zone, "its stream " + stream + " is gone: somebody deleted it, or the server lost its data");
}

using Infos = std::vector<JetStreamClient::Response>;

// With the seals that the streams hold.
Result<Infos> look_at(const JetStreamClient& client, const std::vector<Plan>& plans) {
  std::vector<Outgoing> questions;
  for (const Plan& plan : plans)
    questions.push_back({.subject = "$JS.API.STREAM.INFO." + plan.name,
                         .data = plan.seal.empty() ? std::string()
                                                   : R"({"subjects_filter":)" +
                                                         json_string(plan.seal + "*") + "}"});
  auto responses = client.call(questions);
  Infos infos;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (!responses[i]) return responses[i].error();
    if (responses[i]->error != 0 && responses[i]->error != kNoStream)
      return refused("the stream " + plans[i].name, *responses[i]);
    infos.push_back(std::move(*responses[i]));
  }
  return infos;
}

// What the meta bucket says of the zone as a whole.
struct Card {
  std::optional<std::string> uuid{};
  Marks marks{};
};

Result<Card> read_card(const JetStreamClient& client, const Subjects& subjects) {
  const std::array<std::string, 2> wanted{subjects.meta("zone"), subjects.meta("marks")};
  const auto messages = client.last(subjects.meta_stream(), wanted);
  const auto& zone = messages[0];
  if (!zone) return zone.error();
  if (!*zone) return Card{};
  const std::string* schema = (*zone)->header("Once-Schema");
  if (!schema || *schema != kSchema)
    return Error{.code = Code::store_unusable,
                 .message = "the zone " + subjects.zone +
                            " was made by another version of once; use that one"};
  auto marks = marks_from(messages[1]);
  if (!marks) return marks.error();
  return Card{.uuid = (*zone)->data, .marks = std::move(*marks)};
}

std::optional<Error> other_uuid(const Subjects& subjects, const Card& card,
                                const std::string& uuid) {
  if (card.uuid == uuid) return std::nullopt;
  return lost(subjects.zone, "its UUID was " + uuid + " and is " + card.uuid.value_or("gone"));
}

void note_last(const std::vector<Plan>& plans, const Infos& infos, Identity& identity) {
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (const Json* state = infos[i].json.member("state"))
      identity.last[plans[i].name] = number_of(*state, "last_seq").value_or(0);
}

Identity identity_of(const Subjects& subjects, const std::vector<Plan>& plans, const Infos& infos,
                     const Card& card) {
  Identity identity{.uuid = *card.uuid, .sealed = !card.marks.streams.empty()};
  for (std::size_t i = 0; i < plans.size(); ++i)
    identity.created[plans[i].name] = text_of(infos[i].json, "created");
  note_last(plans, infos, identity);
  identity.new_ledger = identity.sealed && identity.last[subjects.ledger_stream()] == 1;
  for (const JetStreamClient::Response& info : infos) {
    const Json* state = info.json.member("state");
    const auto time = state ? time_from(text_of(*state, "last_ts")) : std::nullopt;
    if (time)
      identity.last_write = std::max(identity.last_write, StoreTime{time->time_since_epoch()});
  }
  return identity;
}

bool holds_messages(const JetStreamClient::Response& info) {
  const Json* state = info.json.member("state");
  return state && number_of(*state, "last_seq").value_or(0) > 0;
}

// After its last stream is deleted, a server removes the directory of all streams behind the
// answer's back, and may do so while it makes the next one there: that one is asked for again.
std::vector<Result<JetStreamClient::Response>> create(const JetStreamClient& client,
                                                      const std::vector<Plan>& plans,
                                                      const std::string& replicas) {
  std::vector<Outgoing> questions;
  for (const Plan& plan : plans)
    questions.push_back({.subject = "$JS.API.STREAM.CREATE." + plan.name,
                         .data = R"({"name":)" + json_string(plan.name) + R"(,"num_replicas":)" +
                                 replicas + "," + plan.config.substr(1)});
  auto responses = client.call(questions);
  for (int again = 0; again < kClearing; ++again) {
    const bool cleared = std::none_of(responses.begin(), responses.end(), [](const auto& response) {
      return response && response->error == kNoFiles;
    });
    if (cleared) break;
    std::this_thread::sleep_for(kBetweenClearings);
    responses = client.call(questions);  // those that are made by now are the same, or in use
  }
  return responses;
}

}  // namespace

Result<void> make_streams(const JetStreamClient& client, std::vector<Plan> open) {
  for (const char* replicas : {"3", "1"}) {
    const auto responses = create(client, open, replicas);
    std::vector<Plan> alone;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (!responses[i]) return responses[i].error();
      const int error = responses[i]->error;
      if (error == kNoReplicas) alone.push_back(open[i]);
      if (error == kNoPeers)
        return Error{.code = Code::store_unavailable,
                     .message =
                         "the zone needs three nodes for its three replicas, and this NATS "
                         "cluster has fewer up: the stream " +
                         open[i].name +
                         " was not made; start the others, then the same call again is safe",
                     .retryable = true};
      if (error != 0 && error != kNameInUse && error != kNoReplicas)
        return refused("making the stream " + open[i].name, *responses[i]);
    }
    if (alone.empty()) return {};
    open = std::move(alone);
  }
  return refused("making the stream " + open.front().name, {.text = "it takes no replicas"});
}

std::vector<Difference> edits_of(const StreamLook& stream) {
  const Json* config = stream.info.member("config");
  auto found = differences(encoding::parse_json(stream.plan.config).value(), config);
  // What we never ask for.
  for (const char* field : {"mirror", "sources", "subject_transform", "persist_mode"}) {
    const Json* set = config ? config->member(field) : nullptr;
    if (set && set->kind() != Json::Kind::null)
      found.push_back({.field = field, .found = encoding::canonical(*set), .wanted = "nothing"});
  }
  return found;
}

Result<std::vector<StreamLook>> look_at_streams(const JetStreamClient& client,
                                                const Subjects& subjects) {
  auto plans = plans_of(subjects);
  auto infos = look_at(client, plans);
  if (!infos) return infos.error();
  // Who has no queue on a stream of others', or no workflow, need not be permitted to see these.
  for (const Plan& plan : {copy_plan(subjects), kv_plan(subjects)}) {
    auto info = look_at(client, {plan});
    if (info) {
      plans.push_back(plan);
      infos->push_back(std::move(info->front()));
    } else if (info.error().retryable) {
      return info.error();
    }
  }
  std::vector<StreamLook> streams;
  for (std::size_t i = 0; i < plans.size(); ++i)
    if ((*infos)[i].error == 0)
      streams.push_back({std::move(plans[i]), std::move((*infos)[i].json)});
  return streams;
}

namespace {

// All streams are there. nullopt: look again.
Result<std::optional<Identity>> enter(const JetStreamClient& client, const Subjects& subjects,
                                      const std::vector<Plan>& plans, const Infos& infos,
                                      const Card& card, bool allow_unsafe, int round) {
  const auto look_again = [] {
    std::this_thread::sleep_for(kBetweenStreamRounds);
    return std::optional<Identity>{};
  };
  std::optional<Trouble> trouble;
  for (std::size_t i = 0; i < plans.size() && !trouble; ++i)
    if (auto edit = verify(plans[i], infos[i].json)) trouble = {.error = *edit, .ours = true};
  if (trouble && !allow_unsafe) return trouble->error;
  if (!card.uuid) {
    // The UUID is the first message of a zone. Other messages without it mean that it was removed.
    if (std::any_of(infos.begin(), infos.end(), holds_messages)) {
      if (round < kSure) return look_again();
      return lost(subjects.zone, "the stream " + subjects.meta_stream() +
                                     " does not hold the zone's UUID: somebody purged it, or made "
                                     "it anew");
    }
    Headers headers = expecting(0);
    headers.emplace_back("Once-Schema", kSchema);
    const PublishResult written = client.publish(
        {.subject = subjects.meta("zone"), .data = random_uuid(), .headers = std::move(headers)});
    if (written.kind == PublishResult::Kind::failed) return failure_of(written);
    return std::optional<Identity>{};  // whoever was first is read
  }
  const Sight sight{plans, infos};
  if (card.marks.streams.empty() && !trouble && round < kSure &&
      write_seals(client, subjects, sight, *card.uuid, card.marks.revision))
    return std::optional<Identity>{};
  Identity identity = identity_of(subjects, plans, infos, card);
  auto loss = check_marks(client, subjects, sight, card.marks, identity);
  if (!loss) return loss.error();
  if (*loss && round < kSure) return look_again();  // a leader that is new may lag
  if (*loss && !allow_unsafe) return (*loss)->error;
  identity.trouble = *loss ? *loss : trouble;
  return std::optional(std::move(identity));
}

}  // namespace

Result<Identity> open_streams(const JetStreamClient& client, const Subjects& subjects, bool create,
                              bool allow_unsafe) {
  const auto plans = plans_of(subjects);
  for (int round = 0; round < kStreamRounds; ++round) {
    const auto infos = look_at(client, plans);
    if (!infos) return infos.error();
    const auto missing = std::find_if(infos->begin(), infos->end(),
                                      [](const auto& info) { return info.error == kNoStream; });
    const bool meta = infos->front().error == 0;
    auto card = meta ? read_card(client, subjects) : Result<Card>(Card{});
    if (!card) return card.error();
    if (missing == infos->end()) {
      auto entered = enter(client, subjects, plans, *infos, *card, allow_unsafe, round);
      if (!entered) return entered.error();
      if (*entered) return std::move(**entered);
      continue;
    }
    const std::string& name = plans[static_cast<std::size_t>(missing - infos->begin())].name;
    // Somebody else may be making it just now: what is missing is looked for again.
    const bool was_there =
        card->uuid ||
        std::any_of(infos->begin(), infos->end(), [](const JetStreamClient::Response& info) {
          return info.error == 0 && holds_messages(info);
        });
    if (was_there && round < kSure) {
      std::this_thread::sleep_for(kBetweenStreamRounds);
      continue;
    }
    if (was_there) return missing_stream(subjects.zone, name);
    if (!create)
      return Error{
          .code = Code::not_found,
          .message = "there is no zone " + subjects.zone + " on the NATS server at " +
                     client.where() + ": the stream " + name +
                     " is missing; nothing was made. If there was one, the server has lost "
                     "its data: bring the data back",
          .reason = Reason::no_zone,
          .facts = {{"zone", subjects.zone}}};
    std::vector<Plan> open;
    for (std::size_t i = 0; i < plans.size(); ++i)
      if ((*infos)[i].error == kNoStream) open.push_back(plans[i]);
    if (auto made = make_streams(client, std::move(open)); !made) return made.error();
  }
  return Error{.code = Code::store_unavailable,
               .message = "the zone " + subjects.zone +
                          " could not be made yet; the same call again is safe",
               .retryable = true};
}

Result<void> ensure_copy_stream(const JetStreamClient& client, const Subjects& subjects) {
  const std::vector<Plan> plan{copy_plan(subjects)};
  auto infos = look_at(client, plan);
  if (!infos) return infos.error();
  if (infos->front().error == kNoStream) {
    if (auto made = make_streams(client, plan); !made) return made.error();
    infos = look_at(client, plan);
    if (!infos) return infos.error();
  }
  if (auto error = verify(plan.front(), infos->front().json)) return *error;
  return {};
}

Result<bool> ledger_is_sealed(const JetStreamClient& client, const Subjects& subjects,
                              const std::string& uuid) {
  const Plan plan{.name = subjects.ledger_stream(), .seal = subjects.ledger_seal()};
  const auto info =
      client.stream_info(plan.name, R"({"subjects_filter":)" + json_string(plan.seal + uuid) + "}");
  if (!info) return info.error();
  if (!*info)  // a cluster that chooses leaders may not know its own streams; the watch finds out
    return Error{.code = Code::store_unavailable,
                 .message = "the stream " + plan.name + " is not found just now; nothing was done",
                 .retryable = true};
  const auto lacks = [&](const Json& now) {
    const Json* state = now.member("state");
    const Json* held = state ? state->member("subjects") : nullptr;
    return !held || !held->member(plan.seal + uuid);
  };
  if (!lacks(**info)) return true;
  const auto still = still_lacks(client, plan, **info, lacks);
  if (!still) return still.error();
  return !*still;
}

Result<void> check_uuid(const JetStreamClient& client, const Subjects& subjects,
                        const std::string& uuid) {
  const auto card = read_card(client, subjects);
  if (!card) return card.error();
  if (auto changed = other_uuid(subjects, *card, uuid)) return std::move(*changed);
  return {};
}

namespace {

// The stream of values has a mark of its own, and only the processes that use it may look at it.
Result<std::optional<Trouble>> examine_values(const JetStreamClient& client,
                                              const Subjects& subjects, Identity& known) {
  const std::string name = subjects.kv_stream();
  if (!known.created.contains(name)) return std::optional<Trouble>{};
  const std::vector<Plan> plan{kv_plan(subjects)};
  const auto infos = look_at(client, plan);
  if (!infos) return infos.error();
  const auto trouble = [](Error error, bool emptied) {
    return std::optional(
        Trouble{.error = std::move(error), .ours = true, .emptied = emptied, .values = emptied});
  };
  if (infos->front().error == kNoStream) return trouble(missing_stream(subjects.zone, name), true);
  if (text_of(infos->front().json, "created") != known.created.at(name))
    return trouble(lost(subjects.zone, "its stream " + name + " was deleted and made anew"), true);
  const Marks marks{.streams = {{name, Mark{}}}};
  auto loss = check_marks(client, subjects, {plan, *infos}, marks, known);
  if (!loss) return loss;
  if (*loss) return trouble((*loss)->error, true);
  note_last(plan, *infos, known);
  if (auto edit = verify(plan.front(), infos->front().json))
    return trouble(std::move(*edit), false);
  return std::optional<Trouble>{};
}

}  // namespace

Result<std::optional<Trouble>> examine(const JetStreamClient& client, const Subjects& subjects,
                                       Identity& known, Duration marks_live) {
  const auto plans = plans_of(subjects);
  if (auto checked = client.check_server(); !checked) {
    if (checked.error().retryable) return checked.error();
    return std::optional(Trouble{.error = checked.error()});
  }
  const auto infos = look_at(client, plans);
  if (!infos) return infos.error();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const std::string& name = plans[i].name;
    if ((*infos)[i].error == kNoStream)
      return std::optional(Trouble{.error = missing_stream(subjects.zone, name)});
    if (text_of((*infos)[i].json, "created") != known.created.at(name))
      return std::optional(Trouble{
          .error = lost(subjects.zone, "its stream " + name + " was deleted and made anew")});
  }
  const auto card = read_card(client, subjects);
  if (!card) return card.error();
  if (auto changed = other_uuid(subjects, *card, known.uuid))
    return std::optional(Trouble{.error = std::move(*changed)});
  const Sight sight{plans, *infos};
  auto loss = check_marks(client, subjects, sight, card->marks, known);
  if (!loss || *loss) return loss;
  note_last(plans, *infos, known);
  known.sealed = !card->marks.streams.empty();
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (auto error = verify(plans[i], (*infos)[i].json))
      return std::optional(Trouble{.error = std::move(*error), .ours = true});
  if (auto values = examine_values(client, subjects, known); !values || *values) return values;
  const auto told = time_from(text_of(infos->front().json, "ts"));
  if (known.sealed && known.may_mark && marks_live > Duration{0} && card->marks.written && told &&
      *told - *card->marks.written > marks_live)
    known.may_mark = move_marks(client, subjects, sight, card->marks.revision);
  return std::optional<Trouble>{};
}

}  // namespace once::store::nats
