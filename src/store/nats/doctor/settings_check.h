// What the settings of streams, consumers, accounts and servers put at risk. Pure: values as the server
// tells them in, findings out.
#pragma once

#include <vector>

#include "core/sequences.h"
#include "json/json.h"
#include "store/nats/streams.h"

namespace once::store::nats {

using Findings = std::vector<once::Finding>;

// A stream of the zone's own.
Findings check_own_stream(const StreamLook& stream);
// Whatever holds for any stream: replicas, their state, room.
Findings check_replicas(const std::string& stream, const encoding::Json& info, bool foreign);
// A stream that others publish to, hardest: nothing of it is ours.
Findings check_foreign_stream(const Queue& queue, const encoding::Json& info);
// A consumer of ours against what it must be.
Findings check_own_consumer(const Queue& queue, const Plan& plan, const encoding::Json& info);
// Another's on a stream that a queue is on.
Findings check_other_consumer(const Queue& queue, const encoding::Json& consumer);
// What the queue was never handed because the stream had dropped it.
Findings check_dropped(const Queue& queue, const core::Sequences& dropped);
Findings check_account(const encoding::Json& info);
// This machine's clock against the server's.
Findings check_clock(Duration apart);
// What a server says of itself at its monitoring port (/varz).
Findings check_server(const std::string& address, const encoding::Json& varz,
                      std::vector<std::string>& checked);

// How long all attempts of a task may take until it is a dead letter.
Duration retry_schedule(const Queue& queue);

}  // namespace once::store::nats
