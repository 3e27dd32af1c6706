#include "store/nats/doctor/zone_look.h"

#include <algorithm>
#include <chrono>

#include "core/words.h"
#include "store/nats/doctor/monitor.h"

namespace once::store::nats {
namespace {

using core::counted;
using encoding::Json;

// More tasks than that are not counted for a doctor: their log and ledger would have to be read.
constexpr std::uint64_t kCountable = 20'000;

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

}  // namespace

Result<void> ZoneLook::unseen(const std::string& what, const Error& error) {
  if (error.retryable) return error;
  find("not_permitted", Severity::unknown, what, {{"error", error.message}});
  return {};
}

void ZoneLook::learn(const Json& info) {
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

void ZoneLook::at_clock(const StreamLook& ledger, Time before, Time after) {
  const auto told = time_from(text_of(ledger.info, "ts"));
  if (zone_.clock.given() || !told) return;
  const Duration offset = apart(*told, before, after);
  add(check_clock(offset));
  checked("clock: this machine's and the server's are " +
          (offset == Duration{0} ? "together" : core::time_text(abs(offset)) + " apart"));
}

void ZoneLook::at_stream(const StreamLook& stream) {
  add(check_own_stream(stream));
  learn(stream.info);
  const Json* state = stream.info.member("state");
  const bool log = stream.plan.name == zone_.subjects.log_stream();
  if (log && state) to_.last = {number_of(*state, "last_seq").value_or(0)};
  if (state && (log || stream.plan.name == zone_.subjects.ledger_stream()))
    messages_ += number_of(*state, "messages").value_or(0);
}

Result<void> ZoneLook::at_zone_streams() {
  const Time before = machine_time();
  auto streams = look_at_streams(zone_.client, zone_.subjects);
  const Time after = machine_time();
  if (!streams) return streams.error();
  std::uint64_t replicas = 0;
  for (const StreamLook& stream : *streams) {
    at_stream(stream);
    if (stream.plan.name == zone_.subjects.ledger_stream()) at_clock(stream, before, after);
    const Json* config = stream.info.member("config");
    replicas = config ? number_of(*config, "num_replicas").value_or(1) : 1;
  }
  checked(counted(streams->size(), "stream") + " of zone " + zone_.subjects.zone + ", " +
          counted(replicas, "replica") + " each: their settings");
  to_.countable = messages_ <= kCountable || options_.deep;
  return {};
}

Result<void> ZoneLook::at_account() {
  const auto info = zone_.client.call("INFO", "");
  if (!info) return unseen("the NATS account", info.error());
  add(check_account(info->json));
  const Json* limits = info->json.member("limits");
  const Json* storage = limits ? limits->member("max_storage") : nullptr;
  const bool limited = info->json.member("tiers") || (storage && storage->number() > 0);
  checked(limited ? "account: room for streams, consumers and storage"
                  : "account: room for streams and consumers; its storage has no limit but the "
                    "servers'");
  return {};
}

Result<void> ZoneLook::at_monitors() {
  for (const std::string& address : options_.monitors) {
    const auto varz = ask_monitor(address, zone_.client.patience());
    if (!varz && varz.error().code == Code::invalid_input) return varz.error();
    if (!varz) {
      find("monitor_silent", Severity::unknown, address, {{"error", varz.error().message}});
      continue;
    }
    const std::string name = text_of(*varz, "server_name");
    if (!nodes_.contains(name)) {
      find("monitor_stranger", Severity::unknown, address,
           {{"server", name}, {"servers", listed(nodes_)}});
      continue;
    }
    monitored_.insert(name);
    versions_[name] = text_of(*varz, "version");
    add(check_server(address, *varz, to_.checked));
  }
  return {};
}

void ZoneLook::at_servers() {
  std::set<std::string> distinct;
  std::set<std::string> known;
  for (const auto& [name, version] : versions_) {
    distinct.insert(version);
    known.insert(name + " " + version);
  }
  checked("nats-server: " + listed(known));
  if (distinct.size() > 1)
    find("mixed_versions", Severity::warning, "servers", {{"servers", listed(known)}});
  if (const auto unseen = without(nodes_, versions_); !unseen.empty())
    find("versions_unseen", Severity::unknown, "servers", {{"servers", listed(unseen)}});
  at_hidden_settings();
}

// What only a monitoring port tells.
void ZoneLook::at_hidden_settings() {
  const auto unseen = without(nodes_, monitored_);
  if (unseen.empty()) return;
  find("sync_unknown", Severity::unknown, "servers", {{"servers", listed(unseen)}});
  find("room_unknown", Severity::unknown, "servers", {{"servers", listed(unseen)}});
}

}  // namespace once::store::nats
