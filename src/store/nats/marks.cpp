#include "store/nats/marks.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "codec/past_codec.h"

namespace once::store::nats {
namespace {

using encoding::Json;

constexpr int kLooks = 25;
constexpr std::chrono::milliseconds kBetweenMarkLooks{200};

std::uint64_t state_number(const Json& info, std::string_view member) {
  const Json* state = info.member("state");
  return state ? number_of(*state, member).value_or(0) : 0;
}

// The seals that a stream holds, by the UUID that ends their subject.
std::vector<std::string> seals_of(const Plan& plan, const Json& info) {
  std::vector<std::string> uuids;
  const Json* state = info.member("state");
  const Json* subjects = state ? state->member("subjects") : nullptr;
  if (!subjects) return uuids;
  for (const auto& [subject, count] : subjects->members())
    if (subject.starts_with(plan.seal)) uuids.push_back(subject.substr(plan.seal.size()));
  return uuids;
}

bool has_seal(const Plan& plan, const Json& info, const std::string& uuid) {
  const auto uuids = seals_of(plan, info);
  return plan.seal.empty() || std::find(uuids.begin(), uuids.end(), uuid) != uuids.end();
}

std::string text_of_marks(const Sight& sight) {
  std::string text = "{";
  for (std::size_t i = 0; i < sight.plans.size(); ++i) {
    const Json& info = sight.infos[i].json;
    const Json* state = info.member("state");
    text += (i > 0 ? "," : "") + json_string(sight.plans[i].name) +
            ":{\"created\":" + json_string(text_of(info, "created")) +
            ",\"first\":" + std::to_string(state_number(info, "first_seq")) +
            ",\"last\":" + std::to_string(state_number(info, "last_seq")) +
            ",\"last_at\":" + json_string(state ? text_of(*state, "last_ts") : std::string()) + "}";
  }
  return text + "}";
}

Trouble emptied(const Subjects& subjects, const std::string& stream, const std::string& what) {
  return {.error = {.code = Code::store_unusable,
                    .message =
                        "the zone " + subjects.zone + " has lost data: the stream " + stream + " " +
                        what + ". " + std::string(harm_of_loss(subjects, stream)) +
                        " Nothing was done. Restore a backup of all streams of the zone, or accept "
                        "the loss: docs/nats.md, \"When data was lost\""},
          .ours = true,
          .emptied = true};
}

constexpr const char* kPurged =
    "does not hold what Once wrote into it: somebody purged it, or made it anew";

// The number before the log's first message, when somebody else than retention removed it.
Result<std::optional<Trouble>> check_log_start(const JetStreamClient& client,
                                               const Subjects& subjects, const Json& info,
                                               const Mark& mark) {
  const std::uint64_t first = state_number(info, "first_seq");
  if (first <= std::max<std::uint64_t>(mark.first, 1)) return std::optional<Trouble>{};
  const auto message = client.last(subjects.meta_stream(), subjects.gone(first - 1));
  if (!message) return message.error();
  if (*message) {
    const auto past = encoding::decode_past((*message)->data);
    if (!past) return past.error();
    if (past->ids.contains(first - 1)) return std::optional<Trouble>{};
  }
  return std::optional(emptied(subjects, subjects.log_stream(),
                               "begins at #" + std::to_string(first) +
                                   ", and retention did not "
                                   "remove #" +
                                   std::to_string(first - 1) + ": somebody purged it"));
}

// A log that was restored has another time of creation. The last message of the marks tells whether it
// is this zone's log, as long as that message is there.
Result<std::optional<Trouble>> check_log_identity(const JetStreamClient& client,
                                                  const Subjects& subjects, const Json& info,
                                                  const Mark& mark) {
  if (text_of(info, "created") == mark.created || mark.last == 0 || !mark.last_at)
    return std::optional<Trouble>{};
  const auto message = client.get(subjects.log_stream(), mark.last);
  if (!message) return message.error();
  if (!*message || (*message)->time == *mark.last_at) return std::optional<Trouble>{};
  return std::optional(emptied(subjects, subjects.log_stream(), "is the log of another zone"));
}

bool made_when_marked(const Sight& sight, const Marks& marks, const std::string& stream) {
  const auto mark = marks.streams.find(stream);
  for (std::size_t i = 0; i < sight.plans.size(); ++i)
    if (sight.plans[i].name == stream && mark != marks.streams.end())
      return time_from(text_of(sight.infos[i].json, "created")) == time_from(mark->second.created);
  return true;
}

// Marks from before the first task name no message of the log, so its time of creation decides. A
// restored log has messages that are older than the log itself. A restore of all streams replaces the
// meta bucket too.
Result<std::optional<Trouble>> check_log_made_anew(const JetStreamClient& client,
                                                   const Subjects& subjects, const Sight& sight,
                                                   const Marks& marks, const Json& info) {
  if (made_when_marked(sight, marks, subjects.log_stream()) ||
      !made_when_marked(sight, marks, subjects.meta_stream()))
    return std::optional<Trouble>{};
  const std::uint64_t first = state_number(info, "first_seq");
  if (first > 0 && first <= state_number(info, "last_seq")) {
    const auto message = client.get(subjects.log_stream(), first);
    if (!message) return message.error();
    const auto created = time_from(text_of(info, "created"));
    if (!*message || !created || (*message)->time < *created) return std::optional<Trouble>{};
  }
  return std::optional(
      emptied(subjects, subjects.log_stream(), "was deleted and made anew: its tasks are gone"));
}

}  // namespace

std::string_view harm_of_loss(const Subjects& subjects, const std::string& stream) {
  if (stream == subjects.ledger_stream())
    return "Which tasks have run is not known any more, so they would run again.";
  if (stream == subjects.log_stream())
    return "Tasks that waited are lost, and ids that were published would be accepted anew.";
  if (stream == subjects.meta_stream())
    return "The queues and the zone's UUID are not known any more.";
  if (stream == subjects.wake_stream()) return "Retries that people ordered may be forgotten.";
  if (stream == subjects.count_stream())
    return "Duplicates are counted anew, and workers may get the number of another worker.";
  if (stream == subjects.old_stream())
    return "Ids whose bodies were retired are not found by their number any more.";
  if (stream == subjects.kv_stream())
    return "Which runs of workflows there are is not known any more, so they would be started "
           "again.";
  return "Large results of tasks are lost.";
}

Result<bool> still_lacks(const JetStreamClient& client, const Plan& plan, const Json& first,
                         const std::function<bool(const Json&)>& lacks) {
  const Json* cluster = first.member("cluster");
  const Json* replicas = cluster ? cluster->member("replicas") : nullptr;
  if (!replicas || replicas->kind() != Json::Kind::array || replicas->items().empty()) return true;
  const std::string seals =
      plan.seal.empty() ? "" : R"({"subjects_filter":)" + json_string(plan.seal + "*") + "}";
  bool there = true;
  for (int look = 0; look < kLooks; ++look) {
    std::this_thread::sleep_for(kBetweenMarkLooks);
    const auto info = client.stream_info(plan.name, seals);
    if (!info) return info.error();
    there = info->has_value();
    if (there && !lacks(**info)) return false;
  }
  if (there) return true;
  return Error{.code = Code::store_unavailable,
               .message = "the stream " + plan.name + " has no leader just now",
               .retryable = true};
}

Error stream_emptied(const Subjects& subjects, const std::string& stream) {
  return emptied(subjects, stream, kPurged).error;
}

Result<Marks> marks_from(const Result<std::optional<StreamMessage>>& message) {
  if (!message) return message.error();
  Marks marks;
  if (!*message) return marks;
  marks.revision = (*message)->sequence;
  marks.written = (*message)->time;
  if ((*message)->data.empty()) return marks;  // deleted: somebody accepts what was lost
  const auto json = encoding::parse_json((*message)->data);
  if (!json) return json.error();
  for (const auto& [name, mark] : json->members())
    marks.streams[name] = {.created = text_of(mark, "created"),
                           .first = number_of(mark, "first").value_or(0),
                           .last = number_of(mark, "last").value_or(0),
                           .last_at = time_from(text_of(mark, "last_at"))};
  return marks;
}

bool move_marks(const JetStreamClient& client, const Subjects& subjects, const Sight& sight,
                std::uint64_t revision) {
  return client
             .publish({.subject = subjects.meta("marks"),
                       .data = text_of_marks(sight),
                       .headers = expecting(revision)})
             .kind != PublishResult::Kind::failed;
}

// The streams that fewer logins may write to come first: a login that may not write all seals
// leaves none behind.
bool write_seals(const JetStreamClient& client, const Subjects& subjects, const Sight& sight,
                 const std::string& uuid, std::uint64_t revision) {
  const std::array<std::string, 2> guarded{subjects.old_stream(), subjects.count_stream()};
  for (const bool first : {true, false})
    for (std::size_t i = 0; i < sight.plans.size(); ++i) {
      const Plan& plan = sight.plans[i];
      const bool is_guarded = std::find(guarded.begin(), guarded.end(), plan.name) != guarded.end();
      if (is_guarded != first || has_seal(plan, sight.infos[i].json, uuid)) continue;
      Outgoing seal{.subject = plan.seal + uuid, .headers = expecting(0)};
      if (plan.name == subjects.count_stream()) seal.headers = {{"Nats-Incr", "+1"}};
      const PublishResult written = client.publish(seal);
      if (written.kind != PublishResult::Kind::stored &&
          written.kind != PublishResult::Kind::refused)
        return false;
    }
  return move_marks(client, subjects, sight, revision);
}

Result<std::optional<Trouble>> check_marks(const JetStreamClient& client, const Subjects& subjects,
                                           const Sight& sight, const Marks& marks,
                                           const Identity& known) {
  for (std::size_t i = 0; i < sight.plans.size(); ++i) {
    const Plan& plan = sight.plans[i];
    const Json& info = sight.infos[i].json;
    const auto mark = marks.streams.find(plan.name);
    const auto seen = known.last.find(plan.name);
    const std::uint64_t least = std::max(seen == known.last.end() ? 0 : seen->second,
                                         mark == marks.streams.end() ? 0 : mark->second.last);
    const auto unsealed = [&](const Json& now) {
      return !marks.streams.empty() && !has_seal(plan, now, known.uuid);
    };
    const auto went_back = [&](const Json& now) { return state_number(now, "last_seq") < least; };
    if (unsealed(info)) {
      const auto still = still_lacks(client, plan, info, unsealed);
      if (!still) return still.error();
      const auto others = seals_of(plan, info);
      if (*still)
        return std::optional(emptied(
            subjects, plan.name,
            others.empty() ? kPurged : "belongs to another zone, whose UUID is " + others.front()));
    }
    if (went_back(info)) {
      const auto still = still_lacks(client, plan, info, went_back);
      if (!still) return still.error();
      if (*still)
        return std::optional(
            emptied(subjects, plan.name,
                    "ends at #" + std::to_string(state_number(info, "last_seq")) +
                        " and did end at #" + std::to_string(least) +
                        ": it was restored from an older backup, or the server lost writes"));
    }
    if (plan.name != subjects.log_stream() || mark == marks.streams.end()) continue;
    for (const auto check : {check_log_start, check_log_identity}) {
      auto trouble = check(client, subjects, info, mark->second);
      if (!trouble || *trouble) return trouble;
    }
    if (mark->second.last > 0) continue;
    auto trouble = check_log_made_anew(client, subjects, sight, marks, info);
    if (!trouble || *trouble) return trouble;
  }
  return std::optional<Trouble>{};
}

}  // namespace once::store::nats
