// The life of a zone on a machine whose power fails again and again, all of it from one seed: what is
// published, run, ordered and forgotten, where the power fails, and what the disk makes of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace once::power {

struct LifeOptions {
  std::uint64_t seed = 0;
  int cuts = 25;
  // How the machine is wrong, to see that this is found:
  bool ignores_syncs = false;
  std::string synchronous{};  // of SQLite's, in place of what the store asks for
};

struct LifeStory {
  std::vector<std::string> wrong{};   // what should not have been, each with its cut
  std::map<std::string, int> cuts{};  // by operation and file: "sync zone.db-wal"
  std::uint64_t receipts = 0;
  std::uint64_t completions = 0;
};

// Ends early when something is wrong.
LifeStory live(const LifeOptions& options);

}  // namespace once::power
