#include "store/nats/nats_store.h"

#include <array>

#include "core/names.h"
#include "store/nats/store_impl.h"

namespace once::store::nats {
namespace {

std::optional<Time> server_time(const JetStreamClient& jet, const Subjects& subjects) {
  // The ledger's leader stamps the records: leases are compared with its clock and no other.
  const auto info = jet.call("STREAM.INFO." + subjects.ledger_stream(), "");
  if (!info || info->error != 0) return std::nullopt;
  return time_from(text_of(info->json, "ts"));
}

}  // namespace

Zone::Zone(std::unique_ptr<RequestMux> opened, const NatsOptions& options)
    : exchange(std::move(opened)),
      jet(*exchange, options.patience),
      subjects{.zone = options.zone},
      clock(options.clock, [this] { return server_time(jet, subjects); }),
      travel(options.clock ? TimeTravel::under(options.clock) : nullptr),
      watch(*exchange, options.patience, subjects) {}

void Zone::ring() {
  ++news;
  const std::lock_guard lock(mutex);
  for (const auto& bell : waiting) bell->ring();
}

}  // namespace once::store::nats

namespace once::store {

Result<std::unique_ptr<Store>> open_nats(const NatsOptions& options) {
  using namespace nats;
  if (auto ok = core::check_name(options.zone, "zone"); !ok) return ok.error();
  auto exchange = RequestMux::open({.servers = options.servers,
                                    .login = options.login,
                                    .log = options.log,
                                    .ping_every = options.patience});
  if (!exchange) return exchange.error();
  const auto zone = std::make_shared<nats::Zone>(std::move(*exchange), options);
  if (auto checked = zone->jet.check_server(); !checked) return checked.error();
  auto identity = open_streams(zone->jet, zone->subjects, options.create, options.as_it_is);
  if (!identity) return identity.error();
  // Time goes on where the last write left it: by the server's clock, or by a given one's stamps.
  if (!options.clock) zone->clock.at_least(identity->last_write);
  const Subjects& subjects = zone->subjects;
  const std::array<std::pair<std::string, std::string>, 2> stamped{
      {{subjects.ledger_stream(), subjects.all_records()},
       {subjects.log_stream(), subjects.whole_log()}}};
  for (const auto& [stream, filter] : stamped) {
    if (!options.clock) break;
    const auto kept = zone->jet.last(stream, filter);
    if (!kept) return kept.error();
    if (*kept) zone->clock.at_least(zone->clock.stamp_of(**kept));
  }
  std::string uuid = identity->uuid;
  if (identity->new_ledger) zone->own_writes.pass_seal();
  zone->watch.begin(std::move(*identity), options.look_every,
                    [alive = zone.get()] { alive->ring(); });
  return std::unique_ptr<Store>(std::make_unique<NatsStore>(zone, std::move(uuid)));
}

}  // namespace once::store
