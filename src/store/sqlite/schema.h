// The tables of a zone, and the one row that holds what the whole zone counts by.
#pragma once

#include <string>

#include "once/view.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/zone_clock.h"

namespace once::store::sqlite {

// States as numbers on disk.
constexpr int number_of(State state) { return static_cast<int>(state); }
static_assert(number_of(State::scheduled) == 0 && number_of(State::waiting) == 1 &&
                  number_of(State::running) == 2 && number_of(State::retrying) == 3 &&
                  number_of(State::in_doubt) == 4 && number_of(State::completed) == 5 &&
                  number_of(State::dead) == 6 && number_of(State::cancelled) == 7 &&
                  number_of(State::duplicate) == 8,
              "these numbers are in every database");
inline constexpr std::size_t kStates = 9;

enum class Content { nothing, older_zone, zone };

// What the file is. Throws when it is somebody else's, or of a newer Once.
Content inspect(Connection& db);
// Makes the tables and the zone's row. With the write lock held.
void create_schema(Connection& db, ZoneClock& clock);
// Makes an older zone one of this version. With the write lock held.
void upgrade_schema(Connection& db);

// Counters never come from rowids: an emptied table would start again, below every cursor.
struct ZoneRow {
  std::uint64_t last_sequence{};
  std::uint64_t last_revision{};
  std::uint64_t last_member{};
  std::int64_t last_queue{};
  std::int64_t last_lone{};      // records without a log entry have places -1, -2, ...
  std::int64_t queue_version{};  // grows when a queue is added, changed or removed
  std::int64_t unrouted{};       // whole entries that no queue has, without Once's own
  BootTime time{};

  // Whether save_progress() is enough after a transaction that found `before`.
  bool only_progressed(const ZoneRow& before) const;
};

ZoneRow load_zone(Connection& db);
void save_zone(Connection& db, const ZoneRow& zone);
// Writes only last_sequence, last_revision and time.last, which most transactions change.
void save_progress(Connection& db, const ZoneRow& zone);
std::string load_uuid(Connection& db);
Retention load_retention(Connection& db);
void save_retention(Connection& db, const Retention& ages);

}  // namespace once::store::sqlite
