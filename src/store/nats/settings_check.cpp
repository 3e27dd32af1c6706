#include "store/nats/settings_check.h"

#include <algorithm>
#include <array>
#include <numeric>

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
constexpr double kFull = 0.95;
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

// Room that is used up refuses what is new, or drops what is old.
void judge_room(const std::string& about, std::string_view what, double used, double most,
                const std::string& fix, Findings& found) {
  if (most <= 0 || used < kNearlyFull * most) return;
  found.push_back({.code = "nearly_full",
                   .severity = used >= kFull * most ? Severity::hazard : Severity::warning,
                   .about = about,
                   .what = plain(100 * used / most) + " % of " + std::string(what) + " are used (" +
                           plain(used) + " of " + plain(most) + ")",
                   .harm =
                       "when it is full nothing is published, and a completion cannot be recorded: "
                       "its task is in doubt or run again, though its effect has happened",
                   .fix = fix});
}

std::string edit(const std::string& stream, const std::string& options) {
  return "nats stream edit " + stream + " " + options;
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
  void find(std::string code, Severity severity, std::string what, std::string harm,
            std::string fix) {
    found_.push_back({.code = std::move(code),
                      .severity = severity,
                      .about = "stream " + queue_.stream + " of queue " + queue_.name,
                      .what = std::move(what),
                      .harm = std::move(harm),
                      .fix = std::move(fix)});
  }

  void limits() {
    const bool drops = text(config_, "discard") != "new";
    const double per_subject = number(config_, "max_msgs_per_subject");
    for (const char* limit : {"max_msgs", "max_bytes"}) {
      if (number(config_, limit) <= 0) continue;
      if (drops)
        find("stream_discards_old", Severity::hazard,
             std::string(limit) + " is " + plain(number(config_, limit)) + " with discard old",
             "when it is full the oldest messages are dropped to make room: tasks that wait are "
             "lost "
             "without a word",
             edit(queue_.stream, "--discard new"));
      else
        find("stream_limit", Severity::note,
             std::string(limit) + " is " + plain(number(config_, limit)) + " with discard new",
             "when it is full publishers are refused; who does not look at the answer loses the "
             "task",
             "leave room, and let publishers look at every acknowledgement");
    }
    if (per_subject > 0 && (drops || !is_set(config_, "discard_new_per_subject")))
      find("stream_per_subject", Severity::hazard, "max_msgs_per_subject is " + plain(per_subject),
           "a newer message on a subject drops an older one that still waits: that task is lost",
           edit(queue_.stream, "--max-msgs-per-subject=-1"));
    const Json* state = info_.member("state");
    const std::string about = "stream " + queue_.stream + " of queue " + queue_.name;
    if (!drops) {
      judge_room(about, "its bytes", number(state, "bytes"), number(config_, "max_bytes"),
                 edit(queue_.stream, "--max-bytes ..."), found_);
      judge_room(about, "its messages", number(state, "messages"), number(config_, "max_msgs"),
                 edit(queue_.stream, "--max-msgs ..."), found_);
    }
  }

  void age() {
    const Duration age = from_nanoseconds(number(config_, "max_age"));
    const Duration schedule = retry_schedule(queue_);
    if (age > Duration{0} && age < schedule)
      find("stream_age_below_retries", Severity::hazard,
           "max_age is " + time_text(age) + ", and the attempts of a task may take " +
               time_text(schedule),
           "a message is dropped between two attempts: the task becomes a dead letter without a "
           "body",
           edit(queue_.stream, "--max-age 0") + ", or fewer attempts (once queue set " +
               queue_.name + " --attempts N)");
    else if (age > Duration{0})
      find("stream_max_age", Severity::warning, "max_age is " + time_text(age),
           "a task that waits for longer (no worker, a long outage) is dropped without a word",
           edit(queue_.stream, "--max-age 0") + ", or far above your longest outage");
    if (is_set(config_, "allow_msg_ttl"))
      find("stream_message_ttl", Severity::warning, "allow_msg_ttl is on",
           "a message that is published with Nats-TTL is dropped when its time is over, run or not",
           "let no publisher give tasks a TTL");
  }

  void storage() {
    if (text(config_, "storage") == "memory")
      find("stream_in_memory", Severity::hazard, "storage is memory",
           "a restart of the server takes every task that waits",
           "make it anew with --storage file; a stream cannot be changed to that");
    if (text(config_, "persist_mode") == "async")
      find("stream_async", Severity::hazard, "persist_mode is async",
           "a message is acknowledged before it is written, whatever sync_interval says: a server "
           "that "
           "dies takes it along",
           "make it anew without --persist-mode async");
  }

  void acknowledgements() {
    if (is_set(config_, "no_ack"))
      find("stream_no_ack", Severity::hazard, "no_ack is on",
           "publishers are not told whether a task was stored: what is lost on the way is not sent "
           "again",
           edit(queue_.stream, "--ack"));
    const Duration window = from_nanoseconds(number(config_, "duplicate_window"));
    const bool by_id = queue_.key == "header:Nats-Msg-Id";
    find("stream_duplicate_window", Severity::note,
         "duplicate_window is " + time_text(window) +
             (by_id ? ", and the queue's key is Nats-Msg-Id" : ""),
         "inside it a second publish with the same Nats-Msg-Id is answered as stored whatever its "
         "content: other content is lost at the server. A retry after it is stored again, and the "
         "queue's ledger settles it as a duplicate for as long as the key is kept (once retention)",
         "never use an id for other content");
    if (text(config_, "retention") == "workqueue")
      find("stream_forgets_ids", Severity::note,
           "it is a work queue: what is acknowledged is deleted",
           "a restart of the server forgets the ids of deleted messages, even inside the window, "
           "and "
           "stores a retry again; the queue's ledger settles it as a duplicate",
           "nothing, as long as every consumer of it goes through a ledger");
  }

  void retention() {
    if (text(config_, "retention") == "interest")
      find(
          "stream_interest", Severity::hazard, "retention is interest",
          "a message that comes while the queue's consumer is not there (deleted, not made yet) is "
          "dropped at once",
          "make it anew with --retention limits or work");
    if (has(config_, "mirror"))
      find("stream_mirror", Severity::warning, "it is a mirror",
           "it lags behind its origin, and what the origin drops before it was copied never comes",
           "bind the queue to the origin where that can be reached");
    if (has(config_, "sources"))
      find("stream_sources", Severity::note, "it takes messages from other streams",
           "what they drop before it was copied never comes; what comes by two ways has one key, "
           "and "
           "is run once",
           "look at the settings of those streams as well");
    if (is_set(config_, "sealed"))
      find("stream_sealed", Severity::warning, "it is sealed",
           "nothing new is stored: publishers are refused", "publish to another stream");
  }

  void content() {
    if (is_set(config_, "allow_rollup_hdrs"))
      find("stream_rollup", Severity::warning, "allow_rollup_hdrs is on",
           "one message with Nats-Rollup takes all that wait on its subject, or in the stream, "
           "with it",
           edit(queue_.stream, "--no-allow-rollup"));
    if (!is_set(config_, "deny_purge") || !is_set(config_, "deny_delete"))
      find("stream_purgeable", Severity::note, "messages may be purged or deleted",
           "who does so takes tasks that wait; what was begun becomes a dead letter that says so",
           "make it with --deny-purge and --deny-delete, which cannot be taken back");
    if (has(config_, "subject_transform"))
      find("stream_transform", Severity::note, "subjects are changed as messages are stored",
           "a filter of the queue's that was written for the old names matches nothing",
           "give the queue the names as they are stored");
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

Findings judge_own_stream(const StreamLook& stream) {
  Findings found;
  const std::string& name = stream.plan.name;
  for (const Difference& edit : edits_of(stream))
    found.push_back({.code = "stream_setting",
                     .severity = Severity::hazard,
                     .about = "stream " + name,
                     .what = edit.field + " is " + edit.found + " instead of " + edit.wanted +
                             ": nothing new is begun until it is set back",
                     .harm = std::string(harm_of(edit.field)),
                     .fix = "nats stream edit " + name +
                            " sets it back; one that is sealed, or whose "
                            "storage or mirror was changed, comes from a backup"});
  const Json* state = stream.info.member("state");
  const Json* config = stream.info.member("config");
  judge_room("stream " + name, "its bytes", number(state, "bytes"), number(config, "max_bytes"),
             edit(name, "--max-bytes=-1"), found);
  judge_room("stream " + name, "its messages", number(state, "messages"),
             number(config, "max_msgs"), edit(name, "--max-msgs=-1"), found);
  for (once::Finding& each : judge_replicas(name, stream.info, false))
    found.push_back(std::move(each));
  return found;
}

Findings judge_replicas(const std::string& stream, const Json& info, bool foreign) {
  Findings found;
  const Json* cluster = info.member("cluster");
  const double copies = number(info.member("config"), "num_replicas");
  if (in_cluster(info) && copies < 3)
    found.push_back(
        {.code = "few_replicas",
         .severity = copies < 2 ? Severity::hazard : Severity::warning,
         .about = "stream " + stream,
         .what = plain(copies) + " of its cluster's nodes hold" + (copies < 2 ? "s" : "") + " it",
         .harm = copies < 2 ? "when that node is away nothing goes on; when its disk is "
                              "lost, everything is"
                            : "two replicas stand still when one of them is away",
         .fix = edit(stream, "--replicas 3")});
  if (!in_cluster(info) && foreign)
    found.push_back({.code = "single_server",
                     .severity = Severity::note,
                     .about = "stream " + stream,
                     .what = "one server holds it",
                     .harm = "what waits goes with its disk",
                     .fix = "three nodes and --replicas 3, or backups"});
  const Json* replicas = cluster ? cluster->member("replicas") : nullptr;
  if (!replicas) return found;
  for (const Json& replica : replicas->items()) {
    const bool offline = is_set(&replica, "offline");
    // In a busy stream a replica is a few writes behind at any moment.
    const bool late = !is_set(&replica, "current") &&
                      (number(&replica, "lag") > kMuchBehind ||
                       from_nanoseconds(number(&replica, "active")) > kLongSilent);
    if (!offline && !late) continue;
    found.push_back({.code = "replica_behind",
                     .severity = Severity::warning,
                     .about = "stream " + stream,
                     .what = "its replica on " + text(&replica, "name") +
                             (offline ? " is away" : " is not current") +
                             (number(&replica, "lag") > 0
                                  ? ", " + plain(number(&replica, "lag")) + " writes behind"
                                  : ""),
                     .harm = "one failure more, and nothing can be published or recorded; with a "
                             "damaged disk beside it, acknowledged writes are lost",
                     .fix = "bring that node back and wait until it is current"});
  }
  return found;
}

Findings judge_foreign_stream(const Queue& queue, const Json& info) {
  Findings found = ForeignRules(queue, info).run();
  for (once::Finding& each : judge_replicas(queue.stream, info, true))
    found.push_back(std::move(each));
  return found;
}

Findings judge_own_consumer(const Queue& queue, const Plan& plan, const Json& info) {
  Findings found;
  const Json* config = info.member("config");
  const auto edited = [&](const std::string& field, const std::string& is, const std::string& must,
                          std::string harm) {
    found.push_back({.code = "consumer_edited",
                     .severity = Severity::hazard,
                     .about = "queue " + queue.name,
                     .what = "its consumer " + text(&info, "name") + " on " + plan.name + " has " +
                             field + " " + is + " instead of " + must,
                     .harm = std::move(harm),
                     .fix = "start a worker of the queue, or set its lease again (once queue set " +
                            queue.name + " --lease): either sets it back"});
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
    found.push_back({.code = "consumer_paused",
                     .severity = Severity::warning,
                     .about = "queue " + queue.name,
                     .what = "its consumer on " + plan.name + " is paused at the server",
                     .harm = "nothing is lost, and nothing is handed over",
                     .fix = "nats consumer resume " + plan.name + " " + text(&info, "name")});
  return found;
}

Findings judge_other_consumer(const Queue& queue, const Json& consumer) {
  const Json* config = consumer.member("config");
  const std::string name = text(&consumer, "name");
  Findings found;
  const auto find = [&](std::string code, Severity severity, std::string what, std::string harm,
                        std::string fix) {
    found.push_back({.code = std::move(code),
                     .severity = severity,
                     .about = "consumer " + name + " on stream " + queue.stream,
                     .what = std::move(what),
                     .harm = std::move(harm),
                     .fix = std::move(fix)});
  };
  find("other_consumer", Severity::note, "another consumer takes messages of this stream",
       "whoever works on what it delivers does so beside the queue's ledger: nothing keeps that "
       "work "
       "from being done twice",
       "give it a queue of its own: once queue add NAME --stream " + queue.stream + " --key " +
           queue.key);
  if (has(config, "backoff"))
    find("other_consumer_backoff", Severity::warning,
         "it has a backoff, and that overrides its ack_wait: its lease is " +
             time_text(from_nanoseconds(number(config, "ack_wait"))),
         "work that takes longer is handed to a second worker while the first is at it",
         "leave the backoff out, or make its first value longer than the work takes");
  if (number(config, "max_deliver") > 0)
    find(
        "other_consumer_max_deliver", Severity::warning,
        "max_deliver is " + plain(number(config, "max_deliver")),
        "after so many deliveries the message is never handed over again, and nothing says so: the "
        "task is lost though it is stored",
        "max_deliver -1, with attempts and dead letters in a ledger");
  if (text(config, "ack_policy") == "none")
    find("other_consumer_no_ack", Severity::warning, "its ack_policy is none",
         "a message counts as done when it was sent: a worker that dies loses it",
         "ack_policy explicit, and acknowledge after the work is recorded");
  if (number(config, "max_ack_pending") == 1)
    find("other_consumer_lock", Severity::note, "max_ack_pending is 1",
         "that is no lock: a redelivery goes past it, and two workers are at one message",
         "hold a lease in a ledger: once claim");
  return found;
}

Findings judge_dropped(const Queue& queue, const core::Sequences& dropped) {
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
  return {{.code = "stream_dropped",
           .severity = Severity::hazard,
           .about = "stream " + queue.stream + " of queue " + queue.name,
           .what = counted(dropped.count(), "message") + " that the queue was never handed " +
                   (dropped.count() == 1 ? "is" : "are") + " gone: " + which,
           .harm = "those tasks are lost: the stream dropped them, or somebody deleted them",
           .fix = "publish them again, and see to the stream's limits: docs/foreign-streams.md"}};
}

Findings judge_account(const Json& info) {
  Findings found;
  const auto judge = [&](const Json& of, const std::string& about) {
    const Json* limits = of.member("limits");
    const std::string fix = "raise the account's limit, or keep less: once retention";
    judge_room(about, "its file store", number(&of, "storage"), number(limits, "max_storage"), fix,
               found);
    judge_room(about, "its streams", number(&of, "streams"), number(limits, "max_streams"), fix,
               found);
    judge_room(about, "its consumers", number(&of, "consumers"), number(limits, "max_consumers"),
               fix, found);
  };
  judge(info, "the NATS account");
  if (const Json* tiers = info.member("tiers"))
    for (const auto& [name, tier] : tiers->members()) judge(tier, "the NATS account, tier " + name);
  return found;
}

Findings judge_clock(Duration apart) {
  const Duration size = apart < Duration{0} ? -apart : apart;
  if (size < kClocksApart) return {};
  return {{.code = "clock_offset",
           .severity = Severity::warning,
           .about = "clock",
           .what = "this machine's clock is " + time_text(size) +
                   (apart > Duration{0} ? " ahead of" : " behind") + " the NATS server's",
           .harm = "leases and retries go by the server's clock, so nothing is lost or repeated by "
                   "them; but a publish with --at or --expires given as a time is held back, or "
                   "cancelled, by as much",
           .fix = "set both clocks right and keep them so (chrony, systemd-timesyncd)"}};
}

Findings judge_server(const std::string& address, const Json& varz,
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
    found.push_back({.code = "sync_interval",
                     .severity = Severity::warning,
                     .about = name,
                     .what = "it flushes to disk every " + time_text(sync),
                     .harm =
                         "a receipt is given before that: when the machine loses power, tasks and "
                         "completions of so long may be gone, and what was done is run again",
                     .fix = "sync_interval: always in the jetstream block of its configuration"});
  const double room = number(config, "max_storage");
  judge_room(name, "its file store",
             number(jetstream ? jetstream->member("stats") : nullptr, "storage"), room,
             "raise max_file_store, or keep less: once retention", found);
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
    found.push_back({.code = "server_old",
                     .severity = Severity::hazard,
                     .about = name,
                     .what = "it is nats-server " + version,
                     .harm =
                         "servers before 2.12 acknowledge tasks that they don't store, or let two "
                         "writers win one compare-and-swap",
                     .fix = "2.12 or newer on every node"});
  return found;
}

}  // namespace once::store::nats
