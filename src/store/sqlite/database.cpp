#include "store/sqlite/database.h"

#include <algorithm>
#include <filesystem>

#include "store/sqlite/failure.h"
#include "store/sqlite/ledger_rows.h"

namespace once::store::sqlite {
namespace {

constexpr std::size_t kIdleReaders = 4;
// In pages of 4 KiB of the write-ahead log. A checkpoint copies the log into the database after
// each kCheckpointPages. Above kTruncatePages, the checkpoint also waits for readers for a moment,
// so that the log can start over. With a full disk, checkpoints come after
// kCheckpointPagesWhenFull.
constexpr int kCheckpointPages = 4'000;
constexpr int kCheckpointPagesWhenFull = 64;
constexpr int kTruncatePages = 16'384;
constexpr std::int64_t kNewestRecords = 100;  // of each queue, to compare the zone's counters with
constexpr Duration kTruncateWait{100};
constexpr Duration kCloseWait{200};
// A process whose write-ahead log was deleted notices that within a second, and saves its commits.
constexpr Duration kOthersWait{3'000};

Error no_database(const std::string& path) {
  return {.code = Code::not_found,
          .message = "there is no database " + path + "; nothing was made",
          .reason = Reason::no_database,
          .facts = {{"database", path}}};
}

int remember_wal_pages(void* to, sqlite3*, const char*, int pages) {
  *static_cast<int*>(to) = pages;
  return SQLITE_OK;
}

}  // namespace

// --- Write transactions ---------------------------------------------------------------------

WriteTransaction::WriteTransaction(Database& database) : database_(database) {
  database.files_.throw_if_lost();
  held_.emplace(database.lock_.acquire(database.lock_wait_).value());
  db_ = &database.writer();
  if (std::exchange(database.write_failed_, false)) {
    database.files_.check(ZoneFiles::Before::answer);
    database.save_room();
  }
  db_->query("BEGIN IMMEDIATE").run();
  open_ = true;
  try {
    changes_before_ = sqlite3_total_changes64(db_->handle());
    zone = load_zone(*db_);
    stored_zone_ = zone;
    db_->pin(database.files_);
    if (!database.used_) database.used_ = used_in(*db_, kNewestRecords);
    check_counters(zone, *database.used_, database.path_);
    db_->sync_log_once();
    queues_ = database.queues(*db_, zone.queue_version);
    deltas_.resize(queues_->all().size());
    if (auto usable = database.clock_.usable(); !usable) throw Failure(usable.error());
    if (database.clock_.this_boot(zone.time))
      database.clock_.go_on(zone.time);
    else
      begin_boot();
    database.clock_.follow(zone.time);
    now_ = database.clock_.now();
    wall_ = database.clock_.wall();
    holders_.emplace(*db_, database.presence_, database.clock_.boot_began());
  } catch (...) {
    roll_back();
    throw;
  }
}

WriteTransaction::~WriteTransaction() { roll_back(); }

void WriteTransaction::give_up() {
  changes_before_ = sqlite3_total_changes64(db_->handle());
  roll_back();
}

void WriteTransaction::roll_back() {
  if (!std::exchange(open_, false)) return;
  if (sqlite3_total_changes64(db_->handle()) != changes_before_) database_.write_failed_ = true;
  if (sqlite3_exec(db_->handle(), "ROLLBACK", nullptr, nullptr, nullptr) != SQLITE_OK &&
      !sqlite3_get_autocommit(db_->handle()))
    database_.drop_writer();
}

TopicRoutes& WriteTransaction::routes() { return database_.routes_; }

// No worker of an earlier boot is left, so the tasks of those workers are due at once. But
// containers on one machine can see different boot ids. Then such a worker may still run. To take
// its tasks would run them twice, so this is an error.
void WriteTransaction::begin_boot() {
  {
    Query query = db_->query("SELECT number, file, name FROM member");
    while (query.step())
      if (database_.presence_.held({query.number(0)}, query.integer(1)))
        throw Failure(unusable(
            "worker '" + std::string(query.bytes(2)) + "' is at work on " + database_.path_ +
            " and sees another boot of this machine (a container's?): nothing was done; let all "
            "that use the file see the same /proc/sys/kernel/random/boot_id"));
  }
  database_.clock_.begin_boot(zone.time);
  for (const KnownQueue& queue : queues_->all()) {
    watch_claims(*this, queue);
    db_->query(
           "UPDATE ledger SET due = ?2 WHERE qid = ?1 AND watched = 1 AND due IS NOT NULL"
           " AND state = 2")
        .bind(queue.qid, zone.time.base)
        .run();
  }
  db_->query("DELETE FROM member").run();
  save_zone(*db_, zone);
  stored_zone_ = zone;
  announce_ = true;
}

void WriteTransaction::flush_deltas() {
  for (const KnownQueue& queue : queues_->all()) {
    const QueueDelta& delta = deltas_[queue.place];
    if (!delta.changed) continue;
    const auto& more = delta.states;
    // If a queue has handed over everything, its cursor skips later entries of other queues.
    db_->query(
           "UPDATE queue SET cursor = CASE WHEN ?2 IS NOT NULL THEN ?2"
           " WHEN ?3 > 0 AND cursor >= tail THEN max(cursor, ?3 - 1) ELSE cursor END,"
           " tail = max(tail, ?4), matched = matched + ?5, waiting = waiting + ?6,"
           " running = running + ?7, retrying = retrying + ?8, in_doubt = in_doubt + ?9,"
           " completed = completed + ?10, dead = dead + ?11, cancelled = cancelled + ?12,"
           " duplicate = duplicate + ?13, longest_lease = max(longest_lease, ?14),"
           " swept = ifnull(?15, swept), lapse = CASE WHEN ?16 OR lapse IS NULL THEN ?17"
           " ELSE min(lapse, ifnull(?17, lapse)) END WHERE qid = ?1")
        .bind(queue.qid, delta.cursor, delta.first_match, delta.last_match, delta.matched, more[1],
              more[2], more[3], more[4], more[5], more[6], more[7], more[8], delta.longest_lease,
              delta.swept, delta.none_lapses ? 1 : 0, delta.lapse)
        .run();
  }
}

void WriteTransaction::commit() {
  flush_deltas();
  database_.files_.check_commit(db_->committed_log_size());
  if (sqlite3_total_changes64(db_->handle()) == changes_before_) return;  // nothing to keep
  zone.time.last = now_.time_since_epoch().count();
  if (zone.only_progressed(stored_zone_))
    save_progress(*db_, zone);
  else
    save_zone(*db_, zone);
  const int code = db_->commit();
  if (code != SQLITE_OK) {
    const Error error = commit_error(db_->handle(), code, database_.path_);
    if (error.in_doubt) {
      // The connection's view of the file may be wrong, so the connection is closed.
      open_ = false;
      database_.drop_writer();
    }
    throw Failure(error);
  }
  open_ = false;
  database_.files_.check(ZoneFiles::Before::receipt);
  database_.used_ = used_by(zone);
  database_.checkpoint();
  held_->release(announce_);
  if (announce_) database_.notifier_.notify();
}

// --- Read transactions ----------------------------------------------------------------------

ReadTransaction::ReadTransaction(Database& database)
    : database_(database), db_(database.take_reader()) {
  db_->query("BEGIN").run();
  std::int64_t version = 0;
  {
    Query query = db_->query("SELECT queue_version, unrouted FROM zone");
    if (query.step()) {
      version = query.integer(0);
      unrouted_ = query.integer(1);
    }
  }
  db_->pin(database.files_);
  db_->sync_log_once();
  queues_ = database.queues(*db_, version);
  now_ = database.clock_.now();
  holders_.emplace(*db_, database.presence_, database.clock_.boot_began());
}

ReadTransaction::~ReadTransaction() {
  // A connection that failed is closed. The next reader opens a new one.
  if (db_->commit() == SQLITE_OK) database_.give_back(std::move(db_));
}

// --- The database ---------------------------------------------------------------------------

Database::Database(std::string path, const SqliteOptions& options)
    : path_(std::move(path)),
      lock_wait_(options.lock_wait),
      files_(path_),
      clock_(options.clock, options.boot_id),
      // Without this check, a lock file would be made after the database was deleted.
      lock_(path_ + "-lock", path_,
            [this]() -> Result<void> {
              if (auto lost = files_.lost()) return *std::move(lost);
              return {};
            }),
      presence_(path_ + "-members", path_),
      notifier_(path_ + "-lock"),
      pages_per_checkpoint_(kCheckpointPages) {}

Result<std::shared_ptr<Database>> Database::open(const SqliteOptions& options) {
  // The side files are found by the database's name. So every path to it must give one name.
  std::error_code failed;
  const std::filesystem::path full =
      std::filesystem::weakly_canonical(std::filesystem::absolute(options.path, failed), failed);
  if (failed || options.path.empty() || !full.has_filename())
    return unusable("'" + options.path.string() + "' is no path of a database: nothing was done");
  const auto found = look_at_database(full.string());
  if (const auto twice = second_name(full.string()); twice && found && !options.allow_unsafe)
    return unusable(*twice + ": nothing was done; " + kOneName);
  if (!found) {
    // Where there is no folder there is no database either.
    if (!options.create && !std::filesystem::exists(full.parent_path(), failed))
      return no_database(full.string());
    return found.error();
  }
  if (*found != Found::something && !options.create) return no_database(full.string());
  auto database = std::make_shared<Database>(full.string(), options);
  if (auto usable = database->clock_.usable(); !usable) return usable.error();
  if (auto started = database->start(*found, options.create); !started) return started.error();
  return database;
}

Result<void> Database::start(Found found, bool create) {
  try {
    if (found == Found::something) {
      lock_.show();
      if (auto alone = files_.await_others(std::min(lock_wait_, kOthersWait)); !alone)
        return alone.error();
      auto reader = std::make_unique<Connection>(path_, Connection::Use::read, false, lock_wait_);
      const Content content = inspect(*reader);
      reader->pin(files_);
      if (content == Content::zone) {
        const ZoneRow zone = load_zone(*reader);
        uuid_ = load_uuid(*reader);
        if (clock_.this_boot(zone.time)) {
          clock_.follow(zone.time);
          give_back(std::move(reader));
          return {};
        }
      } else if (content == Content::nothing && !create) {
        return Error{.code = Code::not_found,
                     .message = path_ + " is empty, there is no zone in it: nothing was made"};
      }
    }
    {
      auto held = lock_.acquire(lock_wait_);
      if (!held) return held.error();
      writer_ = std::make_unique<Connection>(path_, Connection::Use::write, create, lock_wait_);
      if (const Content content = inspect(*writer_); content != Content::zone) {
        writer_->script("PRAGMA journal_mode=WAL; BEGIN IMMEDIATE;");
        if (content == Content::nothing) {
          create_schema(*writer_, clock_);
        } else {
          writer_->script("PRAGMA cache_spill=ON");  // an upgrade may rewrite most of the file
          upgrade_schema(*writer_);
        }
        writer_->script("COMMIT");
      }
      lock_.follow_database();
      uuid_ = load_uuid(*writer_);
      writer_.reset();
    }
    return write([](WriteTransaction&) {});
  } catch (const Failure& failure) {
    return failure.error();
  }
}

Database::~Database() {
  readers_.clear();
  if (!writer_ || files_.lost()) return;
  // The last process copies the write-ahead log into the file. It waits only shortly for the lock,
  // because the log is durable too.
  auto held = lock_.acquire(kCloseWait);
  if (held && !files_.lost()) writer_->checkpoint_on_close();
  writer_.reset();
}

Result<void> Database::run(const GroupCommit::Work& body) {
  try {
    WriteTransaction transaction(*this);
    try {
      body(transaction);
    } catch (const StatementFailure&) {
      throw;
    } catch (const Failure&) {
      transaction.give_up();
      throw;
    }
    transaction.commit();
    return {};
  } catch (const Failure& failure) {
    return failed(failure.error());
  }
}

Result<void> Database::check_files() {
  try {
    files_.check(ZoneFiles::Before::answer);
    return {};
  } catch (const Failure& failure) {
    return failed(failure.error());
  }
}

Error Database::failed(const Error& error) {
  if (!files_.lost()) return error;
  save_log();
  return error.in_doubt ? error : files_.lost().value_or(error);
}

// The write-ahead log was deleted, or the database was moved away from it. Copies the commits of
// the log into the database, where the next process finds them. Only processes that still have the
// log open can do that.
void Database::save_log() {
  if (!files_.log_can_be_saved()) return;
  const auto held = lock_.acquire(lock_wait_, WriteLock::File::as_opened);
  if (!held || !files_.log_can_be_saved()) return;
  const std::lock_guard lock(mutex_);
  Connection* const db = writer_ ? writer_.get() : readers_.empty() ? nullptr : readers_[0].get();
  if (!db) return;
  int left = 0;
  int saved = 0;
  if (sqlite3_wal_checkpoint_v2(db->handle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, &left, &saved) ==
          SQLITE_OK &&
      left == saved)
    files_.log_was_saved();
}

Connection& Database::writer() {
  files_.throw_if_lost();
  if (!writer_) {
    writer_ = std::make_unique<Connection>(path_, Connection::Use::write, false, lock_wait_);
    sqlite3_wal_hook(writer_->handle(), remember_wal_pages, &wal_pages_);
    // Another program may have changed the journal mode. The lock is held, so this can set it
    // again.
    writer_->script("PRAGMA journal_mode=WAL");
  }
  return *writer_;
}

// If a checkpoint fails, the commits stay in the write-ahead log, where they are durable.
void Database::checkpoint() {
  if (wal_pages_ < pages_at_checkpoint_) pages_at_checkpoint_ = 0;  // the log started over
  const bool large = wal_pages_ >= kTruncatePages;
  const int step = large ? pages_per_checkpoint_ / 4 : pages_per_checkpoint_;
  if (wal_pages_ - pages_at_checkpoint_ < step) return;
  pages_at_checkpoint_ = wal_pages_;
  pages_per_checkpoint_ = std::min(pages_per_checkpoint_ + 8, kCheckpointPages);  // see save_room()
  if (large)
    make_room();
  else
    sqlite3_wal_checkpoint_v2(writer_->handle(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr,
                              nullptr);
}

// A write failed, most likely because the disk is full. The space of the write-ahead log can be
// freed. From now on the log stays small, so that it does not take the space that the database
// needs.
void Database::save_room() {
  pages_per_checkpoint_ = kCheckpointPagesWhenFull;
  make_room();
}

// Copies the write-ahead log into the database and truncates the log, unless a reader blocks it.
void Database::make_room() {
  writer_->set_busy_wait(kTruncateWait);
  sqlite3_wal_checkpoint_v2(writer_->handle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr,
                            nullptr);
  writer_->set_busy_wait(lock_wait_);
}

std::unique_ptr<Connection> Database::take_reader() {
  {
    const std::lock_guard lock(mutex_);
    if (!readers_.empty()) {
      auto reader = std::move(readers_.back());
      readers_.pop_back();
      return reader;
    }
  }
  files_.check(ZoneFiles::Before::answer);
  return std::make_unique<Connection>(path_, Connection::Use::read, false, lock_wait_);
}

void Database::give_back(std::unique_ptr<Connection> reader) {
  const std::lock_guard lock(mutex_);
  if (readers_.size() < kIdleReaders) readers_.push_back(std::move(reader));
}

std::shared_ptr<const QueueSet> Database::queues(Connection& db, std::int64_t version) {
  {
    const std::lock_guard lock(mutex_);
    if (queues_ && queues_->version() == version) return queues_;
  }
  auto loaded = std::make_shared<const QueueSet>(QueueSet::load(db, version));
  const std::lock_guard lock(mutex_);
  if (!queues_ || queues_->version() < version) queues_ = loaded;
  return loaded;
}

}  // namespace once::store::sqlite
