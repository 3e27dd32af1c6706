#include "store/sqlite/bare_sql.h"

#include <algorithm>

#include "store/sqlite/connection.h"
#include "store/sqlite/failure.h"

namespace once::store::sqlite {
namespace {

constexpr Duration kBusyWait{10'000};

class BareSql final : public BareStoreBaseline {
 public:
  BareSql(const std::filesystem::path& file, bool found_zone)
      : file_(file), found_zone_(found_zone) {
    remove_files();
    db_ = std::make_unique<Connection>(file.string(), Connection::Use::write, true, kBusyWait);
    db_->script(
        "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=1000;"
        "CREATE TABLE log(sequence INTEGER PRIMARY KEY, id TEXT, topic TEXT, body TEXT, digest "
        "BLOB);"
        "CREATE TABLE ids(id TEXT PRIMARY KEY, sequence INTEGER) WITHOUT ROWID;"
        "CREATE TABLE ledger(queue INTEGER, sequence INTEGER, state INTEGER, record BLOB, "
        "PRIMARY KEY(queue, sequence)) WITHOUT ROWID;");
  }
  ~BareSql() override {
    db_.reset();
    remove_files();
  }

  std::string_view name() const override { return "bare SQL"; }

  Result<void> publish(std::span<const std::string> ids, const std::string& body) override {
    return in_a_transaction([&] {
      auto add_id = db_->query("INSERT OR IGNORE INTO ids VALUES(?1, ?2)");
      auto add_task = db_->query("INSERT INTO log VALUES(?1, ?2, 'bench', ?3, zeroblob(32))");
      for (const std::string& id : ids) {
        add_id.bind(std::string_view(id), last_ + 1).run();
        if (db_->changes() == 0) continue;  // a known one
        add_task.bind(++last_, std::string_view(id), std::string_view(body)).run();
      }
    });
  }

  Result<void> work(std::size_t count) override {
    const std::int64_t first = worked_ + 1;
    worked_ = std::min(last_, worked_ + static_cast<std::int64_t>(count));
    const auto each = [&](Query query) {
      for (std::int64_t sequence = first; sequence <= worked_; ++sequence)
        query.bind(sequence, Blob{record_}).run();
    };
    auto claimed =
        in_a_transaction([&] { each(db_->query("INSERT INTO ledger VALUES(1, ?1, 1, ?2)")); });
    if (!claimed) return claimed;
    return in_a_transaction([&] {
      each(
          db_->query("UPDATE ledger SET state = 2, record = ?2 WHERE queue = 1 AND sequence = ?1"));
    });
  }

  bool found_zone() const override { return found_zone_; }

  Result<void> clear(bool) override {
    remove_files();
    return {};
  }

 private:
  template <class Body>
  Result<void> in_a_transaction(Body body) {
    try {
      db_->query("BEGIN IMMEDIATE").run();
      body();
      db_->query("COMMIT").run();
    } catch (const Failure& failure) {
      return failure.error();
    }
    return {};
  }

  void remove_files() const {
    std::error_code ignored;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"})
      std::filesystem::remove(file_.string() + suffix, ignored);
  }

  const std::filesystem::path file_;
  const bool found_zone_;
  std::unique_ptr<Connection> db_;
  const std::string record_ = std::string(120, 'r');  // about the size of Once's
  std::int64_t last_ = 0;                             // sequence that was published
  std::int64_t worked_ = 0;
};

}  // namespace
}  // namespace once::store::sqlite

namespace once::store {

Result<std::unique_ptr<BareStoreBaseline>> open_bare_sql(const std::filesystem::path& zone) {
  std::error_code ignored;
  try {
    return std::unique_ptr<BareStoreBaseline>(std::make_unique<sqlite::BareSql>(
        zone.string() + "-bare", std::filesystem::exists(zone, ignored)));
  } catch (const Failure& failure) {
    return failure.error();
  }
}

}  // namespace once::store
