// How a connection says who it is, and where its answers go. Messages never hold what was given:
// a secret is easily given in a file's place.
#pragma once

#include <nats/nats.h>

#include <string>

#include "once/result.h"
#include "once/zone.h"

namespace once::store::nats {

// Puts it into the options of a connection. Files are looked at now, so that a bad one is told, and
// read again by nats.c at each reconnect. `tls`: nothing is said to a server without it.
Result<void> apply(const NatsLogin& login, bool tls, natsOptions* options);

// What every subject that this login subscribes to begins with: login.inbox, or _INBOX_once and the
// user's name or public key, so that a server can keep users out of each other's answers.
Result<std::string> inbox_of(const NatsLogin& login);

}  // namespace once::store::nats
