#include "store/nats/doctor/settings_check.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/findings.h"
#include "core/words.h"

namespace once::store::nats {
namespace {

using core::counted;
using core::time_text;
using encoding::Json;

constexpr Duration kClocksApart{2'000};
constexpr double kMuchBehind = 1000;
constexpr Duration kLongSilent{10'000};
constexpr double kNearlyFull = 0.8;
constexpr double kAlmostNoRoom = 0.95;
constexpr std::string_view kLowest = "2.12";

double number(const Json* json, std::string_view member) {
  const Json* value = json ? json->member(member) : nullptr;
  return value && value->kind() == Json::Kind::number ? value->number() : 0;
}
bool is_set(const Json* json, std::string_view member) {
  const Json* value = json ? json->member(member) : nullptr;
  return value && value->kind() == Json::Kind::boolean && value->boolean();
}
std::string text(const Json* json, std::string_view member) {
  return json ? text_of(*json, member) : std::string();
}
bool has(const Json* json, std::string_view member) {
  const Json* value = json ? json->member(member) : nullptr;
  return value && value->kind() != Json::Kind::null &&
         (value->kind() != Json::Kind::array || !value->items().empty());
}
Duration from_nanoseconds(double value) {
  return Duration{static_cast<Duration::rep>(value / 1e6)};
}
std::string plain(double value) { return std::to_string(static_cast<std::int64_t>(value)); }

bool in_cluster(const Json& info) { return !text(info.member("cluster"), "name").empty(); }

// Room that is used up refuses what is new, or drops what is old. `facts` are those of the fix.
void check_room(std::string_view key, const std::string& about, std::string_view what, double used,
                double most, const Facts& facts, Findings& found) {
  if (most <= 0 || used < kNearlyFull * most) return;
  const Facts room{{"percent", plain(100 * used / most)},
                   {"room", std::string(what)},
                   {"used", plain(used)},
                   {"most", plain(most)}};
  found.push_back(core::finding(key,
                                used >= kAlmostNoRoom * most ? Severity::hazard : Severity::warning,
                                about, core::together(room, facts)));
}

// A rule on a stream of others': when it holds, this is found.
class ForeignRules {
 public:
  ForeignRules(const Queue& queue, const Json& info)
      : queue_(queue), info_(info), config_(info.member("config")) {}

  Findings run() {
    limits();
    age();
    storage();
    acknowledgements();
    retention();
    content();
    return std::move(found_);
  }

 private:
  // The queue and the stream are facts of every finding.
  void find(std::string_view key, Severity severity, const Facts& facts = {}) {
    const Facts both{{"queue", queue_.name}, {"stream", queue_.stream}};
    found_.push_back(core::finding(key, severity, about(), core::together(both, facts)));
  }
  std::string about() const { return "stream " + queue_.stream + " of queue " + queue_.name; }

  void limits() {
    const bool drops = text(config_, "discard") != "new";
    const double per_subject = number(config_, "max_msgs_per_subject");
    for (const char* limit : {"max_msgs", "max_bytes"}) {
      if (number(config_, limit) <= 0) continue;
      const Facts facts{{"limit", limit}, {"value", plain(number(config_, limit))}};
      if (drops)
        find("stream_discards_old", Severity::hazard, facts);
      else
        find("stream_limit", Severity::note, facts);
    }
    if (per_subject > 0 && (drops || !is_set(config_, "discard_new_per_subject")))
      find("stream_per_subject", Severity::hazard, {{"value", plain(per_subject)}});
    if (drops) return;
    const Json* state = info_.member("state");
    const auto check = [&](std::string_view what, const char* used, const char* limit) {
      check_room("nearly_full/foreign_stream", about(), what, number(state, used),
                 number(config_, limit), {{"stream", queue_.stream}, {"limit", limit}}, found_);
    };
    check("its bytes", "bytes", "max_bytes");
    check("its messages", "messages", "max_msgs");
  }

  void age() {
    const Duration age = from_nanoseconds(number(config_, "max_age"));
    const Duration schedule = retry_schedule(queue_);
    if (age > Duration{0} && age < schedule)
      find("stream_age_below_retries", Severity::hazard,
           {{"value", time_text(age)}, {"schedule", time_text(schedule)}});
    else if (age > Duration{0})
      find("stream_max_age", Severity::warning, {{"value", time_text(age)}});
    if (is_set(config_, "allow_msg_ttl")) find("stream_message_ttl", Severity::warning);
  }

  void storage() {
    if (text(config_, "storage") == "memory") find("stream_in_memory", Severity::hazard);
    if (text(config_, "persist_mode") == "async") find("stream_async", Severity::hazard);
  }

  void acknowledgements() {
    if (is_set(config_, "no_ack")) find("stream_no_ack", Severity::hazard);
    const Duration window = from_nanoseconds(number(config_, "duplicate_window"));
    const bool by_id = queue_.key == "header:Nats-Msg-Id";
    find("stream_duplicate_window", Severity::note,
         {{"value", time_text(window)}, {"key", by_id ? "Nats-Msg-Id" : ""}});
    if (text(config_, "retention") == "workqueue") find("stream_forgets_ids", Severity::note);
  }

  void retention() {
    if (text(config_, "retention") == "interest") find("stream_interest", Severity::hazard);
    if (has(config_, "mirror")) find("stream_mirror", Severity::warning);
    if (has(config_, "sources")) find("stream_sources", Severity::note);
    if (is_set(config_, "sealed")) find("stream_sealed", Severity::warning);
  }

  void content() {
    if (is_set(config_, "allow_rollup_hdrs")) find("stream_rollup", Severity::warning);
    if (!is_set(config_, "deny_purge") || !is_set(config_, "deny_delete"))
      find("stream_purgeable", Severity::note);
    if (has(config_, "subject_transform")) find("stream_transform", Severity::note);
  }

  const Queue& queue_;
  const Json& info_;
  const Json* config_;
  Findings found_;
};

}  // namespace

Duration retry_schedule(const Queue& queue) {
  const core::Policy policy = core::policy_of(queue);
  const Duration each = std::max(policy.timeout, policy.lease);
  Duration all = each * policy.attempts;
  for (std::uint32_t attempt = 1; attempt < policy.attempts; ++attempt)
    all += core::backoff_after(policy, attempt, 1.0);
  return all;
}

Findings check_own_stream(const StreamLook& stream) {
  Findings found;
  const std::string& name = stream.plan.name;
  for (const Difference& edit : edits_of(stream))
    found.push_back(core::finding("stream_setting", Severity::hazard, "stream " + name,
                                  {{"stream", name},
                                   {"field", edit.field},
                                   {"found", edit.found},
                                   {"wanted", edit.wanted},
                                   {"harm", std::string(harm_of(edit.field))}}));
  const Json* state = stream.info.member("state");
  const Json* config = stream.info.member("config");
  const auto check = [&](std::string_view what, const char* used, const char* limit) {
    check_room("nearly_full/own_stream", "stream " + name, what, number(state, used),
               number(config, limit), {{"stream", name}, {"limit", limit}}, found);
  };
  check("its bytes", "bytes", "max_bytes");
  check("its messages", "messages", "max_msgs");
  for (once::Finding& each : check_replicas(name, stream.info, false))
    found.push_back(std::move(each));
  return found;
}

Findings check_replicas(const std::string& stream, const Json& info, bool foreign) {
  Findings found;
  const Json* cluster = info.member("cluster");
  const double copies = number(info.member("config"), "num_replicas");
  if (in_cluster(info) && copies < 3)
    found.push_back(core::finding(copies < 2 ? "few_replicas" : "few_replicas/two",
                                  copies < 2 ? Severity::hazard : Severity::warning,
                                  "stream " + stream,
                                  {{"stream", stream}, {"replicas", plain(copies)}}));
  if (!in_cluster(info) && foreign)
    found.push_back(
        core::finding("single_server", Severity::note, "stream " + stream, {{"stream", stream}}));
  const Json* replicas = cluster ? cluster->member("replicas") : nullptr;
  if (!replicas) return found;
  for (const Json& replica : replicas->items()) {
    const bool offline = is_set(&replica, "offline");
    // In a busy stream a replica is a few writes behind at any moment.
    const bool late = !is_set(&replica, "current") &&
                      (number(&replica, "lag") > kMuchBehind ||
                       from_nanoseconds(number(&replica, "active")) > kLongSilent);
    if (!offline && !late) continue;
    const double lag = number(&replica, "lag");
    found.push_back(core::finding(offline ? "replica_behind/away" : "replica_behind",
                                  Severity::warning, "stream " + stream,
                                  {{"stream", stream},
                                   {"node", text(&replica, "name")},
                                   {"lag", lag > 0 ? plain(lag) : std::string()}}));
  }
  return found;
}

Findings check_foreign_stream(const Queue& queue, const Json& info) {
  Findings found = ForeignRules(queue, info).run();
  for (once::Finding& each : check_replicas(queue.stream, info, true))
    found.push_back(std::move(each));
  return found;
}

Findings check_own_consumer(const Queue& queue, const Plan& plan, const Json& info) {
  Findings found;
  const Json* config = info.member("config");
  const auto edited = [&](const std::string& field, const std::string& is, const std::string& must,
                          std::string harm) {
    found.push_back(core::finding("consumer_edited", Severity::hazard, "queue " + queue.name,
                                  {{"queue", queue.name},
                                   {"stream", plan.name},
                                   {"consumer", text(&info, "name")},
                                   {"field", field},
                                   {"found", is},
                                   {"wanted", must},
                                   {"harm", std::move(harm)}}));
  };
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kHarms{{
      {"max_deliver",
       "after so many deliveries a task is never handed over again, and is no dead "
       "letter either"},
      {"max_ack_pending", "so many tasks that wait for a retry stop all others"},
      {"ack_wait",
       "a task is handed over again while its worker still holds the lease, or much later "
       "than the lease says"},
      {"ack_policy", "a delivery counts as done before anything is recorded"},
      {"filter_subject", "tasks that the filter leaves out are never handed over"},
      {"deliver_policy", "tasks before its beginning are never handed over"},
  }};
  for (const Difference& each : differences(encoding::parse_json(plan.config).value(), config)) {
    const auto* known = std::find_if(kHarms.begin(), kHarms.end(),
                                     [&](const auto& harm) { return harm.first == each.field; });
    edited(each.field, each.found, each.wanted,
           std::string(known == kHarms.end() ? "tasks may be handed over too late or not at all"
                                             : known->second));
  }
  // What we never ask for.
  if (has(config, "backoff"))
    edited("backoff", encoding::canonical(*config->member("backoff")), "none",
           "it overrides ack_wait: a task comes again while its worker holds the lease, and later "
           "than its retry is due");
  if (is_set(config, "headers_only"))
    edited("headers_only", "true", "false", "tasks are handed over without their bodies");
  if (number(config, "inactive_threshold") > 0)
    edited("inactive_threshold", time_text(from_nanoseconds(number(config, "inactive_threshold"))),
           "none", "the server deletes it when no worker was there for so long");
  if (is_set(&info, "paused"))
    found.push_back(core::finding(
        "consumer_paused", Severity::warning, "queue " + queue.name,
        {{"queue", queue.name}, {"stream", plan.name}, {"consumer", text(&info, "name")}}));
  return found;
}

Findings check_other_consumer(const Queue& queue, const Json& consumer) {
  const Json* config = consumer.member("config");
  const std::string name = text(&consumer, "name");
  Findings found;
  const auto find = [&](std::string_view key, Severity severity, std::string value = {}) {
    found.push_back(core::finding(key, severity, "consumer " + name + " on stream " + queue.stream,
                                  {{"queue", queue.name},
                                   {"stream", queue.stream},
                                   {"consumer", name},
                                   {"key", queue.key},
                                   {"value", std::move(value)}}));
  };
  find("other_consumer", Severity::note);
  if (has(config, "backoff"))
    find("other_consumer_backoff", Severity::warning,
         time_text(from_nanoseconds(number(config, "ack_wait"))));
  if (number(config, "max_deliver") > 0)
    find("other_consumer_max_deliver", Severity::warning, plain(number(config, "max_deliver")));
  if (text(config, "ack_policy") == "none") find("other_consumer_no_ack", Severity::warning);
  if (number(config, "max_ack_pending") == 1) find("other_consumer_lock", Severity::note);
  return found;
}

Findings check_dropped(const Queue& queue, const core::Sequences& dropped) {
  if (dropped.empty()) return {};
  constexpr std::size_t kMost = 5;  // ranges that are named
  std::string which;
  std::size_t named = 0;
  for (const auto& [first, last] : dropped.ranges()) {
    if (named++ == kMost) {
      which += ", ...";
      break;
    }
    which += (which.empty() ? "#" : ", #") + std::to_string(first);
    if (last > first) which += " to #" + std::to_string(last);
  }
  return {core::finding("stream_dropped", Severity::hazard,
                        "stream " + queue.stream + " of queue " + queue.name,
                        {{"queue", queue.name},
                         {"stream", queue.stream},
                         {"messages", counted(dropped.count(), "message")},
                         {"which", which}})};
}

Findings check_account(const Json& info) {
  Findings found;
  const auto check = [&](const Json& of, const std::string& about) {
    const Json* limits = of.member("limits");
    const auto room = [&](std::string_view what, const char* used, const char* most) {
      check_room("nearly_full/account", about, what, number(&of, used), number(limits, most), {},
                 found);
    };
    room("its file store", "storage", "max_storage");
    room("its streams", "streams", "max_streams");
    room("its consumers", "consumers", "max_consumers");
  };
  check(info, "the NATS account");
  if (const Json* tiers = info.member("tiers"))
    for (const auto& [name, tier] : tiers->members()) check(tier, "the NATS account, tier " + name);
  return found;
}

Findings check_clock(Duration apart) {
  const Duration size = apart < Duration{0} ? -apart : apart;
  if (size < kClocksApart) return {};
  return {core::finding(
      "clock_offset", Severity::warning, "clock",
      {{"apart", time_text(size)}, {"side", apart > Duration{0} ? "ahead of" : "behind"}})};
}

Findings check_server(const std::string& address, const Json& varz,
                      std::vector<std::string>& checked) {
  Findings found;
  const std::string name = "server " + text(&varz, "server_name") + " (" + address + ")";
  const std::string version = text(&varz, "version");
  const Json* jetstream = varz.member("jetstream");
  const Json* config = jetstream ? jetstream->member("config") : nullptr;
  const bool always = is_set(config, "sync_always");
  const Duration sync = from_nanoseconds(number(config, "sync_interval"));
  checked.push_back(name + ": nats-server " + version + ", sync_interval " +
                    (!config  ? "none: no JetStream"
                     : always ? "always"
                              : time_text(sync)));
  if (config && !always)
    found.push_back(
        core::finding("sync_interval", Severity::warning, name, {{"interval", time_text(sync)}}));
  const double room = number(config, "max_storage");
  check_room("nearly_full/server", name, "its file store",
             number(jetstream ? jetstream->member("stats") : nullptr, "storage"), room, {}, found);
  const auto part = [](std::string_view text, std::size_t& at) {
    int value = 0;
    for (; at < text.size() && text[at] != '.'; ++at) value = 10 * value + (text[at] - '0');
    ++at;
    return value;
  };
  std::size_t at = 0;
  std::size_t lowest_at = 0;
  const std::pair is{part(version, at), part(version, at)};
  const std::pair lowest{part(kLowest, lowest_at), part(kLowest, lowest_at)};
  if (!version.empty() && is < lowest)
    found.push_back(core::finding("server_old", Severity::hazard, name, {{"version", version}}));
  return found;
}

}  // namespace once::store::nats
