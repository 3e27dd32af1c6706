#include "store/sqlite/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "store/sqlite/failure.h"

namespace once::store::sqlite {
namespace {

bool may(const std::string& path, int how) {
  return faccessat(AT_FDCWD, path.c_str(), how, AT_EACCESS) == 0;
}

// mountinfo writes a blank as \040.
std::string unescaped(const std::string& place) {
  std::string text;
  for (std::size_t i = 0; i < place.size(); ++i) {
    const bool escape = place[i] == '\\' && i + 3 < place.size();
    text += escape ? static_cast<char>(std::stoi(place.substr(i + 1, 3), nullptr, 8)) : place[i];
    if (escape) i += 3;
  }
  return text;
}

FileId id_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, status.st_nlink, status.st_size};
}

}  // namespace

// stat() also asks for the times. Since Linux 6.13 the next write must then change them, and the sync of
// a commit takes a tenth longer. Some sandboxes forbid statx(), so stat() has the last word.
std::optional<FileId> file_named(const std::string& name) {
  struct statx quick {};
  if (statx(AT_FDCWD, name.c_str(), 0, STATX_INO | STATX_NLINK | STATX_SIZE, &quick) == 0)
    return FileId{gnu_dev_makedev(quick.stx_dev_major, quick.stx_dev_minor), quick.stx_ino,
                  quick.stx_nlink, static_cast<off_t>(quick.stx_size)};
  struct stat status {};
  if (stat(name.c_str(), &status) != 0) return std::nullopt;
  return id_of(status);
}

std::optional<FileId> file_of(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return std::nullopt;
  return id_of(status);
}

bool network_file_system(long f_type) {
  // The kernel's numbers are 32 bits wide; statfs may sign-extend them.
  switch (static_cast<unsigned long>(f_type) & 0xffffffffUL) {
    case 0x6969:      // NFS
    case 0x517b:      // SMB
    case 0xff534d42:  // CIFS
    case 0xfe534d42:  // SMB2
    case 0x564c:      // NCP
    case 0x5346414f:  // AFS
    case 0x6b414653:  // AFS, the kernel's
    case 0x73757245:  // Coda
    case 0x00c36400:  // Ceph
    case 0x0bd00bd0:  // Lustre
    case 0x01021997:  // 9P
    case 0x01161970:  // GFS2
    case 0x7461636f:  // OCFS2
    case 0x47504653:  // GPFS
    case 0x19830326:  // BeeGFS
    case 0xaad7aaea:  // PanFS
    case 0x20030528:  // OrangeFS
    case 0x786f4256:  // VirtualBox shared folders
    case 0xbacbacbc:  // VMware shared folders
    case 0x7c7c6673:  // Parallels shared folders
    case 0x65735546:  // FUSE
      return true;
    default: return false;
  }
}

Result<Found> look_at_database(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR)
      return unusable("the folder " + folder + " does not exist: nothing was made; make it first");
    return unusable("the folder " + folder + " cannot be looked at (" + errno_text(errno) + ")");
  }
  if (!S_ISDIR(status.st_mode)) return unusable(folder + " is not a folder: nothing was made");

  struct statfs system {};
  if (statfs(folder.c_str(), &system) == 0 && network_file_system(system.f_type))
    return unusable(path +
                    " is on a network or FUSE file system, where locks and syncs cannot be " +
                    "trusted: nothing was done; put it on a local disk");

  Found found = Found::missing;
  if (stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) return unusable(path + " is not a file: nothing was done");
    if (!may(path, R_OK | W_OK))
      return unusable(path + " is read-only for this user (" + errno_text(errno) +
                      "): nothing was done; Once needs to read and write it");
    found = status.st_size == 0 ? Found::empty : Found::something;
  } else if (errno != ENOENT) {
    return unusable(path + " cannot be looked at (" + errno_text(errno) + ")");
  }
  if (!may(folder, W_OK | X_OK))
    return unusable("the folder " + folder + " is read-only for this user (" + errno_text(errno) +
                    "): nothing was done; Once keeps files beside the database");
  return found;
}

std::optional<std::string> second_name(const std::string& database) {
  struct stat status {};
  if (stat(database.c_str(), &status) == 0 && status.st_nlink > 1)
    return database + " has " + std::to_string(status.st_nlink) +
           " names (hard links), and each would be a zone of its own";
  for (const char* suffix : {"", "-wal", "-shm", "-lock", "-members"})
    if (mounted_alone(database + suffix))
      return database + suffix +
             " is mounted as a single file: processes elsewhere use it by another name";
  return std::nullopt;
}

bool mounted_alone(const std::string& file) {
  struct statx status {};
  if (statx(AT_FDCWD, file.c_str(), 0, STATX_TYPE, &status) != 0) {
    if (errno == ENOENT) return false;
  } else if ((status.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0) {
    return (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  }
  // An older kernel. A line is `63 43 254:0 /root/of/it /mounted/on rw,relatime - ext4 ...`.
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string number, parent, device, root, place;
    if (words >> number >> parent >> device >> root >> place && unescaped(place) == file)
      return true;
  }
  return false;
}

Result<FileDescriptor> open_side_file(const std::string& side, const std::string& database) {
  // Not both at once, to know who made it: only then are mode and group given.
  while (true) {
    FileDescriptor existing(open(side.c_str(), O_RDWR | O_CLOEXEC));
    if (existing) return existing;
    if (errno == ENOENT) {
      FileDescriptor made(open(side.c_str(), O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0600));
      if (made) {
        follow_database(made, database);
        return made;
      }
      if (errno == EEXIST) continue;
    }
    const int error = errno;
    if (error == ENOSPC || error == EDQUOT)
      return Error{.code = Code::store_unusable,
                   .message = "the disk is full: " + side +
                              " cannot be made and nothing was written; free some space",
                   .retryable = true};
    return unusable(side + " cannot be opened (" + errno_text(error) +
                    "): nothing was written; give this user the rights it has to the database");
  }
}

void follow_database(const FileDescriptor& side, const std::string& database) {
  struct stat model {};
  struct stat own {};
  if (stat(database.c_str(), &model) != 0 || fstat(side.get(), &own) != 0) return;
  const uid_t owner = geteuid() == 0 ? model.st_uid : static_cast<uid_t>(-1);
  const bool moved = own.st_gid == model.st_gid && (geteuid() != 0 || own.st_uid == model.st_uid);
  // Where the group cannot be given, the mode still is: rights are never wider than the database's.
  if (!moved && fchown(side.get(), owner, model.st_gid) != 0) errno = 0;
  if ((own.st_mode & 0777) != (model.st_mode & 0777)) fchmod(side.get(), model.st_mode & 0777);
}

}  // namespace once::store::sqlite
