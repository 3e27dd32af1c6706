// Reconciles log, ledger and deliveries: goes through them a page at a time, counts every task once,
// and lists what nothing explains.
#pragma once

#include <map>
#include <unordered_map>

#include "store/store.h"

namespace once::engine {

class Auditor {
 public:
  Auditor(store::Store& store, const AuditOptions& options) : store_(store), options_(options) {}

  // Counts that come with those of the queues, under a name of their own. Before run().
  void count_besides(std::string name, core::Hours hours) {
    besides_[std::move(name)] = std::move(hours);
  }
  Result<Audit> run();

 private:
  struct Watched {
    Queue queue{};
    core::Past past{};
    core::Hours hours{};
  };

  Result<void> choose_queues();
  Result<void> read_past();
  Result<bool> past_moved();  // retention took something while we looked
  Result<void> walk_log();
  Result<void> walk_rows(Watched& queue, core::Sequence after, const store::Log::Inventory& page,
                         std::size_t expected);
  Result<void> walk_outside(Watched& queue);  // rows of a queue that takes nothing from the log
  Result<void> find_strays(const Watched& queue);
  Result<void> find_overlooked(const Watched& queue);
  Result<void> find_damage();
  void look_at_past(const Watched& queue);
  Result<bool> long_overdue(const Watched& queue, core::Sequence sequence);

  const std::vector<std::size_t>& takers(const store::Entry& entry);
  void count(Watched& queue, const store::Row& row);
  void report(Discrepancy found);
  void told(double fraction) const;
  Audit lines() const;

  store::Store& store_;
  const AuditOptions& options_;
  std::vector<Watched> queues_;
  std::unordered_map<std::string, std::vector<std::size_t>> takers_;  // by topic
  core::Hours unrouted_;
  std::map<std::string, core::Hours> besides_;
  std::vector<Discrepancy> discrepancies_;
  std::uint64_t unlisted_ = 0;
};

}  // namespace once::engine
