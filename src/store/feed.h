// The deliveries of a queue: which entry a worker gets next, and when it gets an entry again.
// Store::commit() hands deliveries over.
#pragma once

#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "store/ledger.h"
#include "store/log.h"

namespace once::store {

using core::Member;

// The engine's side of a claim; Intake::Round implements it. A store that can do so reads the
// record, asks the Claimer and writes the claim in one commit.
class Claimer {
 public:
  virtual ~Claimer() = default;
  // The address of the entry's record. Returns nullopt if the entry has no key (a path is missing).
  virtual std::optional<Address> address(const struct Entry& entry) = 0;
  // Returns the record to write over `stored`, or nullopt if the store must not claim the entry.
  // `stored` is null if there is no record. `order` is null if no wake brought one. The store calls
  // this in the middle of a write, so it must not call the store.
  virtual std::optional<Record> claim(const Entry& entry, const Stored* stored,
                                      const core::Order* order, core::Now now) = 0;
};

struct Delivery {
  Entry entry{};
  std::string handle{};  // the store's own text; the caller returns it in Swap or Settlement
  // The record at the entry's address, if the store read it. If the entry has a settled own record,
  // it is that one, and the entry is not claimed.
  std::optional<Stored> stored{};
  bool claimed = false;                // `stored` is what claim() returned, and is durable
  bool unanswered = false;             // `stored` is what claim() returned, and may be durable
  std::optional<core::Order> order{};  // the order in the wake that brought the entry
};

struct Fetch {
  std::string queue{};
  // The worker that fetches; zero if it did not join. The result is not_found if the queue that the
  // worker joined was removed, even if a new queue has its name.
  Member member{};
  std::size_t limit = 1;
  std::size_t again = SIZE_MAX;  // at most this many entries that were handed over before
  Claimer* claimer = nullptr;
  Duration wait{};         // how long to wait for the first delivery; zero: not at all
  std::stop_token stop{};  // ends the wait; after a stop request nothing is handed over
};

// The answer to a delivery that needs no write of a record.
struct Settlement {
  std::string queue{};
  Sequence sequence{};
  std::string handle{};
  std::optional<Duration> again{};  // when to hand the entry over again; nullopt: it is finished
};

// Makes the feed hand an entry over again, now.
struct Wake {
  Sequence sequence{};
  // The order stays with the entry, durably, until a delivery that carried it is answered. The
  // answer is a write of the record that is about this entry, or a Settlement that finishes it. If
  // there are two orders for one entry, the first one counts.
  std::optional<core::Order> order{};
};

class Feed {
 public:
  virtual ~Feed() = default;
  // Answers deliveries that need no write of a record. It does not change a task's state.
  virtual Result<void> settle(std::span<const Settlement> items) = 0;
  // For the sweep: entries after `after` that the feed will not hand over again although their
  // record is missing, unsettled or owes a reply. At most `limit`.
  struct OverlookedPage {
    std::vector<Sequence> sequences{};
    std::vector<Sequence> perhaps{};  // those of `sequences` that the feed may still hand over
    // Those of `sequences` that were acknowledged and have no record. An acknowledgement needs a
    // record, so these tasks may have run. The sweep must not run them again as new tasks.
    std::vector<Sequence> unrecorded{};
    Sequence next{};  // `after` of the next page; zero if this is the last page
    // All entries after `after` and up to this one are settled and owe no reply, or are scheduled
    // and were never handed over. At least `after`.
    Sequence settled{};
  };
  virtual Result<OverlookedPage> overlooked(std::string_view queue, Sequence after,
                                            std::size_t limit) = 0;
  virtual Result<void> wake(std::string_view queue, std::span<const Wake> items) = 0;
};

}  // namespace once::store
