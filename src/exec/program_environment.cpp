// Builds the ONCE_... variables, the task file and the folder that it lies in.
#include "exec/program_environment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "codec/digest.h"
#include "core/names.h"
#include "core/utf8.h"
#include "exec/stray_processes.h"
#include "json/base64.h"
#include "json/json.h"

namespace once::engine {
namespace {

// What a task sets, or a task of another worker may have set: never passed on.
constexpr std::array<std::string_view, 19> kOfOneTask = {
    "ONCE_ID",      "ONCE_KEY",       "ONCE_TOPIC",           "ONCE_QUEUE",    "ONCE_SEQUENCE",
    "ONCE_ATTEMPT", "ONCE_TOKEN",     "ONCE_IN_DOUBT",        "ONCE_DEADLINE", "ONCE_SOCKET",
    "ONCE_STORE",   "ONCE_BIN",       "ONCE_TASK_FILE",       "ONCE_RESULT",   "ONCE_RUN",
    "ONCE_STEP",    "ONCE_STEP_NAME", "ONCE_IDEMPOTENCY_KEY", "ONCE_CLAIM"};
constexpr std::string_view kCredentials = "ONCE_NATS_";

std::string rfc3339(Time time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  char text[64];
  std::snprintf(
      text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return text;
}

void append_member(std::string_view name, std::string_view value, std::string& out) {
  encoding::append_canonical_string(name, out);
  out += ':';
  encoding::append_canonical_string(value, out);
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(fd, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

// The names of older versions, once-XXXXXX, are not cleared: those versions held no lock.
constexpr char kFolder[] = "once-attempt-";

std::string folder_root() {
  const char* const root = std::getenv("TMPDIR");
  std::error_code ignored;  // the files' names hold wherever the program changes to
  return std::filesystem::absolute(root != nullptr && *root != '\0' ? root : "/tmp", ignored)
      .string();
}

enum class Owner { self, another, unknown };  // unknown: the file system has no such locks

// Locks the open lock file of a folder if nobody else has, and looks whether it is still there. No
// flock(): people look for those of a worker to see whether it is in the middle of a write.
Owner owner_of(const store::FileDescriptor& file, const std::string& folder) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(file.get(), F_OFD_SETLK, &lock) != 0)
    return errno == EAGAIN || errno == EACCES ? Owner::another : Owner::unknown;
  struct stat opened {};
  struct stat named {};
  const bool there = ::fstat(file.get(), &opened) == 0 &&
                     ::lstat((folder + supervisor::kLockFile).c_str(), &named) == 0 &&
                     opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
  return there ? Owner::self : Owner::another;
}

// The lock of a folder that nobody owns; none of a link, and none of another user's folder.
store::FileDescriptor lock_abandoned(const std::string& folder) {
  const store::FileDescriptor opened(
      ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  if (!opened || ::fstat(opened.get(), &about) != 0 || about.st_uid != ::geteuid()) return {};
  store::FileDescriptor lock(
      ::openat(opened.get(), supervisor::kLockFile + 1, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  // Its maker was killed before it had a lock, or is about to lock it and then makes another.
  if (!lock && errno == ENOENT) ::rmdir(folder.c_str());
  if (!lock || owner_of(lock, folder) != Owner::self) return {};
  return lock;
}

}  // namespace

std::vector<std::string> inherited_environment() {
  std::vector<std::string> kept;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const auto name = variable.substr(0, variable.find('='));
    if (name.starts_with(kCredentials)) continue;
    if (std::find(kOfOneTask.begin(), kOfOneTask.end(), name) != kOfOneTask.end()) continue;
    kept.emplace_back(variable);
  }
  return kept;
}

std::string task_line(const TaskAttempt& task_attempt) {
  const Task& task = task_attempt.task;
  std::string line = "{\"sequence\":" + std::to_string(task_attempt.sequence.value) + ',';
  append_member("id", task.id, line);
  line += ',';
  append_member("topic", task.topic, line);
  if (task.body.is_json()) {
    line += ",\"body\":";
    const auto begin = line.size();
    line += task.body.text();
    // Outside of strings, where alone they can stand, line ends are white space.
    std::replace_if(
        line.begin() + static_cast<std::ptrdiff_t>(begin), line.end(),
        [](char c) { return c == '\n' || c == '\r'; }, ' ');
  } else if (core::valid_utf8(task.body.text())) {
    line += ',';
    append_member("body", task.body.text(), line);
    line += ",\"text\":true";
  } else {
    line += ",\"raw\":\"" + encoding::base64(task.body.text()) + '"';
  }
  line += ",\"headers\":{";
  for (const auto& [name, value] : task.headers) {
    if (line.back() != '{') line += ',';
    append_member(name, value, line);
  }
  line += "},";
  append_member("published_at", rfc3339(task_attempt.published_at), line);
  line += ',';
  append_member("digest", encoding::text(task_attempt.digest), line);
  const auto append_time = [&](std::string_view name, const std::optional<Time>& time) {
    if (!time) return;
    line += ',';
    append_member(name, rfc3339(*time), line);
  };
  append_time("not_before", task.not_before);
  append_time("expires", task.expires);
  line += "}\n";
  return line;
}

Result<AttemptFolder> AttemptFolder::make(const TaskAttempt& task_attempt) {
  std::string path;
  const auto failure = [&](const char* what) {
    return Error{Code::failed,
                 std::string(what) + path + ": " + std::strerror(errno) +
                     "; the program was not started; make room there or set TMPDIR, then start "
                     "the worker again",
                 true};
  };
  store::FileDescriptor lock;
  for (bool mine = false; !mine;) {
    path = folder_root() + '/' + kFolder + "XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return failure("cannot make a folder ");  // mode 0700
    lock = store::FileDescriptor(::open((path + supervisor::kLockFile).c_str(),
                                        O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!lock && errno != ENOENT) {
      auto failed = failure("cannot write to the folder ");
      ::rmdir(path.c_str());
      return failed;
    }
    // Another worker may take the new folder for abandoned, and remove it.
    mine = lock && owner_of(lock, path) != Owner::another;
  }
  AttemptFolder folder(std::move(path), std::move(lock));
  path = folder.task_file();
  const store::FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file || !write_all(file.get(), task_line(task_attempt))) return failure("cannot write ");
  return folder;
}

void AttemptFolder::clear_abandoned() {
  std::error_code error;
  const std::string root = folder_root();
  for (std::filesystem::directory_iterator at(root, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kFolder)) continue;
    if (auto lock = lock_abandoned(root + '/' + name)) {
      const AttemptFolder abandoned(root + '/' + name, std::move(lock));
    }
  }
}

AttemptFolder::AttemptFolder(AttemptFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

AttemptFolder::~AttemptFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> environment(const std::vector<std::string>& inherited,
                                     const TaskAttempt& task_attempt, const Program& program,
                                     const AttemptFolder& folder) {
  std::vector<std::string> variables = inherited;
  const auto set = [&](std::string_view name, std::string_view value) {
    std::string variable(name);
    variable += '=';
    variable += value;
    variables.push_back(std::move(variable));
  };
  set("ONCE_ID", task_attempt.task.id);
  set("ONCE_KEY", task_attempt.key);
  set("ONCE_TOPIC", task_attempt.task.topic);
  set("ONCE_QUEUE", task_attempt.queue);
  set("ONCE_SEQUENCE", std::to_string(task_attempt.sequence.value));
  set("ONCE_ATTEMPT", std::to_string(task_attempt.attempt));
  set("ONCE_TOKEN", std::to_string(task_attempt.token.value));
  set("ONCE_IN_DOUBT", task_attempt.in_doubt ? "1" : "0");
  set("ONCE_IDEMPOTENCY_KEY", idempotency_key(task_attempt));
  set("ONCE_CLAIM", claim_mark(task_attempt));
  if (!task_attempt.run.empty()) {
    set("ONCE_RUN", task_attempt.run);
    set("ONCE_STEP", task_attempt.step);
  }
  if (task_attempt.deadline) set("ONCE_DEADLINE", rfc3339(*task_attempt.deadline));
  // By which `once step` finds the worker; a probe has no steps.
  if (task_attempt.steps != nullptr) set("ONCE_SOCKET", folder.socket_file());
  set("ONCE_STORE", program.store);
  set("ONCE_BIN", program.supervisor);
  set("ONCE_TASK_FILE", folder.task_file());
  set("ONCE_RESULT", folder.result_file());
  return variables;
}

}  // namespace once::engine
