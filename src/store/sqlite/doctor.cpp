// What only this store can see: the file and what lies beside it, the disk, and who else has it open.
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <filesystem>

#include "core/findings.h"
#include "core/words.h"
#include "store/sqlite/failure.h"
#include "store/sqlite/open_files.h"
#include "store/sqlite/store_impl.h"

namespace once::store::sqlite {
namespace {

using core::size_text;

constexpr std::uint64_t kMiB = 1U << 20U;
// What is larger is read only when that is asked for.
constexpr std::uint64_t kCheckedAtOnce = 256 * kMiB;
// The log starts over at 64 MiB; one transaction may take it a little further.
constexpr std::uint64_t kLargeLog = 96 * kMiB;
constexpr std::uint64_t kLittleRoom = 512 * kMiB;
constexpr std::uint64_t kNoRoom = 100 * kMiB;
constexpr int kFirstWithRace = 3'007'000;
constexpr int kLastWithRace = 3'051'002;
constexpr unsigned long kTmpfs = 0x01021994;
constexpr unsigned long kRamfs = 0x858458f6;
constexpr unsigned long kOverlay = 0x794c7630;

std::uint64_t size_of(const std::string& file) {
  struct stat status {};
  return stat(file.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

std::string process(pid_t pid) { return program_name(pid) + " (" + std::to_string(pid) + ")"; }

class Look {
 public:
  Look(Database& database, const DoctorOptions& options, Examination& to)
      : database_(database), file_(database.path()), deep_(options.deep), to_(to) {}

  void run() {
    at_the_content();
    at_the_names();
    at_the_log();
    at_the_library();
    at_the_disk();
    at_side_files();
    at_others();
    at_wake_ups();
  }

 private:
  void find(std::string_view key, Severity severity, std::string about, Facts facts = {}) {
    to_.findings.push_back(core::finding(key, severity, std::move(about), std::move(facts)));
  }
  void checked(std::string what) { to_.checked.push_back(std::move(what)); }

  // The first complaints of SQLite's own check; empty: none.
  static std::string complaints(Connection& db, bool deep) {
    std::string text;
    try {
      Query query = db.query(deep ? "PRAGMA integrity_check(5)" : "PRAGMA quick_check(5)");
      while (query.step())
        if (query.bytes(0) != "ok")
          text += (text.empty() ? "" : "; ") + std::string(query.bytes(0));
    } catch (const Failure& failure) {
      text = failure.error().message;
    }
    return text;
  }

  void at_the_content() {
    const std::uint64_t size = size_of(file_);
    std::string mode;
    std::string wrong;
    const bool whole = deep_ || size <= kCheckedAtOnce;
    const auto read = database_.read([&](ReadTransaction& transaction) {
      {
        Query query = transaction.db().query("PRAGMA journal_mode");
        if (query.step()) mode = query.bytes(0);
      }
      to_.last = {load_zone(transaction.db()).last_sequence};
      if (whole) wrong = complaints(transaction.db(), deep_);
      return true;
    });
    if (!read) wrong = read.error().message;
    if (!wrong.empty()) find("database_damaged", Severity::hazard, file_, {{"error", wrong}});
    if (!whole) {
      find("database_unchecked", Severity::unknown, file_, {{"size", size_text(size)}});
    } else if (wrong.empty()) {
      checked("database " + file_ + ": " + size_text(size) + ", " +
              (deep_ ? "integrity_check" : "quick_check") + " ok");
    }
    if (!mode.empty() && mode != "wal")
      find("not_wal", Severity::warning, file_, {{"mode", mode}});
    else
      checked("journal mode wal, every commit synced before its receipt (synchronous FULL)");
  }

  void at_the_log() {
    const std::uint64_t size = size_of(file_ + "-wal");
    checked("write-ahead log: " + size_text(size));
    if (size < kLargeLog) return;
    const auto readers = who_reads(file_);
    std::string named;
    for (const pid_t pid : readers) named += (named.empty() ? "" : ", ") + process(pid);
    find(named.empty() ? "wal_large/free" : "wal_large",
         named.empty() ? Severity::note : Severity::warning, file_ + "-wal",
         {{"size", size_text(size)}, {"readers", named}});
  }

  void at_the_library() {
    const int version = sqlite3_libversion_number();
    checked(std::string("SQLite ") + sqlite3_libversion());
    if (version < kFirstWithRace || version > kLastWithRace) return;
    find("sqlite_wal_race", Severity::note, std::string("SQLite ") + sqlite3_libversion());
  }

  void at_the_disk() {
    const std::string folder = std::filesystem::path(file_).parent_path();
    struct statfs system {};
    struct statvfs room {};
    if (statfs(folder.c_str(), &system) == 0) {
      const auto type = static_cast<unsigned long>(system.f_type) & 0xffffffffUL;
      if (type == kTmpfs || type == kRamfs) find("volatile_file_system", Severity::hazard, folder);
      if (type == kOverlay) find("container_layer", Severity::note, folder);
    }
    if (statvfs(folder.c_str(), &room) != 0) return;
    const std::uint64_t free = std::uint64_t{room.f_bavail} * room.f_frsize;
    checked("disk: a local file system, " + size_text(free) + " free");
    if (free >= kLittleRoom) return;
    find("disk_nearly_full", free < kNoRoom ? Severity::hazard : Severity::warning, folder,
         {{"free", size_text(free)}});
  }

  void at_side_files() {
    struct stat database {};
    if (stat(file_.c_str(), &database) != 0) return;
    std::string looked;
    for (const char* suffix : {"-wal", "-shm", "-lock", "-members"}) {
      struct stat side {};
      if (stat((file_ + suffix).c_str(), &side) != 0) continue;
      looked += (looked.empty() ? "" : ", ") + std::string(suffix);
      const bool narrower = (database.st_mode & ~side.st_mode & 0666) != 0;
      const bool shared = (database.st_mode & 0060) != 0 && (database.st_mode & 0006) == 0;
      if (!narrower && !(shared && side.st_gid != database.st_gid)) continue;
      find("side_file_rights", Severity::warning, file_ + suffix,
           {{"database", file_}, {"file", file_ + suffix}});
    }
    checked("files beside the database: " + (looked.empty() ? "none" : looked));
  }

  void at_others() {
    const OpenFiles open = who_has_open(file_);
    std::size_t ours = 0;
    for (const OpenedBy& each : open.others) {
      ours += each.ours ? 1 : 0;
      at_its_files(each);
      if (each.ours || !each.deleted.empty()) continue;
      find(each.writes ? "other_program" : "other_program/reads",
           each.writes ? Severity::hazard : Severity::note, file_,
           {{"process", each.name + " (" + std::to_string(each.pid) + ")"}});
    }
    checked("other programs on the file: looked into " + std::to_string(open.looked_into) +
            " processes, " + std::to_string(ours) + " of Once's have it open");
    if (open.looked_into == 0 || open.unseen > 0)
      find("open_files_unseen", Severity::unknown, file_, {{"file", file_}});
  }

  void at_its_files(const OpenedBy& each) {
    if (!each.deleted.empty())
      find("deleted_file", Severity::hazard, each.deleted, {{"process", process(each.pid)}});
    if (each.ours && each.other_time) find("time_namespace", Severity::note, process(each.pid));
  }

  void at_the_names() {
    if (const auto twice = second_name(file_))
      find("second_name", Severity::hazard, file_, {{"names", *twice}, {"one_name", kOneName}});
    else
      checked("one name, and no file of the database is mounted alone");
    if (database_.clock().boot_known()) return;
    find("boot_unknown", Severity::note, "/proc/sys/kernel/random/boot_id");
  }

  void at_wake_ups() {
    const FileDescriptor instance(inotify_init1(IN_CLOEXEC));
    if (instance) {
      checked("inotify: there");
      return;
    }
    find("no_inotify", Severity::note, "inotify", {{"error", errno_text(errno)}});
  }

  Database& database_;
  const std::string& file_;
  const bool deep_;
  Examination& to_;
};

}  // namespace

Result<Examination> SqliteStore::examine(const DoctorOptions& options) {
  Examination examination;
  Look(*database_, options, examination).run();
  return examination;
}

}  // namespace once::store::sqlite
