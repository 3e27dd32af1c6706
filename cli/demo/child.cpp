#include "cli/demo/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace once::cli::demo {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

// How it is started: in a process group of its own, so that ^C is the demo's alone, without the
// signals that the demo keeps for itself, and with its standard files.
class Start {
 public:
  Start(const Setting& setting, int in, int out) {
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_init(&files_);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    if (in >= 0) {
      posix_spawn_file_actions_adddup2(&files_, in, STDIN_FILENO);
    } else {
      posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    }
    if (out >= 0) {
      posix_spawn_file_actions_adddup2(&files_, out, STDOUT_FILENO);
    } else {
      posix_spawn_file_actions_addopen(&files_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    }
    posix_spawn_file_actions_addopen(&files_, STDERR_FILENO, setting.errors().c_str(),
                                     O_WRONLY | O_APPEND | O_CREAT, 0600);
  }
  ~Start() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&files_);
  }
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;

  int operator()(pid_t& pid, const std::string& path, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& environment) const {
    return ::posix_spawn(&pid, path.c_str(), &files_, &attributes_, pointers(arguments).data(),
                         pointers(environment).data());
  }

 private:
  posix_spawnattr_t attributes_{};
  posix_spawn_file_actions_t files_{};
};

}  // namespace

Result<Child> Child::start(const Setting& setting, std::vector<std::string> arguments, int in,
                           int out) {
  arguments.insert(arguments.begin(), {"once", "--demo-child", std::to_string(::getpid())});
  Child child;
  const int error =
      Start(setting, in, out)(child.pid_, setting.self, arguments, setting.environment);
  if (error == 0) return child;
  child.pid_ = 0;
  return Error{.code = Code::failed,
               .message = std::string("cannot start a process: ") + std::strerror(error)};
}

Child::Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)), status_(other.status_) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(status_, other.status_);
  return *this;
}

Child::~Child() {
  signal(SIGKILL);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

bool Child::running() {
  if (pid_ > 0 && ::waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = 0;
  return pid_ > 0;
}

void Child::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

int child_main(int argc, char** argv) {
  if (argc < 4) return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != std::atoi(argv[2])) return 1;  // it died before that took effect
  argv[2] = argv[0];
  ::execv("/proc/self/exe", argv + 2);
  return 1;
}

}  // namespace once::cli::demo
