// Ledger rows that a transaction writes. Many rows share one statement, because a statement costs
// SQLite about as much as a row.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/ledger.h"
#include "store/sqlite/connection.h"

namespace once::store::sqlite {

// All columns of a row of the table `ledger`.
struct LedgerColumns {
  std::int64_t place{};
  std::int64_t qid{};
  State state{};
  std::optional<core::StoreTime> due{};
  Revision revision{};
  core::StoreTime stamp{};
  core::Member member{};
  std::optional<std::string> key{};
  std::string_view record{};  // must stay valid until the row is written
  bool watched = true;
  std::optional<std::int64_t> own_size{};
  bool owes = false;
};

// A row is written by flush() at the latest. Call flush() before a statement that uses one of the
// rows, and before the transaction ends.
class RowBatch {
 public:
  explicit RowBatch(Connection& db) : db_(db) {}
  RowBatch(const RowBatch&) = delete;
  RowBatch& operator=(const RowBatch&) = delete;

  // The ledger has no row at that place.
  void insert(LedgerColumns columns) {
    add(inserts_, std::move(columns), &RowBatch::write_inserts);
  }
  // The ledger has a row at that place. It keeps its `qid` and `key`, and becomes watched.
  void update(LedgerColumns columns) {
    add(updates_, std::move(columns), &RowBatch::write_updates);
  }
  void flush();

 private:
  using Rows = std::vector<LedgerColumns>;

  void add(Rows& rows, LedgerColumns columns, void (RowBatch::*write)());
  void write_inserts();
  void write_updates();

  Connection& db_;
  Rows inserts_{};
  Rows updates_{};
};

}  // namespace once::store::sqlite
