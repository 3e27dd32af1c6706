// The transactions of one process on one database file. There is one connection that writes, under
// the write lock, and a few that read. Everything else in this folder goes through write(),
// write_shared() and read().
//
//   write: lock, BEGIN IMMEDIATE, read the zone's row, run the body, write the rows of changed
//          queues, COMMIT (synced), a checkpoint if the write-ahead log has grown, unlock, wake
//          waiting fetches. Several calls may share one transaction (group_commit.h)
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "store/sqlite/connection.h"
#include "store/sqlite/counters.h"
#include "store/sqlite/file_system.h"
#include "store/sqlite/group_commit.h"
#include "store/sqlite/holder_check.h"
#include "store/sqlite/notifier.h"
#include "store/sqlite/presence.h"
#include "store/sqlite/queue_set.h"
#include "store/sqlite/schema.h"
#include "store/sqlite/sqlite_store.h"
#include "store/sqlite/write_lock.h"
#include "store/sqlite/zone_clock.h"
#include "store/sqlite/zone_files.h"

namespace once::store::sqlite {

class Database;

// A waiting fetch looks at least this often. So a task that is due later needs no notification.
inline constexpr Duration kLookAnyway{1000};

// What a transaction changes in a queue's row. The commit writes it once.
struct QueueDelta {
  std::array<std::int64_t, kStates> states{};  // ledger rows by state, more or fewer
  std::int64_t matched = 0;
  std::int64_t first_match = 0;          // of the entries that were added
  std::int64_t last_match = 0;           // of them
  std::int64_t longest_lease = 0;        // of the claims that were written
  std::optional<std::int64_t> cursor{};  // where it is now
  std::optional<std::int64_t> swept{};   // where it is now
  std::optional<std::int64_t> lapse{};   // of the claims that were written and are not watched
  bool none_lapses = false;              // of those that were there before
  std::optional<bool> has_pending{};     // whether the queue may have pending rows; none: not known
  bool changed = false;
};

class WriteTransaction {
 public:
  explicit WriteTransaction(Database& database);
  WriteTransaction(const WriteTransaction&) = delete;
  WriteTransaction& operator=(const WriteTransaction&) = delete;
  ~WriteTransaction();

  Connection& db() { return *db_; }
  const QueueSet& queues() const { return *queues_; }
  TopicRoutes& routes();
  HolderCheck& holders() { return *holders_; }
  core::StoreTime now() const { return now_; }
  Time wall() const { return wall_; }
  QueueDelta& delta(const KnownQueue& queue) { return deltas_[queue.place]; }
  // A task may be claimable from `when` on. If that is soon, the commit wakes waiting fetches.
  void due_at(core::StoreTime when) { announce_ = announce_ || when < now_ + kLookAnyway; }

  void commit();
  // Rolls back because of an answer, such as a queue that is missing, and not because a write failed.
  void give_up();

  ZoneRow zone{};  // written back at the commit

 private:
  void begin_boot();
  void roll_back();
  void flush_deltas();

  Database& database_;
  std::optional<WriteLock::Held> held_{};
  ZoneRow stored_zone_{};  // as this transaction found it
  Connection* db_ = nullptr;
  std::shared_ptr<const QueueSet> queues_{};
  std::vector<QueueDelta> deltas_{};
  std::optional<HolderCheck> holders_{};
  core::StoreTime now_{};
  Time wall_{};
  std::int64_t changes_before_ = 0;
  bool announce_ = false;
  bool open_ = false;
};

class ReadTransaction {
 public:
  explicit ReadTransaction(Database& database);
  ReadTransaction(const ReadTransaction&) = delete;
  ReadTransaction& operator=(const ReadTransaction&) = delete;
  ~ReadTransaction();

  Connection& db() { return *db_; }
  const QueueSet& queues() const { return *queues_; }
  HolderCheck& holders() { return *holders_; }
  core::StoreTime now() const { return now_; }
  std::int64_t unrouted() const { return unrouted_; }

 private:
  Database& database_;
  std::unique_ptr<Connection> db_{};
  std::shared_ptr<const QueueSet> queues_{};
  std::optional<HolderCheck> holders_{};
  core::StoreTime now_{};
  std::int64_t unrouted_ = 0;
};

// Any thread may call.
class Database {
 public:
  static Result<std::shared_ptr<Database>> open(const SqliteOptions& options);
  Database(std::string path, const SqliteOptions& options);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database();

  // Runs `body` in a write transaction and returns its result after the commit is on disk. The body
  // must not call the database. The transaction may also have calls of write_shared().
  template <class Body>
  auto write(Body&& body) -> Result<std::invoke_result_t<Body, WriteTransaction&>> {
    return write_by(&GroupCommit::lead, body);
  }
  // The same for a call that may share the transaction of another thread. The body may then run on that
  // thread, and a second time if the shared transaction fails.
  template <class Body>
  auto write_shared(Body&& body) -> Result<std::invoke_result_t<Body, WriteTransaction&>> {
    return write_by(&GroupCommit::join, body);
  }

  // Runs `body` in a read transaction. The body must be short, because a long reader makes the
  // write-ahead log grow.
  template <class Body>
  auto read(Body&& body) -> Result<std::invoke_result_t<Body, ReadTransaction&>> {
    auto answer = glance(body);
    if (!answer) return answer;
    if (auto whole = check_files(); !whole) return whole.error();
    return answer;
  }
  // The same without a look at the files. Before the result is used for anything but a decision to
  // call write(), call check_files().
  template <class Body>
  auto glance(Body&& body) -> Result<std::invoke_result_t<Body, ReadTransaction&>> {
    try {
      ReadTransaction transaction(*this);
      return body(transaction);
    } catch (const Failure& failure) {
      return failed(failure.error());
    }
  }
  Result<void> check_files();

  const std::string& path() const { return path_; }
  const std::string& uuid() const { return uuid_; }
  ZoneClock& clock() { return clock_; }
  Notifier& notifier() { return notifier_; }
  Presence& presence() { return presence_; }

 private:
  friend class WriteTransaction;
  friend class ReadTransaction;

  template <class Body>
  auto write_by(Result<void> (GroupCommit::*how)(const GroupCommit::Work&), Body& body)
      -> Result<std::invoke_result_t<Body&, WriteTransaction&>> {
    using Answer = std::invoke_result_t<Body&, WriteTransaction&>;
    if constexpr (std::is_void_v<Answer>) {
      return (group_.*how)([&](WriteTransaction& transaction) { body(transaction); });
    } else {
      std::optional<Answer> answer;
      auto done =
          (group_.*how)([&](WriteTransaction& transaction) { answer.emplace(body(transaction)); });
      if (!done) return done.error();
      return std::move(*answer);
    }
  }
  // One transaction.
  Result<void> run(const GroupCommit::Work& body);
  Result<void> start(Found found, bool create);
  Connection& writer();  // with the write lock held
  void drop_writer() { writer_.reset(); }
  void save_room();
  void make_room();
  void checkpoint();
  // The error to return to the caller. Call it after the transaction of this thread has ended.
  Error failed(const Error& error);
  void save_log();
  std::unique_ptr<Connection> take_reader();
  void give_back(std::unique_ptr<Connection> reader);
  std::shared_ptr<const QueueSet> queues(Connection& db, std::int64_t version);

  const std::string path_;
  const Duration lock_wait_;
  std::string uuid_;
  ZoneFiles files_;  // outlives all connections
  ZoneClock clock_;
  WriteLock lock_;
  Presence presence_;
  Notifier notifier_;
  GroupCommit group_{[this](const GroupCommit::Work& body) { return run(body); }};

  // Only with the write lock held:
  std::unique_ptr<Connection> writer_;
  TopicRoutes routes_;
  int wal_pages_ = 0;            // in the log after the last commit
  int pages_at_checkpoint_ = 0;  // then, when it was last tried
  int pages_per_checkpoint_;
  std::optional<Used> used_{};  // numbers that were given out, as far as this process knows
  bool write_failed_ = false;   // the last write failed: the next one first empties the WAL

  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> readers_;  // idle ones; guarded by mutex_
  std::shared_ptr<const QueueSet> queues_;            // the newest seen; guarded by mutex_
};

}  // namespace once::store::sqlite
