// Tells which workers are alive, by kernel locks. Each worker locks one byte of `PATH-members`, the
// byte of its member number. Its programs inherit the open file description that holds the lock. So
// the byte is free when the worker and all its programs are gone, however they ended.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "core/types.h"
#include "store/file_descriptor.h"

namespace once::store::sqlite {

// Any thread may call.
class Presence {
 public:
  Presence(std::string file, std::string database)
      : file_(std::move(file)), database_(std::move(database)) {}

  struct Place {
    FileDescriptor fd{};
    std::int64_t file{};  // which file it is (its inode): a deleted one says nothing of a new one
  };
  // Takes the member's byte; it is given back when the last copy of the descriptor is closed.
  Result<Place> take(core::Member member);

  // Workers of this process are known to be there without a look at the lock.
  void arrived(core::Member member);
  void left(core::Member member);
  bool here(core::Member member);

  // Whether the byte is known to be free. False if that is unknown.
  bool gone(core::Member member, std::int64_t file);
  // Whether the byte is known to be locked. False if that is unknown.
  bool held(core::Member member, std::int64_t file);

 private:
  std::optional<short> lock_on(core::Member member, std::int64_t file);  // none: not known
  bool look_into(std::int64_t file);

  const std::string file_;
  const std::string database_;
  std::mutex mutex_;
  FileDescriptor probe_;          // guarded by mutex_
  std::int64_t probed_file_ = 0;  // guarded by mutex_
  std::set<core::Member> here_;   // guarded by mutex_
};

}  // namespace once::store::sqlite
