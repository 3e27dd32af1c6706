#include "cli/demo/plain.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

namespace once::cli::demo {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReady = "ready";
constexpr const char* kLeased = "leased";
constexpr const char* kDone = "done";

// Held by one process at a time; the kernel takes it from one that is killed.
class Lock {
 public:
  explicit Lock(const std::string& path)
      : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~Lock() { ::close(fd_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int fd_;
};

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(folder)) names.push_back(file.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

// Longer than any task takes, as one sets it for a queue that does not renew.
PlainQueue::PlainQueue(const Setting& setting)
    : folder_(setting.folder + "/plain"), lease_(2 * setting.work + Duration{1'000}) {
  for (const char* state : {kReady, kLeased, kDone}) fs::create_directories(folder(state));
}

void PlainQueue::publish(const std::string& task) {
  const Lock lock(folder("lock"));
  std::ofstream(folder(kReady) + fmt::format("/{:06} {}", ++published_, task));
}

std::optional<std::string> PlainQueue::lease() {
  const Lock lock(folder("lock"));
  redeliver();
  const std::vector<std::string> ready = names_in(folder(kReady));
  if (ready.empty()) return {};
  fs::last_write_time(folder(kReady) + '/' + ready.front(), fs::file_time_type::clock::now());
  move(ready.front(), kReady, kLeased);
  return ready.front();
}

void PlainQueue::redeliver() const {
  const auto over = fs::file_time_type::clock::now() - lease_;
  for (const std::string& message : names_in(folder(kLeased))) {
    if (fs::last_write_time(folder(kLeased) + '/' + message) < over) move(message, kLeased, kReady);
  }
}

// Also when the lease was over and the message is about to be delivered again, as such queues do.
void PlainQueue::acknowledge(const std::string& message) {
  const Lock lock(folder("lock"));
  for (const char* state : {kReady, kLeased}) {
    if (fs::exists(folder(state) + '/' + message)) move(message, state, kDone);
  }
}

void PlainQueue::move(const std::string& message, const char* from, const char* to) const {
  fs::rename(folder(from) + '/' + message, folder(to) + '/' + message);
}

std::string PlainQueue::task_of(const std::string& message) {
  return message.substr(message.find(' ') + 1);
}

std::vector<std::string> PlainQueue::acknowledged() const { return names_in(folder(kDone)); }

std::uint64_t PlainQueue::left() const {
  return names_in(folder(kReady)).size() + names_in(folder(kLeased)).size();
}

Result<void> PlainFleet::start() {
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    if (auto started = replace(i); !started) return started;
  }
  return {};
}

Result<void> PlainFleet::replace(std::size_t agent) {
  auto process = Child::start(setting_, {"--demo-plain", setting_.folder, std::to_string(agent + 1),
                                         std::to_string(setting_.work.count())});
  if (!process) return process.error();
  agents_[agent].process = std::move(*process);
  return {};
}

void PlainFleet::kill(std::size_t agent, Moment back) {
  agents_[agent].back = back;
  if (!agents_[agent].process.running()) return;
  agents_[agent].process.signal(SIGKILL);
  ++kills_;
}

Result<void> PlainFleet::tick() {
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    if (agents_[i].process.running() || SteadyClock::now() < agents_[i].back) continue;
    if (auto replaced = replace(i); !replaced) return replaced;
  }
  return {};
}

}  // namespace once::cli::demo
