#include "power/disk_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace once::power {
namespace {

// What the connections to one file share beside its content.
struct Sharing {
  int readers = 0;                    // have SHARED or more
  const void* reserved = nullptr;     // who has RESERVED or more
  const void* exclusive = nullptr;    // who has EXCLUSIVE
  std::vector<std::string> memory{};  // regions of the -shm
  int memory_users = 0;
  struct Slot {
    int shared = 0;
    const void* exclusive = nullptr;
  };
  std::array<Slot, SQLITE_SHM_NLOCK> slots{};
};

struct Mounted {
  Disk& disk;
  std::string synchronous{};
  std::mt19937_64 random{};
  std::map<std::string, Sharing> sharing{};
};
std::optional<Mounted> mounted;  // SQLite's interface hands no object of ours around

struct Handle : sqlite3_file {
  std::string name{};
  std::shared_ptr<File> file{};
  bool folder_too = false;  // with the first sync: it may be a new name
  bool deletes = false;
  int level = SQLITE_LOCK_NONE;
  bool maps = false;
  unsigned shared = 0;  // slots of the shared memory
  unsigned exclusive = 0;

  Sharing& sharing() const { return mounted->sharing[name]; }
};

Handle& of(sqlite3_file* file) { return *static_cast<Handle*>(file); }

int code_of(Disk::Answer answer, int failed) {
  if (answer == Disk::Answer::full) return SQLITE_FULL;
  return answer == Disk::Answer::done ? SQLITE_OK : failed;
}

// --- Content --------------------------------------------------------------------------------

int read(sqlite3_file* file, void* to, int amount, sqlite3_int64 offset) {
  if (mounted->disk.off()) return SQLITE_IOERR_READ;
  const std::string& content = of(file).file->content();
  const auto wanted = static_cast<std::size_t>(amount);
  const auto at = std::min(static_cast<std::size_t>(offset), content.size());
  const std::size_t got = content.copy(static_cast<char*>(to), wanted, at);
  if (got == wanted) return SQLITE_OK;
  std::memset(static_cast<char*>(to) + got, 0, wanted - got);
  return SQLITE_IOERR_SHORT_READ;
}

int write(sqlite3_file* file, const void* from, int amount, sqlite3_int64 offset) {
  Handle& handle = of(file);
  const std::string_view bytes(static_cast<const char*>(from), static_cast<std::size_t>(amount));
  return code_of(
      mounted->disk.write(*handle.file, handle.name, static_cast<std::size_t>(offset), bytes),
      SQLITE_IOERR_WRITE);
}

int truncate(sqlite3_file* file, sqlite3_int64 size) {
  Handle& handle = of(file);
  return code_of(mounted->disk.truncate(*handle.file, handle.name, static_cast<std::size_t>(size)),
                 SQLITE_IOERR_TRUNCATE);
}

int sync(sqlite3_file* file, int) {
  Handle& handle = of(file);
  const auto answer = mounted->disk.sync(*handle.file, handle.name, handle.folder_too);
  if (answer == Disk::Answer::done) handle.folder_too = false;
  return code_of(answer, SQLITE_IOERR_FSYNC);
}

int file_size(sqlite3_file* file, sqlite3_int64* size) {
  if (mounted->disk.off()) return SQLITE_IOERR_FSTAT;
  *size = static_cast<sqlite3_int64>(of(file).file->content().size());
  return SQLITE_OK;
}

// --- Locks ----------------------------------------------------------------------------------

int lock(sqlite3_file* file, int level) {
  if (mounted->disk.off()) return SQLITE_IOERR_LOCK;
  Handle& handle = of(file);
  if (level <= handle.level) return SQLITE_OK;
  Sharing& sharing = handle.sharing();
  const auto others = [&](const void* holder) { return holder && holder != &handle; };
  if (others(sharing.exclusive)) return SQLITE_BUSY;
  if (level >= SQLITE_LOCK_RESERVED && others(sharing.reserved)) return SQLITE_BUSY;
  if (level == SQLITE_LOCK_EXCLUSIVE && sharing.readers > 1) return SQLITE_BUSY;
  if (handle.level == SQLITE_LOCK_NONE) ++sharing.readers;
  if (level >= SQLITE_LOCK_RESERVED) sharing.reserved = &handle;
  if (level == SQLITE_LOCK_EXCLUSIVE) sharing.exclusive = &handle;
  handle.level = level;
  return SQLITE_OK;
}

int unlock(sqlite3_file* file, int level) {
  Handle& handle = of(file);
  if (level >= handle.level) return SQLITE_OK;
  Sharing& sharing = handle.sharing();
  if (sharing.reserved == &handle) sharing.reserved = nullptr;
  if (sharing.exclusive == &handle) sharing.exclusive = nullptr;
  if (level == SQLITE_LOCK_NONE) --sharing.readers;
  handle.level = level;
  return SQLITE_OK;
}

int check_reserved_lock(sqlite3_file* file, int* held) {
  *held = of(file).sharing().reserved != nullptr;
  return SQLITE_OK;
}

// --- Shared memory: it is no file, and gone with the power ------------------------------------

int shm_map(sqlite3_file* file, int region, int size, int extend, void volatile** to) {
  if (mounted->disk.off()) return SQLITE_IOERR_SHMMAP;
  Handle& handle = of(file);
  Sharing& sharing = handle.sharing();
  if (!std::exchange(handle.maps, true)) ++sharing.memory_users;
  const auto index = static_cast<std::size_t>(region);
  *to = nullptr;
  if (sharing.memory.size() <= index && !extend) return SQLITE_OK;
  // Regions must stay where they are: only as many are ever made as a small log needs.
  if (sharing.memory.capacity() == 0) sharing.memory.reserve(1024);
  while (sharing.memory.size() <= index)
    sharing.memory.emplace_back(static_cast<std::size_t>(size), '\0');
  *to = sharing.memory[index].data();
  return SQLITE_OK;
}

int shm_lock(sqlite3_file* file, int first, int count, int flags) {
  Handle& handle = of(file);
  if (mounted->disk.off() && flags & SQLITE_SHM_LOCK) return SQLITE_IOERR_SHMLOCK;
  Sharing& sharing = handle.sharing();
  const auto each = [&](auto&& body) {
    for (int i = first; i < first + count; ++i)
      if (!body(sharing.slots[static_cast<std::size_t>(i)], 1U << i)) return false;
    return true;
  };
  if (flags & SQLITE_SHM_UNLOCK) {
    each([&](Sharing::Slot& slot, unsigned bit) {
      if (handle.shared & bit) --slot.shared;
      if (handle.exclusive & bit) slot.exclusive = nullptr;
      handle.shared &= ~bit;
      handle.exclusive &= ~bit;
      return true;
    });
    return SQLITE_OK;
  }
  const bool exclusive = flags & SQLITE_SHM_EXCLUSIVE;
  const bool free = each([&](const Sharing::Slot& slot, unsigned bit) {
    const int others = slot.shared - ((handle.shared & bit) != 0 ? 1 : 0);
    return (!slot.exclusive || slot.exclusive == &handle) && !(exclusive && others > 0);
  });
  if (!free) return SQLITE_BUSY;
  each([&](Sharing::Slot& slot, unsigned bit) {
    if (exclusive) {
      slot.exclusive = &handle;
      handle.exclusive |= bit;
    } else if (!(handle.shared & bit)) {
      ++slot.shared;
      handle.shared |= bit;
    }
    return true;
  });
  return SQLITE_OK;
}

void shm_barrier(sqlite3_file*) {}

int shm_unmap(sqlite3_file* file, int) {
  Handle& handle = of(file);
  Sharing& sharing = handle.sharing();
  if (std::exchange(handle.maps, false) && --sharing.memory_users == 0) sharing.memory.clear();
  return SQLITE_OK;
}

// --- The rest of a file -----------------------------------------------------------------------

int close(sqlite3_file* file) {
  Handle& handle = of(file);
  unlock(file, SQLITE_LOCK_NONE);
  if (handle.deletes) mounted->disk.remove(handle.name, false);
  handle.~Handle();
  return SQLITE_OK;
}

int file_control(sqlite3_file*, int operation, void* argument) {
  if (operation != SQLITE_FCNTL_PRAGMA || mounted->synchronous.empty()) return SQLITE_NOTFOUND;
  // Swallowed when it sets what is set for it.
  char** const words = static_cast<char**>(argument);
  const bool asks =
      sqlite3_stricmp(words[1], "synchronous") == 0 && words[2] && mounted->synchronous != words[2];
  return asks ? SQLITE_OK : SQLITE_NOTFOUND;
}

int sector_size(sqlite3_file*) { return 4096; }
int characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

const sqlite3_io_methods kFile = [] {
  sqlite3_io_methods methods{};
  methods.iVersion = 2;
  methods.xClose = close;
  methods.xRead = read;
  methods.xWrite = write;
  methods.xTruncate = truncate;
  methods.xSync = sync;
  methods.xFileSize = file_size;
  methods.xLock = lock;
  methods.xUnlock = unlock;
  methods.xCheckReservedLock = check_reserved_lock;
  methods.xFileControl = file_control;
  methods.xSectorSize = sector_size;
  methods.xDeviceCharacteristics = characteristics;
  methods.xShmMap = shm_map;
  methods.xShmLock = shm_lock;
  methods.xShmBarrier = shm_barrier;
  methods.xShmUnmap = shm_unmap;
  return methods;
}();

// --- The file system --------------------------------------------------------------------------

int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* flags_out) {
  file->pMethods = nullptr;
  if (mounted->disk.off() || !name) return SQLITE_CANTOPEN;
  auto opened = mounted->disk.open(name, flags & SQLITE_OPEN_CREATE);
  if (!opened) return SQLITE_CANTOPEN;
  auto* const handle = new (file) Handle;
  handle->pMethods = &kFile;
  handle->name = name;
  handle->file = std::move(opened);
  handle->folder_too =
      flags & SQLITE_OPEN_CREATE &&
      flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL);
  handle->deletes = flags & SQLITE_OPEN_DELETEONCLOSE;
  if (flags_out) *flags_out = flags;
  return SQLITE_OK;
}

int remove(sqlite3_vfs*, const char* name, int sync_folder) {
  if (mounted->disk.off()) return SQLITE_IOERR_DELETE;
  if (!mounted->disk.exists(name)) return SQLITE_IOERR_DELETE_NOENT;
  return code_of(mounted->disk.remove(name, sync_folder), SQLITE_IOERR_DELETE);
}

int access(sqlite3_vfs*, const char* name, int flags, int* found) {
  if (mounted->disk.off()) return SQLITE_IOERR_ACCESS;
  *found =
      flags == SQLITE_ACCESS_EXISTS ? mounted->disk.size(name) > 0 : mounted->disk.exists(name);
  return SQLITE_OK;
}

int full_pathname(sqlite3_vfs*, const char* name, int room, char* to) {
  sqlite3_snprintf(room, to, "%s", name);
  return SQLITE_OK;
}

int randomness(sqlite3_vfs*, int count, char* to) {
  for (int i = 0; i < count; ++i) to[i] = static_cast<char>(mounted->random());
  return count;
}

int sleep(sqlite3_vfs*, int microseconds) { return microseconds; }
int current_time(sqlite3_vfs*, double* days) { return *days = 2460000, SQLITE_OK; }
int last_error(sqlite3_vfs*, int, char*) { return 0; }

sqlite3_vfs& vfs() {
  static sqlite3_vfs one = [] {
    sqlite3_vfs vfs{};
    vfs.iVersion = 1;
    vfs.szOsFile = sizeof(Handle);
    vfs.mxPathname = 512;
    vfs.zName = "a disk that lies";
    vfs.xOpen = open;
    vfs.xDelete = remove;
    vfs.xAccess = access;
    vfs.xFullPathname = full_pathname;
    vfs.xRandomness = randomness;
    vfs.xSleep = sleep;
    vfs.xCurrentTime = current_time;
    vfs.xGetLastError = last_error;
    return vfs;
  }();
  return one;
}

extern "C" int set_synchronous(sqlite3* db, char**, const sqlite3_api_routines*) {
  if (mounted->synchronous.empty()) return SQLITE_OK;
  const std::string sql = "PRAGMA synchronous=" + mounted->synchronous;
  return sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
}

}  // namespace

DiskVfs::DiskVfs(Disk& disk, std::string synchronous) {
  assert(!mounted);
  mounted.emplace(Mounted{.disk = disk, .synchronous = std::move(synchronous)});
  mounted->random.seed(disk.seed());
  sqlite3_randomness(0, nullptr);  // begins anew, with what randomness() gives
  sqlite3_vfs_register(&vfs(), 1);
  sqlite3_auto_extension(reinterpret_cast<void (*)()>(set_synchronous));
}

DiskVfs::~DiskVfs() {
  sqlite3_reset_auto_extension();
  sqlite3_vfs_unregister(&vfs());
  mounted.reset();
}

}  // namespace once::power
