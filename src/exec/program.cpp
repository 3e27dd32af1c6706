// Runs one program per attempt: hands it to a supervisor, keeps that content with heartbeats, collects
// what the program writes, and turns its end into a verdict.
//
//   exit 0          completed            exit 65   dead
//   exit 74         unknown              exit 129 to 192, death by a signal   unknown
//   any other exit  failed               not executable   never started
//   the supervisor died  unknown
//
// A probe is run the same way and only read differently: exit 0 completed, exit 1 failed (it did not
// happen), anything else unknown.
#include "exec/program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/record.h"
#include "core/utf8.h"
#include "exec/exit_status.h"
#include "exec/head.h"
#include "exec/program_environment.h"
#include "exec/step_server.h"
#include "exec/stray_processes.h"
#include "exec/supervisor_process.h"
#include "store/file_descriptor.h"

namespace once::engine {
namespace {

using supervisor::Cause;
using supervisor::Notice;
using supervisor::Order;
using ProgramClock = std::chrono::steady_clock;

// A worker that stops in its tracks renewed its lease up to a third of it before its last heartbeat.
// A supervisor that ends the program after half a lease of silence is done before anyone may take over.
constexpr int kHeartbeats = 10;  // per lease
constexpr int kSilence = 2;      // this part of a lease
// How long after the grace a supervisor may take to report. A lease that the timeout bounds lasts longer.
constexpr Duration kPatience{500};

enum class Role { program, probe };

// What every attempt of a worker shares.
struct Prepared {
  Role role;
  Program program;
  std::vector<std::string> command;
  std::string path;  // of the command
  std::unique_ptr<SupervisorPool> supervisors;
  std::vector<std::string> inherited;
};

std::string reason(int error) { return std::strerror(error); }

Error cannot_start_program(const std::string& what, int error) {
  // What lies in the file and its rights will be the same next time; a shortage may pass.
  constexpr std::array kLasting = {ENOENT, EACCES, EPERM,        ENOEXEC,
                                   EISDIR, ELOOP,  ENAMETOOLONG, ENOTDIR};
  const bool lasting = std::find(kLasting.begin(), kLasting.end(), error) != kLasting.end();
  return Error{lasting ? Code::invalid_input : Code::failed,
               "cannot start " + what + ": " + reason(error) +
                   "; the task was given back unrun; mend that and start the worker again",
               !lasting};
}

Report never_started(Error error) {
  Report report{Outcome::failed(error.message)};
  report.never_started = std::move(error);
  return report;
}

// The error number that executing the file would meet, as far as that can be known; zero: none.
int execution_error(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return errno;
  if (!S_ISREG(about.st_mode)) return S_ISDIR(about.st_mode) ? EISDIR : EACCES;
  return ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

// --- What the program reads and writes ------------------------------------------------------

// A sealed file in memory. As standard input: a program that does not read it blocks nobody, and
// one that opens /dev/stdin again finds it.
store::FileDescriptor memory_file(const char* name, std::string_view bytes) {
  store::FileDescriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  for (std::size_t at = 0; file && at < bytes.size();) {
    const ssize_t size =
        ::pwrite(file.get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return {};
    at += static_cast<std::size_t>(size);
  }
  if (file) ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK);
  return file;
}

// The last bytes of a stream.
class Tail {
 public:
  void add(std::string_view bytes) {
    text_.append(bytes.substr(bytes.size() - std::min(bytes.size(), core::kLogKept)));
    if (text_.size() > 4 * core::kLogKept) text_.erase(0, text_.size() - core::kLogKept);
  }
  // At most `limit` bytes of well-formed UTF-8, without line ends at the end.
  std::string text(std::size_t limit) const {
    std::string_view raw = text_;
    while (!raw.empty() && (raw.back() == '\n' || raw.back() == '\r')) raw.remove_suffix(1);
    return std::string(core::last_bytes(core::readable(raw), limit));
  }

 private:
  std::string text_;
};

// One of the program's outputs, read without ever waiting for it.
struct Stream {
  store::FileDescriptor ours{};
  store::FileDescriptor theirs{};

  bool open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    ours = store::FileDescriptor(ends[0]);
    theirs = store::FileDescriptor(ends[1]);
    // Only our end: the program's must block as programs expect.
    return ::fcntl(ours.get(), F_SETFL, O_NONBLOCK) == 0;
  }

  // One piece of what is there now; false: there is no more.
  template <class To>
  bool read(To& to) {
    if (!ours) return false;
    char bytes[64 << 10];
    const ssize_t size = ::read(ours.get(), bytes, sizeof bytes);
    if (size < 0) return errno == EINTR;
    if (size == 0) ours.reset();
    to.add({bytes, static_cast<std::size_t>(size)});
    return size > 0;
  }
};

// --- One attempt ----------------------------------------------------------------------------

class Attempt {
 public:
  Attempt(const Prepared& prepared, const TaskAttempt& task_attempt)
      : prepared_(prepared), task_attempt_(task_attempt), steps_(task_attempt) {}

  Report run() {
    Report report = run_program();
    if (listener_) {
      if (report.never_started) how_ = "not started";
      const auto took = std::chrono::duration_cast<Duration>(ProgramClock::now() - began_);
      listener_->ended({.verdict = report.outcome.kind(), .how = how_, .took = took});
    }
    report.log = tail_.text(core::kLogKept);
    if (prepared_.role == Role::program) return report;
    // A probe that could not be asked has not answered.
    if (report.never_started) return Report{Outcome::unknown(report.never_started->message)};
    return report;
  }

 private:
  Report run_program() {
    // An earlier claim may have left processes that no supervisor and no worker could end.
    if (task_attempt_.attempt > 1)
      end_strays(task_attempt_, prepared_.program.store, Claims::earlier);
    // The worker before may have been killed with its supervisor. Its folder holds the task's body.
    if (task_attempt_.in_doubt) AttemptFolder::clear_abandoned();
    if (task_attempt_.stop.stop_requested())
      return Report{no_answer("asked to stop before the program was started")};
    auto folder = AttemptFolder::make(task_attempt_);
    if (!folder) return never_started(folder.error());
    if (auto open = steps_.open(folder->socket_file()); !open) return never_started(open.error());
    const auto job = memory_file("once-job", job_bytes(*folder));
    const auto input = memory_file("once-body", task_attempt_.task.body.text());
    const store::FileDescriptor stop_event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!job || !input || !stop_event || !output_.open() || !errors_.open())
      return never_started(cannot_start_program(command(), errno));
    std::vector<int> descriptors = {job.get(), input.get(), output_.theirs.get(),
                                    errors_.theirs.get(), folder->lock()};
    if (task_attempt_.inheritable_fd >= 0) descriptors.push_back(task_attempt_.inheritable_fd);

    began_ = ProgramClock::now();
    if (prepared_.program.listener)
      listener_ = prepared_.program.listener({.task = task_attempt_.task,
                                              .queue = task_attempt_.queue,
                                              .attempt = static_cast<int>(task_attempt_.attempt),
                                              .probe = prepared_.role == Role::probe});
    const std::stop_callback on_stop(task_attempt_.stop,
                                     [&stop_event] { ::eventfd_write(stop_event.get(), 1); });
    for (bool again = true; again;) {
      auto supervisor = prepared_.supervisors->take();
      if (!supervisor) return never_started(supervisor.error());
      if (supervisor->send_job(descriptors)) converse(*supervisor, stop_event.get());
      if (ended_)
        prepared_.supervisors->give_back(std::move(*supervisor));
      else
        end_what_is_left(*supervisor);
      again = supervisor->reused() && !ready_;  // it had died while it was idle: nothing was begun
    }
    steps_.finish();
    drain(output_, output_heard_);
    drain(errors_, errors_heard_);
    return verdict(*folder);
  }

  // The supervisor is dead.
  void end_what_is_left(const SupervisorProcess& supervisor) const {
    supervisor.end_orphans();
    end_strays(task_attempt_, prepared_.program.store, Claims::up_to_this);
  }

  // What is said of a run that was not begun: of a program that it did nothing, of a probe that it
  // knows nothing.
  Outcome no_answer(std::string why) const {
    return prepared_.role == Role::program ? Outcome::failed(std::move(why))
                                           : Outcome::unknown(std::move(why));
  }

  std::string command() const { return "'" + prepared_.command.front() + "'"; }

  std::string job_bytes(const AttemptFolder& folder) const {
    const auto& arguments = prepared_.command;
    const auto variables =
        environment(prepared_.inherited, task_attempt_, prepared_.program, folder);
    supervisor::Job job;
    job.silence_ms = std::max<Duration::rep>(task_attempt_.lease.count() / kSilence, 0);
    job.grace_ms = std::max<Duration::rep>(prepared_.program.grace.count(), 0);
    job.arguments = static_cast<std::uint32_t>(arguments.size());
    job.variables = static_cast<std::uint32_t>(variables.size());
    std::string bytes(reinterpret_cast<const char*>(&job), sizeof job);
    const auto add = [&bytes](const std::string& text) {
      bytes.append(text.c_str(), text.size() + 1);
    };
    add(prepared_.path);
    add(folder.path());
    for (const auto& argument : arguments) add(argument);
    for (const auto& variable : variables) add(variable);
    return bytes;
  }

  // Until the supervisor has said its last word, or is gone.
  void converse(const SupervisorProcess& supervisor, int stop_event) {
    const auto pause = std::max(task_attempt_.lease / kHeartbeats, Duration{1});
    auto next_beat = ProgramClock::time_point::max();
    if (task_attempt_.lease.count() > 0) next_beat = ProgramClock::now() + pause;
    auto kill_at = ProgramClock::time_point::max();
    bool stop_wanted = false;
    bool stop_sent = false;
    while (!ended_) {
      const int wait = wait_until(std::min(next_beat, kill_at));
      pollfd fds[] = {{supervisor.channel(), POLLIN, 0},
                      {output_.ours.get(), POLLIN, 0},
                      {errors_.ours.get(), POLLIN, 0},
                      {stop_wanted ? -1 : stop_event, POLLIN, 0},
                      {steps_.listening(), POLLIN, 0}};
      ::poll(fds, std::size(fds), wait);
      if (fds[1].revents != 0) output_.read(output_heard_);
      if (fds[2].revents != 0) errors_.read(errors_heard_);
      if (fds[3].revents != 0) stop_wanted = true;
      if (fds[4].revents != 0) steps_.accept();
      if (stop_wanted && !stop_sent) {
        stop_sent = supervisor.send(Order::stop);
        supervisor.keep_going();
        kill_at = ProgramClock::now() + prepared_.program.grace + kPatience;
      }
      if (ProgramClock::now() >= next_beat) {
        supervisor.send(Order::heartbeat);
        supervisor.keep_going();
        next_beat = ProgramClock::now() + pause;
      }
      if (ProgramClock::now() >= kill_at) {
        supervisor.kill_all();
        kill_at = ProgramClock::time_point::max();
        overdue_ = true;
      }
      if (fds[0].revents == 0) continue;
      const auto heard = supervisor.hear();
      if (heard.gone) return;
      if (heard.notice) note(*heard.notice);
    }
  }

  // For poll(); the clock's end is for ever.
  static int wait_until(ProgramClock::time_point when) {
    if (when == ProgramClock::time_point::max()) return -1;
    const auto left = std::chrono::ceil<Duration>(when - ProgramClock::now()).count();
    return static_cast<int>(std::clamp<Duration::rep>(left, 0, INT_MAX));
  }

  void note(const Notice& notice) {
    switch (notice.kind) {
      case Notice::Kind::ready: ready_ = true; break;
      case Notice::Kind::not_started: not_started_ = notice.value; break;
      case Notice::Kind::ended: ended_ = notice; break;
    }
  }

  // What a pipe still holds. Bounded, in case that a process outside was given its other end.
  template <class To>
  static void drain(Stream& stream, To& to) {
    for (int pieces = 0; pieces < 64 && stream.read(to); ++pieces) {
    }
  }

  Report verdict(const AttemptFolder& folder) {
    if (not_started_) return never_started(cannot_start_program(command(), *not_started_));
    if (!ready_)
      return never_started(
          Error{Code::failed, "the supervisor '" + prepared_.program.supervisor +
                                  "' ended before it started the program; the task was given back "
                                  "unrun; see that it calls supervisor_main() first"});
    if (overdue_ && !ended_)
      return Report{Outcome::unknown(explained("killed by SIGKILL" + went_on()))};
    if (!ended_)
      return Report{
          Outcome::unknown(explained("the program's supervisor died, and the program with it"))};
    const int status = ended_->value;
    if (!WIFEXITED(status))
      return Report{
          Outcome::unknown(explained("killed by " + signal_name(WTERMSIG(status)) + cause()))};
    const int code = WEXITSTATUS(status);
    return prepared_.role == Role::program ? program_verdict(code, folder)
                                           : probe_verdict(code, folder);
  }

  Report program_verdict(int code, const AttemptFolder& folder) {
    if (code == 0) return completed(folder);
    const auto why = explained("exit " + std::to_string(code) + cause());
    if (code == kDataError) return Report{Outcome::dead(why)};
    if (is_no_verdict(code)) return Report{Outcome::unknown(why)};
    return Report{Outcome::failed(why)};
  }

  // One that was ended from outside may exit as if it had an answer.
  Report probe_verdict(int code, const AttemptFolder& folder) {
    const bool answered = ended_->cause == Cause::none;
    if (code == 0 && answered) return completed(folder);
    const auto why = explained("exit " + std::to_string(code) + cause());
    return Report{code == 1 && answered ? Outcome::failed(why) : Outcome::unknown(why)};
  }

  std::string cause() const {
    switch (ended_->cause) {
      case Cause::none: break;
      case Cause::stopped: return " after it was asked to stop";
      case Cause::killed: return went_on();
      case Cause::silent:
        return " by its supervisor, which heard nothing from the worker for half a lease";
    }
    return {};
  }

  std::string went_on() const {
    return " because it went on for " + std::to_string(prepared_.program.grace.count()) +
           " ms after it was asked to stop";
  }

  // What happened, and the end of what the program said about it.
  std::string explained(std::string what) {
    how_ = what;
    const auto said = tail_.text(core::kErrorKept - what.size() - 2);
    if (!said.empty()) what += ": " + said;
    return what;
  }

  Report completed(const AttemptFolder& folder) {
    how_ = "exit 0";
    auto file = result_file(folder.result_file(), task_attempt_.max_result);
    Head& result = file ? *file : head_;
    const std::uint64_t oversize = result.oversize();
    Report report{Outcome::completed(body_of(result.take()))};
    report.oversize = oversize;
    return report;
  }

  // None when the program wrote no such file.
  static std::optional<Head> result_file(const std::string& path, std::uint64_t limit) {
    const store::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat about {};
    if (!file || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
    Head head(limit);
    char bytes[64 << 10];
    for (;;) {
      const ssize_t size = ::read(file.get(), bytes, sizeof bytes);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) break;
      head.add({bytes, static_cast<std::size_t>(size)});
    }
    return head;
  }

  static Body body_of(std::string result) {
    constexpr std::string_view kWhite = " \t\r\n";
    const std::string_view text = result;
    if (text.empty()) return {};
    if (const auto first = text.find_first_not_of(kWhite); first != text.npos) {
      auto json = Body::json(text.substr(first, text.find_last_not_of(kWhite) - first + 1));
      if (json) return *json;
    }
    return Body::bytes(std::move(result));
  }

  const Prepared& prepared_;
  const TaskAttempt& task_attempt_;
  StepServer steps_;
  // One of the program's outputs, as the listener gets it and as much as is kept.
  template <class Buffer, void (ProgramListener::*Hear)(std::string_view)>
  struct Heard {
    Buffer& buffer;
    const std::unique_ptr<ProgramListener>& listener;
    void add(std::string_view bytes) {
      buffer.add(bytes);
      if (listener && !bytes.empty()) (listener.get()->*Hear)(bytes);
    }
  };

  Stream output_{};
  Stream errors_{};
  Head head_{task_attempt_.max_result};
  Tail tail_{};
  std::unique_ptr<ProgramListener> listener_{};  // null: nobody listens
  Heard<Head, &ProgramListener::output> output_heard_{head_, listener_};
  Heard<Tail, &ProgramListener::errors> errors_heard_{tail_, listener_};
  ProgramClock::time_point began_{};
  std::string how_{};                 // how the program ended
  bool ready_ = false;                // the supervisor got as far as starting the program
  std::optional<int> not_started_{};  // an error number
  std::optional<Notice> ended_{};
  bool overdue_ = false;  // the supervisor did not end the program in time, and the worker did
};

}  // namespace

FoundCommand find_command(const std::string& command) {
  if (command.empty()) return {{}, ENOENT};
  if (command.find('/') != command.npos) return {command, execution_error(command)};
  const char* const variable = std::getenv("PATH");
  const std::string path = variable != nullptr ? variable : "/bin:/usr/bin";
  int found = ENOENT;  // why a file of that name could not be taken
  for (std::size_t at = 0; at <= path.size();) {
    const auto end = std::min(path.find(':', at), path.size());
    const auto folder = path.substr(at, end - at);
    const auto candidate = (folder.empty() ? "." : folder) + "/" + command;
    const int error = execution_error(candidate);
    if (error == 0) return {candidate, 0};
    if (error != ENOENT && error != ENOTDIR) found = error;
    at = end + 1;
  }
  return {{}, found};
}

Result<std::string> resolve_command(const std::string& command) {
  auto found = find_command(command);
  if (found.error == 0) return std::move(found.path);
  std::string why = reason(found.error);
  if (command.empty())
    why = "the name is empty";
  else if (found.path.empty() && found.error == ENOENT)
    why = "no such program in PATH";
  return Error{Code::invalid_input, "cannot run '" + command + "': " + why +
                                        "; nothing was run; name a program that "
                                        "is executable"};
}

namespace {

Result<Handler> handler_of(Role role, Program program, std::vector<std::string> command) {
  auto path = resolve_command(command.front());
  if (!path) return path.error();
  auto supervisor = resolve_command(program.supervisor);
  if (!supervisor) return supervisor.error();
  std::error_code ignored;
  program.supervisor = std::filesystem::absolute(*supervisor, ignored).lexically_normal().string();
  AttemptFolder::clear_abandoned();
  auto inherited = inherited_environment();
  auto supervisors = SupervisorPool::open(program.supervisor, inherited, program.adopts_orphans);
  if (!supervisors) return supervisors.error();
  // Shared by the copies of the handler, one per thread of the worker.
  auto prepared =
      std::make_shared<const Prepared>(Prepared{role, std::move(program), std::move(command), *path,
                                                std::move(*supervisors), std::move(inherited)});
  return Handler([prepared = std::move(prepared)](const TaskAttempt& task_attempt) {
    return Attempt(*prepared, task_attempt).run();
  });
}

}  // namespace

Result<Handler> program_handler(Program program) {
  if (program.command.empty())
    return Error{Code::invalid_input, "no command was given; nothing was run; name a program"};
  auto command = program.command;
  return handler_of(Role::program, std::move(program), std::move(command));
}

Result<Handler> program_probe(const Program& program) {
  if (program.probe.empty())
    return Error{Code::invalid_input, "no probe was given; nothing was run; name a command"};
  return handler_of(Role::probe, program, {"/bin/sh", "-c", program.probe});
}

}  // namespace once::engine
