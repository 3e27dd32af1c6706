// What only this store can see: servers, streams, consumers and the account. judge.h says what it means.
#include <algorithm>
#include <chrono>
#include <functional>
#include <set>

#include "core/words.h"
#include "store/nats/monitor.h"
#include "store/nats/settings_check.h"
#include "store/nats/store_impl.h"

namespace once::store::nats {
namespace {

using core::counted;
using encoding::Json;

constexpr int kNoConsumer = 10014;
// More tasks than that are not counted for a doctor: their log and ledger would have to be read.
constexpr std::uint64_t kCountable = 20'000;
// Of a stream of others' each page of rows costs a whole read.
constexpr std::uint64_t kReadable = 4'000;

std::string member_text(const Json* json, std::string_view name) {
  return json ? text_of(*json, name) : std::string();
}

// How far this machine's clock is from a time that the server told between the two; none: it may be
// right.
Duration apart(Time told, Time before, Time after) {
  if (told < before) return before - told;
  if (told > after) return after - told;
  return {};
}

Time machine_time() { return std::chrono::floor<Duration>(std::chrono::system_clock::now()); }

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

template <class Others>
std::set<std::string> without(std::set<std::string> names, const Others& others) {
  std::erase_if(names, [&](const std::string& name) { return others.contains(name); });
  return names;
}

class Look {
 public:
  Look(const JetStreamClient& jet, const DoctorOptions& options, Examination& to)
      : jet_(jet), options_(options), to_(to) {}

  void add(Findings found) {
    for (once::Finding& each : found) to_.findings.push_back(std::move(each));
  }
  void find(once::Finding finding) { to_.findings.push_back(std::move(finding)); }
  void checked(std::string what) { to_.checked.push_back(std::move(what)); }

  // What this login may not ask is not known; anything else ends the look.
  Result<void> unseen(const std::string& what, const Error& error) {
    if (error.retryable) return error;
    find({.code = "not_permitted",
          .severity = Severity::unknown,
          .about = what,
          .what = "it could not be looked at: " + error.message,
          .harm = "whatever is wrong with it is not seen",
          .fix = "run once doctor with a login that may (docs/nats-permissions.md)"});
    return {};
  }

  // A stream's answer also tells its leader's version and clock.
  void learn(const Json& info) {
    const Json* config = info.member("config");
    const std::string version =
        member_text(config ? config->member("metadata") : nullptr, "_nats.ver");
    const Json* cluster = info.member("cluster");
    const std::string leader = member_text(cluster, "leader");
    if (!leader.empty()) versions_[leader] = version.empty() ? "?" : version;
    if (const Json* replicas = cluster ? cluster->member("replicas") : nullptr)
      for (const Json& replica : replicas->items()) nodes_.insert(text_of(replica, "name"));
    if (!leader.empty()) nodes_.insert(leader);
  }

  Result<void> at_zone_streams(const Subjects& subjects, bool real_time) {
    const Time before = machine_time();
    auto streams = look_at_streams(jet_, subjects);
    const Time after = machine_time();
    if (!streams) return streams.error();
    std::uint64_t replicas = 0;
    for (const StreamLook& stream : *streams) {
      add(judge_own_stream(stream));
      learn(stream.info);
      const Json* config = stream.info.member("config");
      replicas = config ? number_of(*config, "num_replicas").value_or(1) : 1;
      const auto told = time_from(text_of(stream.info, "ts"));
      if (stream.plan.name == subjects.ledger_stream() && real_time && told) {
        const Duration offset = apart(*told, before, after);
        add(judge_clock(offset));
        checked("clock: this machine's and the server's are " +
                (offset == Duration{0} ? "together" : core::time_text(abs(offset)) + " apart"));
      }
      const Json* state = stream.info.member("state");
      if (stream.plan.name == subjects.log_stream() && state) {
        to_.last = {number_of(*state, "last_seq").value_or(0)};
        tasks_ += number_of(*state, "messages").value_or(0);
      }
      if (stream.plan.name == subjects.ledger_stream() && state)
        tasks_ += number_of(*state, "messages").value_or(0);
    }
    checked(counted(streams->size(), "stream") + " of zone " + subjects.zone + ", " +
            counted(replicas, "replica") + " each: their settings");
    to_.countable = tasks_ <= kCountable || options_.deep;
    return {};
  }

  Result<void> at_account() {
    const auto info = jet_.call("INFO", "");
    if (!info) return unseen("the NATS account", info.error());
    add(judge_account(info->json));
    const Json* limits = info->json.member("limits");
    const Json* storage = limits ? limits->member("max_storage") : nullptr;
    const bool limited = info->json.member("tiers") || (storage && storage->number() > 0);
    checked(limited ? "account: room for streams, consumers and storage"
                    : "account: room for streams and consumers; its storage has no limit but the "
                      "servers'");
    return {};
  }

  // Those that lead a stream tell their version; the rest is told at monitoring ports.
  Result<void> at_monitors(Duration patience) {
    for (const std::string& address : options_.monitors) {
      const auto varz = ask_monitor(address, patience);
      if (!varz && varz.error().code == Code::invalid_input) return varz.error();
      if (!varz) {
        find({.code = "monitor_silent",
              .severity = Severity::unknown,
              .about = address,
              .what = varz.error().message,
              .harm = "what that server would tell of itself is not known",
              .fix = "name its monitoring port (http: in its configuration)"});
        continue;
      }
      const std::string name = text_of(*varz, "server_name");
      if (!nodes_.contains(name)) {
        find({.code = "monitor_stranger",
              .severity = Severity::unknown,
              .about = address,
              .what = "the server " + name + " there holds none of the zone's streams",
              .harm = "what it tells of itself says nothing about the zone",
              .fix = "name the monitoring ports of " + listed(nodes_)});
        continue;
      }
      monitored_.insert(name);
      versions_[name] = text_of(*varz, "version");
      add(judge_server(address, *varz, to_.checked));
    }
    return {};
  }

  void at_servers() {
    std::set<std::string> distinct;
    std::set<std::string> known;
    for (const auto& [name, version] : versions_) {
      distinct.insert(version);
      known.insert(name + " " + version);
    }
    checked("nats-server: " + listed(known));
    if (distinct.size() > 1)
      find(
          {.code = "mixed_versions",
           .severity = Severity::warning,
           .about = "servers",
           .what = "not all are of one version: " + listed(known),
           .harm =
               "a cluster is tested with one version; between two of them writes are known to have "
               "been lost",
           .fix = "finish the upgrade, one node after the other"});
    const std::string port = "once doctor --monitor http://HOST:8222 for each";
    if (const auto unseen = without(nodes_, versions_); !unseen.empty())
      find({.code = "versions_unseen",
            .severity = Severity::unknown,
            .about = "servers",
            .what = "the version of " + listed(unseen) + " is not visible: no stream is led there",
            .harm = "servers before 2.12 lose or repeat writes",
            .fix = port + ", or nats server list"});
    const auto unseen = without(nodes_, monitored_);
    if (unseen.empty()) return;
    const std::string hidden = " of " + listed(unseen) + " is not visible to this login";
    find({.code = "sync_unknown",
          .severity = Severity::unknown,
          .about = "servers",
          .what = "sync_interval" + hidden,
          .harm = "unless it is always, the last 2 minutes of receipts and completions may be gone "
                  "when the machine loses power, and what was done is run again (docs/nats.md)",
          .fix = port + ", or look for sync_interval in its configuration"});
    find({.code = "room_unknown",
          .severity = Severity::unknown,
          .about = "servers",
          .what = "not checked: the room in the file store" + hidden,
          .harm = "when it is full, nothing can be published or recorded",
          .fix = port + ", or nats server report jetstream"});
  }

  Result<void> at_other_consumers(const KnownQueue& queue) {
    const std::string& stream = queue.definition.stream;
    const auto list = jet_.call("CONSUMER.LIST." + stream, "");
    if (!list) return unseen("the consumers of stream " + stream, list.error());
    const Json* consumers = list->json.member("consumers");
    if (!consumers) return {};
    for (const Json& each : consumers->items())
      if (text_of(each, "name") != queue.consumer())
        add(judge_other_consumer(queue.definition, each));
    if (number_of(list->json, "total").value_or(0) > consumers->items().size())
      checked("stream " + stream + ": its first " + counted(consumers->items().size(), "consumer"));
    return {};
  }

  const JetStreamClient& jet_;
  const DoctorOptions& options_;
  Examination& to_;

 private:
  std::map<std::string, std::string> versions_;  // by server
  std::set<std::string> nodes_;                  // that hold one of the zone's streams
  std::set<std::string> monitored_;              // of them
  std::uint64_t tasks_{};
};

// Once per queue: what its consumers and the stream that it is on are like.
class QueueLook {
 public:
  QueueLook(Look& look, const KnownQueue& queue) : look_(look), queue_(queue) {}

  Result<void> at_stream() {
    if (!queue_.foreign()) return {};
    const std::string& stream = queue_.definition.stream;
    auto info = look_.jet_.stream_info(stream);
    if (!info) return look_.unseen("stream " + stream, info.error());
    if (!*info) return gone("is not there any more", "make it again, or remove the queue");
    if (text_of(**info, "created") != queue_.stream_made)
      return gone("was deleted and made anew: it counts from one again",
                  "bind a queue of another name to it; removing this one forgets its keys");
    stream_ = std::move(**info);
    look_.learn(*stream_);
    look_.add(judge_foreign_stream(queue_.definition, *stream_));
    glance.readable = number_of(*stream_->member("state"), "messages").value_or(0) <= kReadable;
    look_.checked("stream " + stream + " of queue " + queue_.definition.name + ": its settings");
    return look_.at_other_consumers(queue_);
  }

  Result<void> at_consumer(const Plan& plan, bool source) {
    const auto info = look_.jet_.call("CONSUMER.INFO." + plan.name + "." + queue_.consumer(), "");
    if (!info) return look_.unseen("a consumer of queue " + queue_.definition.name, info.error());
    if (info->error == kNoConsumer) {
      look_.find(
          {.code = "consumer_missing",
           .severity = Severity::warning,
           .about = "queue " + queue_.definition.name,
           .what = "its consumer on " + plan.name + " is not there: somebody deleted it",
           .harm = std::string("nothing is handed over until a worker starts, which makes it anew; "
                               "the ledger keeps what is settled from being run again") +
                   (queue_.foreign() ? ". An interest or work-queue stream may drop what comes "
                                       "meanwhile"
                                     : ""),
           .fix = "start a worker of the queue"});
      return {};
    }
    if (info->error != 0) return {};
    look_.add(judge_own_consumer(queue_.definition, plan, info->json));
    if (!source) return {};
    glance.waiting = number_of(info->json, "num_pending").value_or(0);
    if (const Json* floor = info->json.member("ack_floor"); floor && !look_.to_.countable)
      glance.open_after = {number_of(*floor, "stream_seq").value_or(0)};
    return {};
  }

  // Up to which message it is worth a look whether the stream dropped some; zero: it is not.
  std::uint64_t last_of_stream() const {
    const Json* state = stream_ ? stream_->member("state") : nullptr;
    // With a narrower filter, what is gone may never have been the queue's.
    return state && queue_.definition.topic == ">" ? number_of(*state, "last_seq").value_or(0) : 0;
  }

  bool stream_is_gone() const { return queue_.foreign() && !stream_; }

  QueueGlance glance{};

 private:
  Result<void> gone(const std::string& what, const std::string& fix) {
    glance.readable = false;
    look_.find(
        {.code = "stream_gone",
         .severity = Severity::hazard,
         .about = "stream " + queue_.definition.stream + " of queue " + queue_.definition.name,
         .what = "it " + what,
         .harm = "what waited in it is lost, and nothing is fetched",
         .fix = fix});
    return {};
  }

  Look& look_;
  const KnownQueue& queue_;
  std::optional<Json> stream_;
};

// What is settled while this reads may be missed once, so a second look confirms it.
Result<void> look_for_dropped(const KnownQueue& queue, bool readable, Look& look,
                              const std::function<Result<core::Sequences>()>& dropped) {
  const std::string& stream = queue.definition.stream;
  if (!readable) {
    look.checked("stream " + stream + ": not whether it dropped messages (--deep)");
    return {};
  }
  auto found = dropped();
  if (found && !found->empty()) found = dropped();
  if (!found) return found.error();
  look.add(judge_dropped(queue.definition, *found));
  look.checked("stream " + stream + ": whether the queue was handed all of it");
  return {};
}

}  // namespace

Result<Examination> NatsStore::examine(const DoctorOptions& options) {
  Examination examination;
  Look look(zone_->jet, options, examination);
  if (auto done = look.at_zone_streams(zone_->subjects, !zone_->travel); !done) return done.error();
  if (const auto lost = zone_->watch.lost())
    look.find({.code = "zone_emptied",
               .severity = Severity::hazard,
               .about = "zone " + zone_->subjects.zone,
               .what = lost->message,
               .harm = "nothing new is begun in this zone, and commands refuse it",
               .fix =
                   "stop the workers, then restore a backup of all streams of the zone, or accept "
                   "the loss (docs/nats.md, \"When data was lost\")"});
  if (auto done = look.at_account(); !done) return done.error();
  const auto queues = all_known_to_the_leader();
  if (!queues) return queues.error();
  for (const KnownQueue& queue : *queues) {
    const std::string& name = queue.definition.name;
    if (!options.queue.empty() && options.queue != name) continue;
    if (queue.definition.ledger) {  // a page of its rows costs a read of all its keys
      if (!examination.countable) examination.queues[name].readable = false;
      continue;
    }
    QueueLook each(look, queue);
    if (auto done = each.at_stream(); !done) return done.error();
    const auto plans = consumers_of(queue);
    for (const Plan& plan : plans)
      if (!each.stream_is_gone())
        if (auto done = each.at_consumer(plan, &plan == &plans.back()); !done) return done.error();
    if (const std::uint64_t last = each.last_of_stream(); last > 0)
      if (auto done = look_for_dropped(
              queue, (each.glance.readable && examination.countable) || options.deep, look,
              [&] { return dropped_by_stream(queue, last); });
          !done)
        return done.error();
    const auto alive = workers(name);
    if (!alive) return alive.error();
    each.glance.workers = *alive;
    examination.queues[name] = each.glance;
  }
  if (auto done = look.at_monitors(zone_->jet.patience()); !done) return done.error();
  look.at_servers();
  return examination;
}

}  // namespace once::store::nats
