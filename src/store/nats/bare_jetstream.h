// The baseline on JetStream: plain publishes, plain writes of records and acknowledgements, in two
// streams of its own on the same server.
#pragma once

#include <memory>

#include "store/nats/nats_store.h"
#include "tooling/bare_store_baseline.h"

namespace once::store {

// Of the options `create` and `clock` mean nothing here.
Result<std::unique_ptr<BareStoreBaseline>> open_bare_jetstream(const NatsOptions& options);

}  // namespace once::store
