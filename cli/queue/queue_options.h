// The settings of a queue as options of a command.
#pragma once

#include "shapes/queue_definition.h"

namespace CLI {
class App;
}

namespace once::cli {

// What makes a queue what it is: --topic, --key, --from and --stream. Commands that need --ledger
// add it themselves, because `work` does not have it.
void add_fixed_options(CLI::App& app, QueueOptions& options);
// What `queue set` can change.
void add_changeable_options(CLI::App& app, QueueOptions& options);

}  // namespace once::cli
