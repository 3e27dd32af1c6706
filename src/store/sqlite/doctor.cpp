// What only this store can see: the file and what lies beside it, the disk, and who else has it open.
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <filesystem>

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
  void find(Finding finding) { to_.findings.push_back(std::move(finding)); }
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
    if (!wrong.empty())
      find({.code = "database_damaged",
            .severity = Severity::hazard,
            .about = file_,
            .what = "SQLite finds the file damaged: " + wrong,
            .harm = "records may be missing or wrong: a task may be lost, or run again",
            .fix = "stop everything that uses it, keep a copy, then bring back a backup (read "
                   "docs/effects.md, f, before a worker starts) or try sqlite3's .recover"});
    if (!whole) {
      find({.code = "database_unchecked",
            .severity = Severity::unknown,
            .about = file_,
            .what = "the file has " + size_text(size) + " and was not checked for damage",
            .harm = "damage loses or repeats what it meets",
            .fix = "once doctor --deep reads all of it"});
    } else if (wrong.empty()) {
      checked("database " + file_ + ": " + size_text(size) + ", " +
              (deep_ ? "integrity_check" : "quick_check") + " ok");
    }
    if (!mode.empty() && mode != "wal")
      find({.code = "not_wal",
            .severity = Severity::warning,
            .about = file_,
            .what =
                "the file is in journal mode " + mode + " instead of wal: another program set it",
            .harm =
                "who sets that also writes; readers and writers stand in each other's way until a "
                "write of Once's sets it back",
            .fix = "keep other programs off the file; the next write of Once's sets it back"});
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
    find({.code = "wal_large",
          .severity = named.empty() ? Severity::note : Severity::warning,
          .about = file_ + "-wal",
          .what = "the write-ahead log has " + size_text(size) +
                  (named.empty() ? "; nobody is seen to hold it now"
                                 : ", held open by a reader that does not end: " + named),
          .harm =
              "it grows until the disk is full; then a completion cannot be recorded, and its task "
              "is in doubt or run again",
          .fix = named.empty()
                     ? "nothing: the next writes start it over once no reader is in the way"
                     : "end that read transaction; the log starts over with the next writes"});
  }

  void at_the_library() {
    const int version = sqlite3_libversion_number();
    checked(std::string("SQLite ") + sqlite3_libversion());
    if (version < kFirstWithRace || version > kLastWithRace) return;
    find({.code = "sqlite_wal_race",
          .severity = Severity::note,
          .about = std::string("SQLite ") + sqlite3_libversion(),
          .what =
              "SQLite 3.7.0 to 3.51.2 can damage a file when two connections checkpoint or write "
              "at the same moment",
          .harm =
              "none among Once's own connections, which do so only under its lock; another program "
              "on the file does not know that lock",
          .fix = "keep other programs off the file, or use SQLite 3.51.3 or newer everywhere"});
  }

  void at_the_disk() {
    const std::string folder = std::filesystem::path(file_).parent_path();
    struct statfs system {};
    struct statvfs room {};
    if (statfs(folder.c_str(), &system) == 0) {
      const auto type = static_cast<unsigned long>(system.f_type) & 0xffffffffUL;
      if (type == kTmpfs || type == kRamfs)
        find({.code = "volatile_file_system",
              .severity = Severity::hazard,
              .about = folder,
              .what = "the folder is in memory (tmpfs)",
              .harm = "a restart of the machine takes every task and every record with it",
              .fix = "put the database on a disk"});
      if (type == kOverlay)
        find({.code = "container_layer",
              .severity = Severity::note,
              .about = folder,
              .what = "the folder is on an overlay file system, as a container's own files are",
              .harm = "what lies there goes with the container",
              .fix = "put the database on a volume"});
    }
    if (statvfs(folder.c_str(), &room) != 0) return;
    const std::uint64_t free = std::uint64_t{room.f_bavail} * room.f_frsize;
    checked("disk: a local file system, " + size_text(free) + " free");
    if (free >= kLittleRoom) return;
    find({.code = "disk_nearly_full",
          .severity = free < kNoRoom ? Severity::hazard : Severity::warning,
          .about = folder,
          .what = size_text(free) + " are free",
          .harm =
              "on a full disk nothing is published, and a completion cannot be recorded: its task "
              "is in doubt or run again, though its effect has happened",
          .fix = "free some space, or keep less: once retention --bodies 1d"});
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
      find({.code = "side_file_rights",
            .severity = Severity::warning,
            .about = file_ + suffix,
            .what = "not everybody who may use the database may use this file beside it",
            .harm = "for such users nothing works (exit 5); nothing is lost or repeated",
            .fix = "chmod and chgrp it like the database: chmod --reference=" + file_ + " " +
                   file_ + suffix});
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
      find({.code = "other_program",
            .severity = each.writes ? Severity::hazard : Severity::note,
            .about = file_,
            .what = each.name + " (" + std::to_string(each.pid) + ") has the database open" +
                    (each.writes ? " and may write to it" : " for reading"),
            .harm = each.writes ? "what it writes or checkpoints beside Once's lock can damage the "
                                  "file, or change records behind Once's back"
                                : "none; a long read makes the write-ahead log grow",
            .fix = "end it; look at a copy instead (sqlite3 FILE \".backup COPY\")"});
    }
    checked("other programs on the file: looked into " + std::to_string(open.looked_into) +
            " processes, " + std::to_string(ours) + " of Once's have it open");
    if (open.looked_into == 0 || open.unseen > 0)
      find({.code = "open_files_unseen",
            .severity = Severity::unknown,
            .about = file_,
            .what =
                "not all processes can be looked into, those of other users can't: whether they "
                "have the database open is not known",
            .harm = "another program that writes to or checkpoints the file can damage it",
            .fix = "run once doctor as root, or 'fuser -v " + file_ + "'"});
  }

  void at_its_files(const OpenedBy& each) {
    if (!each.deleted.empty())
      find(
          {.code = "deleted_file",
           .severity = Severity::hazard,
           .about = each.deleted,
           .what = process(each.pid) + " has this file open, and somebody deleted or replaced it",
           .harm = "what that process records there, and perhaps what it recorded before, is lost",
           .fix = "let that process end by SIGTERM; never delete a file beside a database in use"});
    if (each.ours && each.other_time)
      find({.code = "time_namespace",
            .severity = Severity::note,
            .about = process(each.pid),
            .what = "the process has the database open and is in another time namespace",
            .harm = "none from this version on; version 0.1 moves the zone's time by the offset",
            .fix = "run processes of version 0.1 outside of time namespaces"});
  }

  void at_the_names() {
    if (const auto twice = second_name(file_))
      find({.code = "second_name",
            .severity = Severity::hazard,
            .about = file_,
            .what = *twice,
            .harm = "processes that use different names do not see each other: tasks run twice; "
                    "every other command is refused",
            .fix = kOneName});
    else
      checked("one name, and no file of the database is mounted alone");
    if (database_.clock().boot_known()) return;
    find({.code = "boot_unknown",
          .severity = Severity::note,
          .about = "/proc/sys/kernel/random/boot_id",
          .what = "the kernel's boot id is hidden, as in containers of systemd-nspawn",
          .harm = "none; after a restart of the machine, leases may run to their end first",
          .fix = "show the kernel's boot id to the container"});
  }

  void at_wake_ups() {
    const FileDescriptor instance(inotify_init1(IN_CLOEXEC));
    if (instance) {
      checked("inotify: there");
      return;
    }
    find({.code = "no_inotify",
          .severity = Severity::note,
          .about = "inotify",
          .what = "this user has no inotify instance left (" + errno_text(errno) + ")",
          .harm = "none; workers in other processes look every 50 ms instead of being woken",
          .fix = "sysctl fs.inotify.max_user_instances=1024"});
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
