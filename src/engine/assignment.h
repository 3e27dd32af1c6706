// One attempt, as the worker hands it to a handler, and what the handler reports.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "core/types.h"
#include "once/worker.h"

namespace once::engine {

struct Assignment {
  const Task& task;
  core::Sequence sequence{};
  core::Digest digest{};
  Time published_at{};
  std::string_view zone{};
  std::string_view queue{};
  std::string_view key{};
  core::Token token{};
  std::uint32_t attempt{};
  bool in_doubt = false;
  std::optional<Time> deadline{};  // by the queue's timeout, wall time
  Duration lease{};
  int inheritable_fd = -1;  // the worker's presence; programs inherit it
  std::stop_token stop{};
};

// The same for every attempt of the task (and step): hex SHA-256 of zone, queue, key and step.
std::string idempotency_key(const Assignment& assignment, std::string_view step = {});

inline constexpr std::size_t kMaxResult = 1 << 20;  // what is kept of a result

struct Report {
  Outcome outcome;
  bool result_cut = false;
  // Set when the handler could not even begin (the program cannot be executed): the claim is given
  // back as never started and the worker stops with this.
  std::optional<Error> never_started{};
};

// Throws nothing but what a handler of the user's throws.
using Handler = std::function<Report(const Assignment&)>;

}  // namespace once::engine
