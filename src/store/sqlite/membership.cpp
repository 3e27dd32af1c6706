// Workers coming and going.
#include <unistd.h>

#include "store/sqlite/store_impl.h"

namespace once::store::sqlite {
namespace {

// True when it held something: a running record is still there.
bool free_what_it_held(WriteTransaction& transaction, const KnownQueue& queue, Member member) {
  Connection& db = transaction.db();
  watch_claims(transaction, queue);
  // No lease reaches further than the longest, nor a reply that is owed further than its time; what is
  // due later need not be looked through.
  db.query(
        "UPDATE ledger SET due = ?2 WHERE qid = ?1 AND watched = 1 AND due > ?2 AND due <= ?2 +"
        " max(?4, (SELECT longest_lease FROM queue WHERE qid = ?1)) AND (state = 2 OR owes = 1)"
        " AND member = ?3")
      .bind(queue.qid, transaction.now(), member, core::kReplyAgain.count())
      .run();
  if (db.changes() > 0) transaction.due_at(transaction.now());
  Query left = db.query(
      "SELECT 1 FROM ledger WHERE qid = ?1 AND watched = 1 AND due <= ?2 AND state = 2"
      " AND member = ?3 LIMIT 1");
  return left.bind(queue.qid, transaction.now(), member).step();
}

class SqliteMembership final : public Membership {
 public:
  SqliteMembership(std::shared_ptr<Database> database, Member number, std::string queue,
                   Presence::Place place)
      : database_(std::move(database)),
        number_(number),
        queue_(std::move(queue)),
        place_(std::move(place)) {
    database_->presence().arrived(number_);
  }
  SqliteMembership(const SqliteMembership&) = delete;
  SqliteMembership& operator=(const SqliteMembership&) = delete;

  // Programs that inherited the lock may live on. Then the row stays, and goes with them.
  ~SqliteMembership() override {
    database_->presence().left(number_);
    place_.fd.reset();
    static_cast<void>(database_->write([&](WriteTransaction& transaction) {
      if (!transaction.holders().gone(number_)) return;
      if (const KnownQueue* queue = transaction.queues().find(queue_))
        free_what_it_held(transaction, *queue, number_);
      transaction.db().query("DELETE FROM member WHERE number = ?1").bind(number_).run();
    }));
  }

  Member number() const override { return number_; }
  int inheritable_fd() const override { return place_.fd.get(); }

 private:
  std::shared_ptr<Database> database_;  // shared with the store, which may go first
  const Member number_;
  const std::string queue_;
  Presence::Place place_;
};

}  // namespace

std::vector<Member> members_of(Connection& db, const KnownQueue& queue) {
  std::vector<Member> members;
  Query query = db.query("SELECT number FROM member WHERE qid = ?1");
  query.bind(queue.qid);
  while (query.step()) members.push_back({query.number(0)});
  return members;
}

void clear_gone(WriteTransaction& transaction, const KnownQueue& queue) {
  for (const Member member : members_of(transaction.db(), queue)) {
    if (!transaction.holders().gone(member)) continue;
    // The row of who held something stays until that is claimed: others look for it by the row.
    if (free_what_it_held(transaction, queue, member)) continue;
    transaction.db().query("DELETE FROM member WHERE number = ?1").bind(member).run();
  }
}

Result<std::unique_ptr<Membership>> SqliteStore::join(std::string_view queue,
                                                      std::string_view worker) {
  Presence::Place place;
  const auto joined = database_->write([&](WriteTransaction& transaction) {
    const KnownQueue& known = transaction.queues().get(queue);
    clear_gone(transaction, known);
    const Member number{++transaction.zone.last_member};
    // The lock before the row: who finds the row must find it held.
    place = database_->presence().take(number).value();
    transaction.db()
        .query(
            "INSERT INTO member (number, qid, name, pid, file, joined)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
        .bind(number, known.qid, worker, std::int64_t{getpid()}, place.file, transaction.now())
        .run();
    return number;
  });
  if (!joined) return joined.error();
  return std::unique_ptr<Membership>(
      std::make_unique<SqliteMembership>(database_, *joined, std::string(queue), std::move(place)));
}

}  // namespace once::store::sqlite
