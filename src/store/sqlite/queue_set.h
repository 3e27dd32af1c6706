// The queues of a zone as they are at one version, and which of them a topic goes to.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "once/task.h"
#include "store/sqlite/connection.h"

namespace once::store::sqlite {

struct KnownQueue {
  std::int64_t qid{};
  Queue definition{};
  std::size_t place{};  // in its set

  bool ledger_only() const { return definition.ledger; }  // a ledger-only queue
  bool by_id() const { return definition.key.empty() && !ledger_only(); }
  std::uint64_t first() const { return definition.from.value_or(0); }
  bool has(std::string_view topic, std::uint64_t sequence) const;
};

class QueueSet {
 public:
  QueueSet() = default;
  static QueueSet load(Connection& db, std::int64_t version);

  std::int64_t version() const { return version_; }
  const std::vector<KnownQueue>& all() const { return queues_; }  // by name
  const KnownQueue* find(std::string_view name) const;
  const KnownQueue& get(std::string_view name) const;  // throws not_found

 private:
  std::int64_t version_ = -1;
  std::vector<KnownQueue> queues_;
};

// Matches one filter against topics that mostly repeat.
class TopicFilter {
 public:
  explicit TopicFilter(std::string_view filter) : filter_(filter) {}  // empty: all
  explicit TopicFilter(const Queue& queue) : filter_(queue.topic), nothing_(queue.ledger) {}
  bool matches(std::string_view topic);

 private:
  std::string_view filter_;
  bool nothing_ = false;
  std::string last_{};
  bool answer_ = false;
  bool asked_ = false;
};

// Remembers per topic which queues' filters match it. Not for two threads at a time.
class TopicRoutes {
 public:
  // Places in `queues.all()`.
  const std::vector<std::size_t>& of(const QueueSet& queues, std::string_view topic);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  std::int64_t version_ = -1;
  std::unordered_map<std::string, std::vector<std::size_t>, Hash, std::equal_to<>> known_;
};

}  // namespace once::store::sqlite
