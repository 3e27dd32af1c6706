// The log of a zone: tasks in the order of their commits, one per id.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/audit.h"
#include "core/decide.h"

namespace once::store {

using core::Digest;
using core::Nonce;
using core::Sequence;
using core::StoreTime;

struct Append {
  std::string id{};
  std::string topic{};
  Body body{};
  std::map<std::string, std::string> headers{};
  Digest digest{};
  Nonce nonce{};
  Duration delay{};                 // the task must not start earlier than this after the append
  std::optional<Duration> lives{};  // the task must not start later than this after the append
};

struct AppendResult {
  core::AppendVerdict verdict{};
  Sequence sequence{};  // of the entry in the log
  Digest digest{};      // of the entry in the log
  bool unrouted{};      // no queue's filter matches its topic
};

struct Entry {
  Sequence sequence{};
  std::string id{};
  std::string topic{};
  std::optional<Body> body{};  // nullopt if retention has removed it
  std::map<std::string, std::string> headers{};
  Digest digest{};
  Time published_at{};
  std::uint64_t duplicates{};  // how many appends were answered as duplicates of it
  StoreTime appended_at{};
  Duration delay{};                 // as in Append
  std::optional<Duration> lives{};  // as in Append

  StoreTime not_before() const { return appended_at + delay; }
  // False for an entry without a delay, even if `now` is slightly behind appended_at.
  bool waits_at(StoreTime now) const { return delay > Duration{0} && now < not_before(); }
};

class Log {
 public:
  virtual ~Log() = default;
  // An accepted item is durable when this returns. A duplicate is counted, durably, before the
  // answer. Within one batch a repeated id is a duplicate (or conflict) of the first.
  virtual std::vector<Result<AppendResult>> append(std::span<const Append> items) = 0;
  // Entries after `after` whose topic matches `filter`, in order, at most `limit`. An empty filter
  // matches all topics, also those of Once itself. May return fewer entries than there are. An
  // empty result means the end of the log.
  virtual Result<std::vector<Entry>> read(Sequence after, std::size_t limit,
                                          std::string_view filter) = 0;
  virtual Result<std::optional<Entry>> find(std::string_view id) = 0;
  // For the audit: entries without headers, and the sequences that are missing. A body that is not
  // retired is present and empty.
  struct Inventory {
    std::vector<Entry> entries{};
    // Sequences of this page that the store gave out, that retention did not remove, and that the
    // log does not have.
    core::Sequences missing{};
    Sequence next{};  // `after` of the next page; zero if this is the last page
    Sequence last{};  // the last sequence that was given out, approximately
  };
  virtual Result<Inventory> inventory(Sequence after, std::size_t limit) = 0;
};

}  // namespace once::store
