#include "store/sqlite/counters.h"

#include <algorithm>

#include "store/sqlite/failure.h"
#include "store/sqlite/ledger_rows.h"

namespace once::store::sqlite {
namespace {

void look_at_records(Query& query, Used& used) {
  if (!query.step()) return;
  used.revision = std::max(used.revision, query.number(0));
  used.member = std::max(used.member, query.number(1));
}

std::int64_t largest(Connection& db, const char* sql) {
  Query query = db.query(sql);
  return query.step() ? query.integer(0) : 0;
}

}  // namespace

Used used_in(Connection& db, std::int64_t records_per_queue) {
  Used used{
      .sequence = static_cast<std::uint64_t>(largest(
          db,
          "SELECT max(ifnull((SELECT max(sequence) FROM log), 0), ifnull((SELECT max(tail) FROM"
          " queue), 0), ifnull((SELECT last FROM gone ORDER BY first DESC LIMIT 1), 0))")),
      .member = static_cast<std::uint64_t>(largest(db, "SELECT max(number) FROM member")),
      .queue = largest(db,
                       "SELECT max(ifnull((SELECT max(qid) FROM queue), 0),"
                       " ifnull((SELECT max(qid) FROM removed), 0))"),
      .lone = std::max<std::int64_t>(-largest(db, "SELECT min(place) FROM ledger"), 0)};
  std::vector<std::int64_t> queues;
  {
    Query query = db.query("SELECT qid FROM queue");
    while (query.step()) queues.push_back(query.integer(0));
  }
  for (const std::int64_t qid : queues) {
    Query query = db.query(
        "SELECT max(revision), max(member) FROM (SELECT revision, member FROM ledger"
        " WHERE place > ?1 AND place < ?2 ORDER BY place DESC LIMIT ?3)");
    look_at_records(query.bind(first_place(qid), first_place(qid + 1), records_per_queue), used);
  }
  // Records without an entry: the last one that was made has the lowest place.
  Query query = db.query(
      "SELECT max(revision), max(member) FROM (SELECT revision, member FROM ledger"
      " WHERE place < 0 ORDER BY place LIMIT ?1)");
  look_at_records(query.bind(records_per_queue), used);
  return used;
}

Used used_by(const ZoneRow& zone) {
  return {.sequence = zone.last_sequence,
          .revision = zone.last_revision,
          .member = zone.last_member,
          .queue = zone.last_queue,
          .lone = zone.last_lone};
}

std::string SetBack::text() const {
  return "the zone's " + counter + " is " + std::to_string(value) + ", though " +
         std::to_string(used) + " was given out";
}

std::vector<SetBack> set_back(const ZoneRow& zone, const Used& used) {
  std::vector<SetBack> found;
  const auto compare = [&](const char* counter, auto value, auto given_out, const char* harm) {
    if (value < given_out)
      found.push_back({.counter = counter,
                       .value = static_cast<std::int64_t>(value),
                       .used = static_cast<std::int64_t>(given_out),
                       .harm = harm});
  };
  compare("last_sequence", zone.last_sequence, used.sequence,
          "two tasks would get the same sequence");
  compare("last_revision", zone.last_revision, used.revision,
          "two claims would get the same token, so a resource could not refuse the older one");
  compare("last_member", zone.last_member, used.member,
          "two workers would get the same number, and one could pass for the other");
  compare("last_queue", zone.last_queue, used.queue,
          "a new queue would get the records of another one");
  compare("last_lone", zone.last_lone, used.lone,
          "two records without a task would get the same place");
  return found;
}

void check_counters(const ZoneRow& zone, const Used& used, const std::string& path) {
  const auto found = set_back(zone, used);
  if (found.empty()) return;
  const SetBack& first = found.front();
  throw Failure(
      unusable(path + " was changed from outside: " + first.text() + ", and " + first.harm +
               ". Nothing was written. Stop everything that uses the file and restore a "
               "backup, or set " +
               first.counter + " in its table zone to at least " + std::to_string(first.used)));
}

}  // namespace once::store::sqlite
