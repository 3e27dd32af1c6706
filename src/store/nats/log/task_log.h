// The log as it is read: tasks in the order of their numbers, and the ids that retention has left of
// them. Retired ids lie behind the tasks in the stream, under later numbers. A counter per id says how
// often it was appended again. Any thread may call it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/nats/log/entry_codec.h"
#include "store/nats/zone_connection.h"

namespace once::store::nats {

class TaskLog {
 public:
  explicit TaskLog(ZoneConnection& zone) : zone_(zone) {}

  // What a message of the stream stands for. nullopt if the message is gone.
  Result<std::optional<LogEntry>> entry_of(Result<std::optional<StreamMessage>> message) const;
  // The entry of that sequence, retired or not. nullopt if it is forgotten.
  Result<std::optional<LogEntry>> entry_at(Sequence sequence) const;
  Result<std::optional<Entry>> find(std::string_view id) const;
  // Entries after `after` in the order of sequences, at most `limit`, with or without their bodies.
  // May return fewer than there are. An empty page means the end.
  Result<std::vector<LogEntry>> page(Sequence after, std::size_t limit,
                                     std::string_view filter) const;
  // The same with the numbers of duplicates.
  Result<std::vector<Entry>> read(Sequence after, std::size_t limit, std::string_view filter) const;

  // Adds to the counters, in one burst. Returns the ids whose duplicates may not be counted.
  std::map<std::string_view, Error> count_duplicates(
      const std::map<std::string_view, std::uint64_t>& counts) const;
  // Fills in Entry::duplicates.
  Result<void> read_duplicates(std::span<Entry> entries) const;

 private:
  // Some tasks after a number. `more`: there may be further ones behind them.
  struct Tasks {
    std::vector<StreamMessage> messages{};
    std::uint64_t seen{};
    bool more = false;
    bool passed_retired = false;
  };
  Result<Tasks> tasks_after(Sequence after, std::size_t limit, std::size_t at_least,
                            const std::string& filter) const;
  Result<std::uint64_t> last_number() const;
  // The retired ids of the ranges from `first` to `last`, until `enough` were found. Returns the last
  // range that was read.
  Result<std::uint64_t> read_retired(std::uint64_t first, std::uint64_t last, std::size_t enough,
                                     std::vector<LogEntry>& into) const;
  Result<void> read_range(const std::string& notes, std::vector<LogEntry>& into) const;

  ZoneConnection& zone_;
};

}  // namespace once::store::nats
