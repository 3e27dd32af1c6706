#include "store/sqlite/open_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace once::store::sqlite {
namespace {

namespace fs = std::filesystem;

bool same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Of an open descriptor: "flags:\t0100002".
bool for_writing(const fs::path& info) {
  std::ifstream lines(info);
  for (std::string word; lines >> word;)
    if (word == "flags:") {
      lines >> word;
      return (std::strtoul(word.c_str(), nullptr, 8) & O_ACCMODE) != O_RDONLY;
    }
  return true;
}

bool same_program(const fs::path& process) {
  struct stat its {};
  struct stat own {};
  return stat((process / "exe").c_str(), &its) == 0 && stat("/proc/self/exe", &own) == 0 &&
         same(its, own);
}

pid_t pid_of(const fs::path& process) {
  const std::string name = process.filename();
  pid_t pid = 0;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), pid);
  return failed == std::errc{} && end == name.data() + name.size() ? pid : 0;
}

// The kernel shows a file without a name as "/where/it/was (deleted)".
std::string deleted_name(const fs::path& link) {
  constexpr std::string_view kMark = " (deleted)";
  std::error_code failed;
  std::string name = fs::read_symlink(link, failed);
  if (!name.ends_with(kMark)) return {};
  return name.substr(0, name.size() - kMark.size());
}

bool other_time(const fs::path& process) {
  struct stat its {};
  struct stat own {};
  return stat((process / "ns/time").c_str(), &its) == 0 && stat("/proc/self/ns/time", &own) == 0 &&
         !same(its, own);
}

struct Wanted {
  std::string name{};
  struct stat database {};
  std::vector<struct stat> sides{};
};

enum class FileLook { has_it_not, has_it, unseen };

FileLook look_into(const fs::path& process, const Wanted& wanted, OpenedBy& holder) {
  std::error_code failed;
  bool found = false;
  fs::directory_iterator each(process / "fd", failed);
  if (failed)
    return failed == std::errc::permission_denied ? FileLook::unseen : FileLook::has_it_not;
  for (; each != fs::directory_iterator(); each.increment(failed)) {
    struct stat status {};
    if (stat(each->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (same(status, wanted.database)) {
      found = true;
      holder.writes |= for_writing(process / "fdinfo" / each->path().filename());
    }
    if (status.st_nlink == 0 && holder.deleted.empty()) {
      const std::string name = deleted_name(each->path());
      for (const char* suffix : {"", "-wal", "-shm"})
        if (name == wanted.name + suffix) holder.deleted = name;
    }
    holder.ours |= std::any_of(wanted.sides.begin(), wanted.sides.end(),
                               [&](const struct stat& side) { return same(side, status); });
    if (failed) break;
  }
  holder.ours |= same_program(process);
  holder.other_time = other_time(process);
  return found || !holder.deleted.empty() ? FileLook::has_it : FileLook::has_it_not;
}

}  // namespace

std::string program_name(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name.empty() ? "?" : name;
}

OpenFiles who_has_open(const std::string& database) {
  OpenFiles open;
  Wanted wanted{.name = database};
  if (stat(database.c_str(), &wanted.database) != 0) return open;
  for (const char* side : {"-lock", "-members"}) {
    struct stat status {};
    if (stat((database + side).c_str(), &status) == 0) wanted.sides.push_back(status);
  }
  std::error_code failed;
  if (!fs::exists("/proc/1", failed)) ++open.unseen;  // processes of others are hidden here
  for (fs::directory_iterator each("/proc", failed); !failed && each != fs::directory_iterator();
       each.increment(failed)) {
    OpenedBy holder{.pid = pid_of(each->path())};
    if (holder.pid == 0 || holder.pid == getpid()) continue;
    const FileLook look = look_into(each->path(), wanted, holder);
    ++(look == FileLook::unseen ? open.unseen : open.looked_into);
    if (look != FileLook::has_it) continue;
    holder.name = program_name(holder.pid);
    open.others.push_back(std::move(holder));
  }
  return open;
}

// Lines such as `1: POSIX  ADVISORY  READ 1234 08:01:5678 124 124`. A reader of a WAL holds a lock on
// one of five bytes of the -shm file.
std::vector<pid_t> who_reads(const std::string& database) {
  constexpr long kFirstMark = 123;
  constexpr long kLastMark = 127;
  std::vector<pid_t> readers;
  struct stat shared {};
  if (stat((database + "-shm").c_str(), &shared) != 0) return readers;
  const std::string inode = ':' + std::to_string(shared.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, type, file;
    pid_t pid = 0;
    long first = 0;
    if (!(words >> number >> kind >> advisory >> type >> pid >> file >> first)) continue;
    if (!file.ends_with(inode) || type != "READ" || pid == getpid()) continue;
    if (first >= kFirstMark && first <= kLastMark) readers.push_back(pid);
  }
  return readers;
}

}  // namespace once::store::sqlite
