// The worker's side of the steps of one attempt's program: a socket, and a thread per `once step`
// that is connected to it. Nothing but the socket is there until a step is asked for.
#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "exec/step_channel.h"
#include "work/task_attempt.h"

namespace once::engine {

// One thread uses it, the one that keeps the program; it never waits for the store but in finish().
class StepServer {
 public:
  explicit StepServer(const TaskAttempt& task_attempt) : task_attempt_(task_attempt) {}
  ~StepServer() { finish(); }
  StepServer(const StepServer&) = delete;
  StepServer& operator=(const StepServer&) = delete;

  // Listens at the path; an attempt without steps has no socket. An error: the program cannot run.
  Result<void> open(const std::string& path);
  int listening() const { return listening_.get(); }  // readable: accept() has something to do
  void accept();
  // After this nothing is recorded any more. What is being recorded, or was reported by a step whose
  // command has ended, is waited for; whatever else is open stays begun.
  void finish();

 private:
  struct Connection {
    std::atomic<bool> ended = false;
    std::jthread thread{};
  };
  class Conversation;

  bool is_full();

  const TaskAttempt& task_attempt_;
  store::FileDescriptor listening_{};
  store::FileDescriptor stop_{};
  std::atomic<bool> stopping_ = false;
  std::list<Connection> connections_{};
  std::mutex mutex_{};
  std::set<std::string, std::less<>> names_{};  // under mutex_: of steps that are connected now
};

}  // namespace once::engine
