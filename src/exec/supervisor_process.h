// A worker's side of its supervisors: one process each, kept for the next attempt when one has ended.
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

// The destructor ends the supervisor, and what it runs, and waits for that.
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

  // These never wait and raise no SIGPIPE; false: not sent (a dead supervisor shows as a closed channel).
  bool send_job(const std::vector<int>& descriptors) const;
  bool send(supervisor::Order order) const;
  // None with `gone` false: there is nothing to hear yet.
  struct Heard {
    std::optional<supervisor::Notice> notice{};
    bool gone = false;
  };
  Heard hear() const;
  // Continues the supervisor if somebody suspended it.
  void keep_going() const;
  // Kills everything below the supervisor, then the supervisor.
  void kill_all() const;
  // Closes the channel and waits until the supervisor has ended. Then ends what is left of its session, and
  // the orphans that came to this process if it adopts them. Returns when nothing of that runs.
  void end_orphans() const;

 private:
  friend class SupervisorPool;
  SupervisorProcess(pid_t pid, store::FileDescriptor channel)
      : pid_(pid), channel_(std::move(channel)) {}
  // Waits for the end of the supervisor, and wakes it if somebody suspends it. `more` is for waitid().
  void await_end(int more) const;

  pid_t pid_ = -1;
  store::FileDescriptor channel_{};
  bool reused_ = false;
};

// Any thread may call.
class SupervisorPool {
 public:
  // The supervisor stays as it is now: a new version installed while the worker runs must not have to
  // talk to an old one.
  // `adopts`: as Program::adopts_orphans.
  static Result<std::unique_ptr<SupervisorPool>> open(const std::string& executable,
                                                      std::vector<std::string> environment,
                                                      bool adopts);

  Result<SupervisorProcess> take();
  void give_back(SupervisorProcess supervisor);  // it has ended what it ran

 private:
  SupervisorPool(store::FileDescriptor executable, std::string name,
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
