#include "store/nats/zone_connection.h"

namespace once::store::nats {
namespace {

std::optional<Time> server_time(const JetStreamClient& client, const Subjects& subjects) {
  // The leader of the ledger's stream stamps the records. So leases are compared with its clock
  // only.
  const auto info = client.call("STREAM.INFO." + subjects.ledger_stream(), "");
  if (!info || info->error != 0) return std::nullopt;
  return time_from(text_of(info->json, "ts"));
}

}  // namespace

ZoneConnection::ZoneConnection(std::unique_ptr<RequestMux> opened, const NatsOptions& options)
    : mux(std::move(opened)),
      client(*mux, options.patience),
      subjects{.zone = options.zone},
      clock(options.clock, [this] { return server_time(client, subjects); }) {}

}  // namespace once::store::nats
