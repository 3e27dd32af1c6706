// What this store itself has written to the ledger. The stream numbers every write. As long as no other
// process writes, the numbers of this store leave no gap. As long as no record is removed, there are as
// many records as this store knows of. Then the store knows the state of a queue's records without
// reading them. Any thread may call it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace once::store::nats {

class SoleWriter {
 public:
  // What the server says of the stream.
  struct Ledger {
    std::uint64_t last{};      // number of the last write
    std::uint64_t messages{};  // how many records there are
  };
  struct LedgerWrite {
    std::string queue{};  // its consumer
    std::string subject{};
    std::uint64_t sequence{};
    bool is_new = false;
    bool settled = false;  // and owes no reply
  };
  // The ledger begins with a seal, which is no record, and no record was written yet.
  void pass_seal();
  void wrote(const LedgerWrite& record);
  // A reader saw that every record of the queue is settled that was written before that state.
  void saw_all_settled(const std::string& queue, const Ledger& before);
  // Whether every record of the queue is settled. False if one is not, or if that is not known.
  bool all_settled(const std::string& queue, const Ledger& now);

 private:
  struct Known {
    std::optional<std::uint64_t> seen = 0;        // up to there; none: not known
    std::map<std::string, std::uint64_t> open{};  // since then, of ours: by subject
  };
  void join_on();
  void start_anew();

  std::mutex mutex_;
  // All of ours: after begins_ and up to through_, and single ones beyond, with whether they are new.
  std::uint64_t begins_{};
  std::uint64_t through_{};
  std::map<std::uint64_t, bool> beyond_;
  std::optional<std::uint64_t> messages_ = 0;  // up to through_; none: not known
  std::map<std::string, Known> queues_;
};

}  // namespace once::store::nats
