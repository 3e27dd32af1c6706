// What a worker and a supervisor say to each other over a SOCK_SEQPACKET pair, on which either side sees
// the other's death as its end. Both sides are the same build: messages are plain memory.
//
//   worker: run (with a job and descriptors)         heartbeat ...   [stop]
//   supervisor:                                    ready  [not_started]          ended
//
// A supervisor runs one program at a time and waits for the next; starting one costs more than all of
// the rest.
#pragma once

#include <cstdint>

namespace once::engine::supervisor {

inline constexpr char kName[] = "once-supervisor";  // of the process
inline constexpr int kChannelFd = 3;                // where a supervisor finds its end of the pair
// Where a program finds the worker's presence: above what scripts use by hand, below 256.
inline constexpr int kProgramLockFd = 190;

// What lies in the folder of an attempt.
inline constexpr char kTaskFile[] = "/task.json";
inline constexpr char kResultFile[] = "/result";
inline constexpr char kSocketFile[] = "/socket";
inline constexpr char kLockFile[] = "/.lock";

// Worker to supervisor: one byte each.
enum class Order : char {
  run = 'r',  // comes with the descriptors of Passed
  heartbeat = 'h',
  stop = 's',  // SIGTERM to the group now, SIGKILL after the grace
};

// The descriptors that come with Order::run, in this order.
// folder: its lock; see AttemptFolder. lock: only if there is one.
enum Passed { job_file, input, output, errors, folder, lock, passed_count };

// The job file: this, then that many strings, each ended by a NUL: the path of the program, the
// folder of the attempt, its arguments, its environment.
struct Job {
  std::int64_t silence_ms{};  // how long the worker may be silent; zero: for ever
  std::int64_t grace_ms{};
  std::uint32_t arguments{};
  std::uint32_t variables{};
};

// Why the supervisor ended what it ended.
enum class Cause : std::int32_t {
  none,     // the program exited by itself
  stopped,  // it was asked to stop, and did
  killed,   // it was asked to stop, and had not when the grace was over
  silent,   // the worker was silent for too long
};

// Supervisor to worker.
struct Notice {
  enum class Kind : std::int32_t {
    ready,        // the next thing is the fork: from here on the program may have run
    not_started,  // value: errno; the program never ran
    ended,        // value: the program's wait status; no descendant is left, the lock is given up
  };
  Kind kind{};
  std::int32_t value{};
  Cause cause{};
};

}  // namespace once::engine::supervisor
