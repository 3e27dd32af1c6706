// The other column of the table: a plain queue that leases, redelivers and takes acknowledgements, and
// a fleet on it. It gets the same publishes and the same kills, and does the same work. Messages are
// files that move between folders under a lock, so a process that is killed leaves nothing half done.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/demo/child.h"

namespace once::cli::demo {

class PlainQueue {
 public:
  explicit PlainQueue(const Setting& setting);

  void publish(const std::string& task);
  // Takes a message that nobody has, or whose lease is over; none: there is none.
  std::optional<std::string> lease();
  void acknowledge(const std::string& message);
  static std::string task_of(const std::string& message);

  std::vector<std::string> acknowledged() const;
  std::uint64_t left() const;  // published and not acknowledged
  std::uint64_t published() const { return published_; }

 private:
  std::string folder(const char* state) const { return folder_ + '/' + state; }
  void move(const std::string& message, const char* from, const char* to) const;
  void redeliver() const;

  std::string folder_;
  Duration lease_;
  std::uint64_t published_ = 0;
};

class PlainFleet {
 public:
  explicit PlainFleet(const Setting& setting) : setting_(setting), agents_(setting.agents) {}

  Result<void> start();
  // Kills the process of this agent; it is replaced at `back`.
  void kill(std::size_t agent, Moment back);
  Result<void> tick();
  void stop() { agents_.clear(); }
  std::uint64_t kills() const { return kills_; }

 private:
  struct Agent {
    Child process{};
    Moment back{};
  };
  Result<void> replace(std::size_t agent);

  const Setting& setting_;
  std::vector<Agent> agents_;
  std::uint64_t kills_ = 0;
};

}  // namespace once::cli::demo
