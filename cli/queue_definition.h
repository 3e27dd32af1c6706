// A queue as options on the command line (`queue add`, `work`) and as people read it.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "cli/json_line.h"
#include "once/zone.h"

namespace once::cli {

struct QueueOptions {
  std::optional<std::string> topic{}, key{}, backoff{}, in_doubt{}, same_key{}, from{};
  std::optional<Duration> lease{}, timeout{};
  std::optional<std::uint64_t> attempts{}, max_running{}, window{};

  // The name of an option other than --topic that is given; none: none is.
  std::optional<std::string> any_but_topic() const;
};

void add_queue_options(CLI::App& app, QueueOptions& options);

// All but --from, which needs a zone. `--topic` is given.
Result<Queue> queue_from(const std::string& name, const QueueOptions& options);

struct Added {
  Queue queue{};
  bool existed = false;
  std::uint64_t found{};
};
// Adds the queue. `--from now` and `--from TIME` mean what they meant when it was made, so that the
// same command again is fine.
Result<Added> add_queue(Zone& zone, Queue queue, const std::optional<std::string>& from);

std::optional<Queue> find_queue(const std::vector<Queue>& queues, std::string_view name);

int effective_attempts(const Queue& queue);
std::string backoff_text(const Queue& queue);  // 30s,2m,5m
JsonLine& add_fields(JsonLine& line, const Queue& queue);

}  // namespace once::cli
