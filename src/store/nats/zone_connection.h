// The connection to one zone: the client, the names of the zone's streams and subjects, and the zone's
// clock. Every part of the store uses it. Any thread may use it.
#pragma once

#include <memory>

#include "store/nats/client/jetstream_client.h"
#include "store/nats/nats_store.h"
#include "store/nats/subjects.h"
#include "store/nats/zone_clock.h"

namespace once::store::nats {

struct ZoneConnection {
  ZoneConnection(std::unique_ptr<RequestMux> opened, const NatsOptions& options);
  ZoneConnection(const ZoneConnection&) = delete;
  ZoneConnection& operator=(const ZoneConnection&) = delete;

  const std::unique_ptr<RequestMux> mux;
  const JetStreamClient client;
  const Subjects subjects;
  ZoneClock clock;

  StoreTime now() { return clock.now(); }
};

}  // namespace once::store::nats
