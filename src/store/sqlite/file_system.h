// What must be true of the place where a database lives, and the files that are kept beside it. The
// database itself is only ever opened by SQLite: closing any descriptor of it would drop SQLite's
// locks.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "once/result.h"
#include "store/file_descriptor.h"

namespace once::store::sqlite {

// What a file is, whatever its name.
struct FileId {
  dev_t device{};
  ino_t inode{};
  nlink_t names{};
  off_t size{};
  bool same(const FileId& other) const { return device == other.device && inode == other.inode; }
};

// nullopt if the name leads to no file, or the descriptor is not open.
std::optional<FileId> file_named(const std::string& name);
std::optional<FileId> file_of(int fd);

// Whether `f_type` of statfs(2) is a file system on which locks, shared memory or fsync cannot be
// relied on between machines. FUSE counts: sshfs and its like cannot be told from a local one.
bool network_file_system(long f_type);

enum class Found { missing, empty, something };

// Looks at the path, its folder and the rights to both, without opening anything. An error is
// store_unusable and says what is wrong.
Result<Found> look_at_database(const std::string& path);

// Side files are found by the database's name, so a database must have one name only. If it or a side
// file may have another one, says which file and why: a hard link, or a file that was mounted alone.
std::optional<std::string> second_name(const std::string& database);
inline constexpr const char* kOneName =
    "keep one name, and mount the folder instead of the file (docs/containers.md)";

// Whether a file system is mounted on this very file.
bool mounted_alone(const std::string& file);

// Opens the side file, making it when it is not there, with the mode and group of the database.
Result<FileDescriptor> open_side_file(const std::string& side, const std::string& database);
// Gives the open side file the mode and group of the database, as far as this user may.
void follow_database(const FileDescriptor& side, const std::string& database);

}  // namespace once::store::sqlite
