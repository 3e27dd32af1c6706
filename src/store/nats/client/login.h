// Applies the login to a connection of nats.c and makes the prefix of its inboxes. Error messages
// never contain the given values, because a user may pass a secret in place of a file name.
#pragma once

#include <nats/nats.h>

#include <string>

#include "once/result.h"
#include "once/zone.h"

namespace once::store::nats {

// Puts the login into the options of a connection. Reads the files now, so that a bad file is an
// error now. nats.c reads them again at each new connection. With `tls`, the connection refuses a
// server without TLS.
Result<void> apply(const NatsLogin& login, bool tls, natsOptions* options);

// The prefix of every subject that this login subscribes to: login.inbox, or _INBOX_once and the
// user's name or public key. So a server can keep one user from reading another user's replies.
Result<std::string> inbox_of(const NatsLogin& login);

}  // namespace once::store::nats
