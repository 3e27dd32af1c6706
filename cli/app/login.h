// How to log in to a NATS server: options, and variables of the environment for what is not given.
#pragma once

#include <CLI/CLI.hpp>

#include "once/zone.h"

namespace once::cli {

void add_login(CLI::App& app, NatsLogin& login);

// `given` with ONCE_NATS_USER, ONCE_NATS_CREDS and so on where it is silent. When it names a way to
// log in, variables do not add another.
NatsLogin with_environment(NatsLogin given);
// The variables that say the same, for a command that is started: `ONCE_NATS_USER=...`.
std::vector<std::string> as_environment(const NatsLogin& login);

}  // namespace once::cli
