// The zone's counters against what was given out by them. A counter that somebody set back would give
// a sequence, a token or a worker's number a second time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/sqlite/connection.h"
#include "store/sqlite/schema.h"

namespace once::store::sqlite {

// The largest numbers that are in use.
struct Used {
  std::uint64_t sequence{};
  std::uint64_t revision{};
  std::uint64_t member{};
  std::int64_t queue{};
  std::int64_t lone{};
};
// Of records, whose revisions have no index, it reads the newest of each queue, so many.
Used used_in(Connection& db, std::int64_t records_per_queue);
Used used_by(const ZoneRow& zone);

struct SetBack {
  std::string counter{};  // its column
  std::int64_t value{};
  std::int64_t used{};
  std::string harm{};

  std::string text() const;
};
std::vector<SetBack> set_back(const ZoneRow& zone, const Used& used);

// Throws when one is.
void check_counters(const ZoneRow& zone, const Used& used, const std::string& path);

}  // namespace once::store::sqlite
