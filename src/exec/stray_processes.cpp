#include "exec/stray_processes.h"

#include <poll.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <optional>

#include "exec/process_table.h"
#include "exec/supervisor_protocol.h"

namespace once::engine {
namespace {

// Names the task in the mark. A step of that name would have the same key, which does no harm.
std::string task_mark(const TaskAttempt& assignment) {
  return idempotency_key(assignment, "claim") + '.';
}

// As getenv() finds it.
std::optional<std::string_view> value_of(std::string_view name, std::string_view environment) {
  while (!environment.empty()) {
    const std::string_view variable = environment.substr(0, environment.find('\0'));
    if (variable.size() > name.size() && variable.starts_with(name) && variable[name.size()] == '=')
      return variable.substr(name.size() + 1);
    environment.remove_prefix(std::min(environment.size(), variable.size() + 1));
  }
  return std::nullopt;
}

class Mark {
 public:
  Mark(const TaskAttempt& assignment, const std::string& store, Claims which)
      : task_(task_mark(assignment)),
        store_(store),
        token_(assignment.token.value),
        which_(which) {}

  bool is_on(pid_t pid) const {
    const std::string environment = environment_of(pid);
    const auto claim = value_of("ONCE_CLAIM", environment);
    if (!claim || !claim->starts_with(task_) || value_of("ONCE_STORE", environment) != store_)
      return false;
    std::uint64_t token = 0;
    const char* const end = claim->data() + claim->size();
    const auto read = std::from_chars(claim->data() + task_.size(), end, token);
    if (read.ec != std::errc{} || read.ptr != end) return false;
    return token < token_ || (which_ == Claims::up_to_this && token == token_);
  }

 private:
  const std::string task_;
  const std::string_view store_;
  const std::uint64_t token_;
  const Claims which_;
};

// True when there was any.
bool kill_marked(const Mark& mark) {
  const auto all = processes();
  bool any = false;
  for (const Process& process : all) {
    if (process.state == 'Z' || !mark.is_on(process.pid)) continue;
    any = true;
    for (const Process& parent : all)
      if (parent.pid == process.parent && parent.state == 'T' && parent.name == supervisor::kName)
        ::kill(parent.pid, SIGCONT);
    kill_process(process.pid, [&] { return mark.is_on(process.pid); });
  }
  return any;
}

}  // namespace

std::string claim_mark(const TaskAttempt& assignment) {
  return task_mark(assignment) + std::to_string(assignment.token.value);
}

void end_strays(const TaskAttempt& assignment, const std::string& store, Claims which) {
  const Mark mark(assignment, store, which);
  while (kill_marked(mark)) {
    if (which == Claims::earlier && assignment.stop.stop_requested()) return;
    ::poll(nullptr, 0, 1);
  }
}

}  // namespace once::engine
