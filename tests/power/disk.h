// A disk that lies, in memory. What is written stays in its cache until it is synced; when the power
// fails, what was not synced may be there or not: any of the writes, whole or torn at sectors, in any
// order, sizes, names that were made and names that were deleted. Everything is decided by a seed.
//
// One object is one time that the machine is on. After the cut every operation fails; the machine is
// started again with a disk made of what survived().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace once::power {

inline constexpr std::size_t kSector = 512;

// Files by name, as they lie on a disk that is off.
using Image = std::map<std::string, std::string>;

// The content of one file: what programs read, what is safe, and what is between the two.
class File {
 public:
  File() = default;
  explicit File(std::string content) : now_(content), safe_(std::move(content)) {}

  const std::string& content() const { return now_; }
  void write(std::size_t at, std::string_view bytes) { change({at, std::string(bytes), false}); }
  void truncate(std::size_t size) { change({size, {}, true}); }
  void sync();
  std::string survive(std::mt19937_64& random) const;

 private:
  struct Change {
    std::size_t at;  // for a truncation: the size
    std::string bytes;
    bool truncates;

    void apply(std::string& content) const;
  };
  void change(Change change);

  std::string now_;
  std::string safe_;
  std::vector<Change> cached_;
};

struct DiskOptions {
  std::uint64_t seed = 0;
  std::uint64_t cut_at = 0;  // the power fails at that operation; zero: never
  // Writes to SQLite's log, by far the most, are not counted then, and others are met more often.
  bool passes_log_writes = false;
  bool ignores_syncs = false;
};

class Disk {
 public:
  enum class Operation { write, sync, truncate, create, remove };
  enum class Answer { done, failed, full };

  Disk(const Image& image, DiskOptions options);

  // The file of that name, or null. With `create` it is made when there is none; null then means that
  // the power is off.
  std::shared_ptr<File> open(const std::string& name, bool create);
  bool exists(const std::string& name) const { return names_.contains(name); }
  std::size_t size(const std::string& name) const;

  Answer write(File& file, const std::string& name, std::size_t at, std::string_view bytes);
  Answer truncate(File& file, const std::string& name, std::size_t size);
  // With `folder`, the names in its folder too.
  Answer sync(File& file, const std::string& name, bool folder);
  Answer remove(const std::string& name, bool sync_folder);

  std::uint64_t seed() const { return options_.seed; }
  bool off() const { return off_; }
  // The power fails now.
  void cut() { off_ = true; }
  // In the middle of what it failed: "write of zone.db-wal".
  const std::string& cut_in() const { return cut_in_; }
  std::uint64_t operations() const { return operations_; }
  // Trouble that passes, for the next such operations.
  void fill_up() { full_ = true; }
  void fail_syncs(int count) { syncs_fail_ = count; }
  void calm() {
    full_ = false;
    syncs_fail_ = 0;
  }

  // What is left when it is started again.
  Image survived();

 private:
  using Names = std::map<std::string, std::shared_ptr<File>>;

  // False: the power is off. True with `off_` set: it failed in the middle of this one.
  bool begin(Operation operation, const std::string& name);

  const DiskOptions options_;
  std::mt19937_64 random_;
  Names names_;
  Names safe_names_;
  std::uint64_t operations_ = 0;
  std::uint64_t counted_ = 0;  // of them
  std::string cut_in_ = "nothing";
  bool off_ = false;
  bool full_ = false;
  int syncs_fail_ = 0;
};

std::string_view to_string(Disk::Operation operation);

}  // namespace once::power
