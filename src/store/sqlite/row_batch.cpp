#include "store/sqlite/row_batch.h"

#include "store/sqlite/schema.h"

namespace once::store::sqlite {
namespace {

constexpr std::size_t kLedgerRowsPerStatement = 16;
constexpr int kLedgerColumns = 12;

#define ONCE_LEDGER_ROW "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
#define ONCE_4_LEDGER_ROWS \
  ONCE_LEDGER_ROW ", " ONCE_LEDGER_ROW ", " ONCE_LEDGER_ROW ", " ONCE_LEDGER_ROW
#define ONCE_16_LEDGER_ROWS \
  ONCE_4_LEDGER_ROWS ", " ONCE_4_LEDGER_ROWS ", " ONCE_4_LEDGER_ROWS ", " ONCE_4_LEDGER_ROWS
#define ONCE_INSERT_LEDGER                                                           \
  "INSERT INTO ledger (place, qid, state, due, revision, stamp, member, key, record" \
  ", watched, own_size, owes) VALUES "

constexpr const char* kInsertLedgerRow = ONCE_INSERT_LEDGER ONCE_LEDGER_ROW;
constexpr const char* kInsertLedgerRows = ONCE_INSERT_LEDGER ONCE_16_LEDGER_ROWS;
constexpr const char* kUpdateLedgerRow =
    "UPDATE ledger SET state = ?2, due = ?3, revision = ?4, stamp = ?5, member = ?6,"
    " record = ?7, own_size = ?8, owes = ?9, watched = 1 WHERE place = ?1";
// Every row exists. An UPDATE with a list of rows would need a temporary table.
constexpr const char* kUpdateLedgerRows = ONCE_INSERT_LEDGER ONCE_16_LEDGER_ROWS
    " ON CONFLICT (place) DO UPDATE SET state = excluded.state, due = excluded.due,"
    " revision = excluded.revision, stamp = excluded.stamp, member = excluded.member,"
    " record = excluded.record, own_size = excluded.own_size, owes = excluded.owes, watched = 1";

void bind_row(Query& query, int first, const LedgerColumns& row) {
  query.bind_from(first, row.place, row.qid, number_of(row.state), row.due, row.revision, row.stamp,
                  row.member, row.key, Blob{row.record}, row.watched ? 1 : 0, row.own_size,
                  row.owes ? 1 : 0);
}

void write_many(Query query, const std::vector<LedgerColumns>& rows) {
  int first = 1;
  for (const LedgerColumns& row : rows) {
    bind_row(query, first, row);
    first += kLedgerColumns;
  }
  query.run();
}

}  // namespace

void RowBatch::add(Rows& rows, LedgerColumns columns, void (RowBatch::*write)()) {
  rows.push_back(std::move(columns));
  if (rows.size() == kLedgerRowsPerStatement) (this->*write)();
}

void RowBatch::flush() {
  write_inserts();
  write_updates();
}

void RowBatch::write_inserts() {
  if (inserts_.size() == kLedgerRowsPerStatement) {
    write_many(db_.query(kInsertLedgerRows), inserts_);
  } else {
    for (const LedgerColumns& row : inserts_) {
      Query query = db_.query(kInsertLedgerRow);
      bind_row(query, 1, row);
      query.run();
    }
  }
  inserts_.clear();
}

void RowBatch::write_updates() {
  if (updates_.size() == kLedgerRowsPerStatement) {
    write_many(db_.query(kUpdateLedgerRows), updates_);
  } else {
    for (const LedgerColumns& row : updates_)
      db_.query(kUpdateLedgerRow)
          .bind(row.place, number_of(row.state), row.due, row.revision, row.stamp, row.member,
                Blob{row.record}, row.own_size, row.owes ? 1 : 0)
          .run();
  }
  updates_.clear();
}

}  // namespace once::store::sqlite
