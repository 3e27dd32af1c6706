// A worker's side of its guards: one process each, kept for the next attempt when one has ended.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exec/supervisor_protocol.h"
#include "once/result.h"
#include "store/file_descriptor.h"

namespace once::engine {

// The destructor ends the guard, and what it runs, and waits for that.
class SupervisorProcess {
 public:
  // `executable` is an open file; `name` is for people who look at the process list.
  static Result<SupervisorProcess> start(int executable, const std::string& name,
                                         const std::vector<std::string>& environment);
  SupervisorProcess(SupervisorProcess&& other) noexcept;
  SupervisorProcess& operator=(SupervisorProcess&&) = delete;
  ~SupervisorProcess();

  pid_t pid() const { return pid_; }
  int channel() const { return channel_.get(); }
  bool reused() const { return reused_; }

  // These never wait and raise no SIGPIPE; false: not sent (a dead guard shows as a closed channel).
  bool send_job(const std::vector<int>& descriptors) const;
  bool send(guard::Order order) const;
  // None with `gone` false: there is nothing to hear yet.
  struct Heard {
    std::optional<guard::Notice> notice{};
    bool gone = false;
  };
  Heard hear() const;
  // Continues the guard if somebody suspended it.
  void keep_going() const;
  // Kills everything below the guard, then the guard.
  void kill_all() const;
  // After the guard's own death: ends what is left of its session, and the orphans that came to this
  // process if it adopts them. Returns when nothing of that runs.
  void end_orphans() const;

 private:
  friend class GuardPool;
  SupervisorProcess(pid_t pid, store::FileDescriptor channel)
      : pid_(pid), channel_(std::move(channel)) {}

  pid_t pid_ = -1;
  store::FileDescriptor channel_{};
  bool reused_ = false;
};

// Any thread may call.
class GuardPool {
 public:
  // The guard stays as it is now: a new version installed while the worker runs must not have to
  // talk to an old one.
  // `adopts`: as Program::adopts_orphans.
  static Result<std::unique_ptr<GuardPool>> open(const std::string& executable,
                                                 std::vector<std::string> environment, bool adopts);

  Result<SupervisorProcess> take();
  void give_back(SupervisorProcess guard);  // it has ended what it ran

 private:
  GuardPool(store::FileDescriptor executable, std::string name,
            std::vector<std::string> environment)
      : executable_(std::move(executable)),
        name_(std::move(name)),
        environment_(std::move(environment)) {}

  const store::FileDescriptor executable_;
  const std::string name_;
  const std::vector<std::string> environment_;
  std::mutex mutex_{};
  std::vector<SupervisorProcess> idle_{};  // under mutex_
};

}  // namespace once::engine
