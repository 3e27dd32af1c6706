// What this store itself has written to the ledger. The stream numbers every write, so as long as
// nobody else writes, our own numbers leave no gap; and as long as nobody removes a record, there are as
// many as we know of. Then it is known without reading how the records of a queue stand.
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
  struct Written {
    std::string queue{};  // its consumer
    std::string subject{};
    std::uint64_t sequence{};
    bool is_new = false;
    bool settled = false;  // and owes no reply
  };
  // The ledger begins with a message that is no record, and nobody has written a record yet.
  void pass_seal();
  void wrote(const Written& record);
  // Every record of the queue was seen to be settled that was written before the ledger was so.
  void saw_all_settled(const std::string& queue, const Ledger& before);
  // Whether every record of the queue is settled. False: it is not, or that is not known.
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
