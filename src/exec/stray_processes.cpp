#include "exec/stray_processes.h"

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <optional>
#include <set>

#include "exec/process_table.h"
#include "exec/supervisor_protocol.h"

namespace once::engine {
namespace {

// Names the task in the mark. A step of that name would have the same key, which does no harm.
std::string task_mark(const TaskAttempt& task_attempt) {
  return idempotency_key(task_attempt, "claim") + '.';
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

// The servers of a URL in any order, and the zone. A URL without a zone means the zone `main`.
std::pair<std::set<std::string>, std::string> parts_of(std::string_view url) {
  url.remove_prefix(url.find("://") + 3);
  const std::size_t slash = std::min(url.find('/'), url.size());
  const std::string_view zone = slash < url.size() ? url.substr(slash + 1) : "";
  std::pair<std::set<std::string>, std::string> parts{{},
                                                      std::string(zone.empty() ? "main" : zone)};
  for (std::string_view servers = url.substr(0, slash); !servers.empty();) {
    const std::size_t comma = std::min(servers.find(','), servers.size());
    parts.first.emplace(servers.substr(0, comma));
    servers.remove_prefix(std::min(servers.size(), comma + 1));
  }
  return parts;
}

// Whether the process's $ONCE_STORE is this store. A file may have several paths, and the process may see
// it under another path, as in a container.
bool same_store(const std::string& store, std::string_view other, pid_t pid) {
  if (other == store) return true;
  const bool on_server = store.find("://") != std::string::npos;
  if (on_server != (other.find("://") != std::string_view::npos)) return false;
  if (on_server) return parts_of(store) == parts_of(other);
  const std::string seen = "/proc/" + std::to_string(pid) + "/root" + std::string(other);
  struct stat here {};
  struct stat there {};
  return ::stat(store.c_str(), &here) == 0 && ::stat(seen.c_str(), &there) == 0 &&
         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

class Mark {
 public:
  Mark(const TaskAttempt& task_attempt, const std::string& store, Claims which)
      : task_(task_mark(task_attempt)),
        store_(store),
        token_(task_attempt.token.value),
        which_(which) {}

  bool is_on(pid_t pid) const {
    const std::string environment = environment_of(pid);
    const auto claim = value_of("ONCE_CLAIM", environment);
    if (!claim || !claim->starts_with(task_)) return false;
    const auto store = value_of("ONCE_STORE", environment);
    if (!store || !same_store(store_, *store, pid)) return false;
    std::uint64_t token = 0;
    const char* const end = claim->data() + claim->size();
    const auto read = std::from_chars(claim->data() + task_.size(), end, token);
    if (read.ec != std::errc{} || read.ptr != end) return false;
    return token < token_ || (which_ == Claims::up_to_this && token == token_);
  }

 private:
  const std::string task_;
  const std::string& store_;
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

std::string claim_mark(const TaskAttempt& task_attempt) {
  return task_mark(task_attempt) + std::to_string(task_attempt.token.value);
}

void end_strays(const TaskAttempt& task_attempt, const std::string& store, Claims which) {
  const Mark mark(task_attempt, store, which);
  while (kill_marked(mark)) {
    if (which == Claims::earlier && task_attempt.stop.stop_requested()) return;
    ::poll(nullptr, 0, 1);
  }
}

}  // namespace once::engine
