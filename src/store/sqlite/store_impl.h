// SqliteStore, the seam on SQLite. One class, over several files by subject:
//
//   log.cpp         append, read, find                 rows.cpp       rows
//   ledger.cpp      swap, get                          retention.cpp  retention, retire
//   feed.cpp        commit, settle, overlooked, wake   past.cpp       past, inventory, strays
//   queues.cpp      add_queue, set_queue, counts ...   verify.cpp     verify
//   membership.cpp  join                               doctor.cpp     examine
//   key_values.h    key_values
//
// Each call runs in transactions of a Database (database.h). Calls of several threads may share one
// (group_commit.h). ledger_rows.h and log_rows.h read and write the rows.
#pragma once

#include <chrono>
#include <map>

#include "store/sqlite/database.h"
#include "store/sqlite/key_values.h"
#include "store/sqlite/ledger_rows.h"
#include "store/store.h"

namespace once::store::sqlite {

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(std::shared_ptr<Database> database)
      : database_(std::move(database)), key_values_(database_) {}

  KeyValue& key_values() override { return key_values_; }

  std::vector<Result<AppendResult>> append(std::span<const Append> items) override;
  Result<std::vector<Entry>> read(Sequence after, std::size_t limit,
                                  std::string_view filter) override;
  Result<std::optional<Entry>> find(std::string_view id) override;
  Result<Inventory> inventory(Sequence after, std::size_t limit) override;

  std::vector<Result<SwapResult>> swap(std::span<const Swap> items) override;
  std::vector<Result<std::optional<Stored>>> get(std::span<const Address> items) override;
  Result<Strays> strays(std::string_view queue, const std::string& after) override;

  CommitResult commit(std::span<const Swap> records, const Fetch& request) override;
  Result<void> settle(std::span<const Settlement> items) override;
  Result<OverlookedPage> overlooked(std::string_view queue, Sequence after,
                                    std::size_t limit) override;
  Result<void> wake(std::string_view queue, std::span<const Wake> items) override;

  Result<VerifyPage> verify(Depth depth, const std::string& after) override;
  Result<Examination> examine(const DoctorOptions& options) override;

  std::string uuid() override { return database_->uuid(); }
  StoreTime now() override { return database_->clock().now(); }
  Time wall() override { return database_->clock().wall(); }
  Result<QueueAdded> add_queue(const Queue& queue) override;
  Result<bool> set_queue(const Queue& queue, const Queue& expected) override;
  Result<std::vector<Queue>> queues() override;
  Result<void> remove_queue(std::string_view name) override;
  Result<std::unique_ptr<Membership>> join(std::string_view queue,
                                           std::string_view worker) override;
  Result<Counts> counts(std::string_view queue) override;
  Result<bool> all_settled(std::string_view queue) override;
  Result<std::uint64_t> unrouted() override;
  Result<Page> rows(const RowFilter& filter, const Row* after, std::size_t limit) override;
  Result<Retention> retention() override;
  Result<void> set_retention(const Retention& ages) override;
  Result<RetirePage> retire(Sequence after, std::size_t limit) override;
  Result<core::Past> past(std::string_view queue) override;

 private:
  Result<Retired> retire_ledgers();  // the records of ledger-only queues
  Result<std::vector<Delivery>> wait_for_deliveries(const Fetch& request);
  bool look_for_gone(WriteTransaction& transaction, const std::string& queue);

  std::shared_ptr<Database> database_;  // shared with the memberships, which may outlive the store
  KeyValues key_values_;
  // When commit() last looked for dead workers of a queue; with the write lock held.
  std::map<std::string, std::chrono::steady_clock::time_point, std::less<>> members_looked_;
};

// Returns one answer per item. An item that fails does not fail the others. The caller encodes the
// records before it takes the write lock.
std::vector<PackedRecord> encode_all(std::span<const Swap> items);
std::vector<Result<SwapResult>> swap_all(WriteTransaction& transaction, std::span<const Swap> items,
                                         std::span<const PackedRecord> encoded);

// What retention takes in one transaction, for the audit; written by save().
class PastBook {
 public:
  void take_records(const KnownQueue& queue, const Row& row, StoreTime now);
  void take_id(const QueueSet& queues, const Entry& entry);
  void save(Connection& db);

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, Totals> hours_;  // by qid and hour
  core::Sequences gone_;
};

// Deletes one page of rows of removed queues. Returns true if no such row is left.
bool clear_removed(WriteTransaction& transaction);

std::vector<Member> members_of(Connection& db, const KnownQueue& queue);
// Makes the tasks of workers that are gone due now. Deletes members that are gone and hold nothing.
void clear_gone(WriteTransaction& transaction, const KnownQueue& queue);

}  // namespace once::store::sqlite
