#include "store/sqlite/presence.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "store/sqlite/failure.h"
#include "store/sqlite/file_system.h"

namespace once::store::sqlite {
namespace {

struct flock byte_of(core::Member member) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(member.value);
  lock.l_len = 1;
  return lock;
}

std::int64_t inode(const FileDescriptor& fd) {
  struct stat status {};
  return fstat(fd.get(), &status) == 0 ? static_cast<std::int64_t>(status.st_ino) : 0;
}

}  // namespace

Result<Presence::Place> Presence::take(core::Member member) {
  auto opened = open_side_file(file_, database_);
  if (!opened) return opened.error();
  struct flock lock = byte_of(member);
  if (fcntl(opened->get(), F_OFD_SETLK, &lock) != 0)
    return unusable("the place of worker " + std::to_string(member.value) + " in " + file_ +
                    " cannot be taken (" + errno_text(errno) + "): the worker was not started");
  const std::int64_t file = inode(*opened);
  return Place{std::move(*opened), file};
}

void Presence::arrived(core::Member member) {
  const std::lock_guard lock(mutex_);
  here_.insert(member);
}

void Presence::left(core::Member member) {
  const std::lock_guard lock(mutex_);
  here_.erase(member);
}

bool Presence::here(core::Member member) {
  const std::lock_guard lock(mutex_);
  return here_.contains(member);
}

bool Presence::gone(core::Member member, std::int64_t file) {
  const auto type = lock_on(member, file);
  return type && *type == F_UNLCK;
}

bool Presence::held(core::Member member, std::int64_t file) {
  const auto type = lock_on(member, file);
  return type && *type != F_UNLCK;
}

std::optional<short> Presence::lock_on(core::Member member, std::int64_t file) {
  const std::lock_guard lock(mutex_);
  struct flock wanted = byte_of(member);
  if (!look_into(file) || fcntl(probe_.get(), F_OFD_GETLK, &wanted) != 0) return std::nullopt;
  return wanted.l_type;
}

bool Presence::look_into(std::int64_t file) {
  if (probe_ && probed_file_ == file) return true;
  FileDescriptor current(open(file_.c_str(), O_RDWR | O_CLOEXEC));
  if (!current || inode(current) != file) return false;
  probe_ = std::move(current);
  probed_file_ = file;
  return true;
}

}  // namespace once::store::sqlite
