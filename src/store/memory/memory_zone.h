// What the memory store remembers, and the few steps that keep its maps in agreement. Everything
// here is called with MemoryZone::mutex held.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "once/zone.h"
#include "store/store.h"

namespace once::store::memory {

struct LogRow {
  Entry entry{};
  Nonce nonce{};
  core::Stage stage = core::Stage::whole;
  StoreTime stage_since{};
};

// How the feed stands to one entry of a queue.
struct FeedItem {
  std::optional<StoreTime> due{};  // to be handed over from then on; none: done with
  std::uint64_t delivery{};        // the last hand-over; zero: none yet
  std::optional<core::Order> order{};
  StoreTime ordered_at{};
  std::uint64_t carried{};  // the first hand-over that carried the order; zero: none yet

  void keep(core::Order wanted, StoreTime now);  // unless there is one
  bool carried_by(std::uint64_t hand_over) const {
    return order && carried != 0 && hand_over >= carried;
  }
  void drop_order();
};

struct QueueRows {
  Queue definition{};
  std::map<Sequence, FeedItem> feed{};                // every entry that the queue has
  std::set<std::pair<StoreTime, Sequence>> due{};     // the feed's items that are due some time
  std::map<std::string, Stored, std::less<>> keys{};  // task records
  std::map<Sequence, Stored> entries{};               // entry records
  std::map<std::string, Stored, std::less<>> lone{};
  std::map<Sequence, std::string> key_of{};  // which task record is bound to the entry
  core::Hours past{};                        // what retention took

  void look_at(Sequence sequence, FeedItem& item, std::optional<StoreTime> when);
  // Where the record is, or null.
  const Stored* find(const Address& at) const;
  // The record that says how the entry stands: its own, or the one of its key that is bound to it.
  const Stored* standing(Sequence sequence) const;
  bool matches(std::string_view topic) const;
  bool has(const Entry& entry) const;  // by its topic, and where the queue begins
  void put(const Address& at, Stored stored);
  void forget_records(Sequence sequence);
};

struct Present {
  std::string queue{};
  std::string name{};
};

class MemoryZone {
 public:
  explicit MemoryZone(std::shared_ptr<Clock> given) : clock(std::move(given)) {}

  StoreTime now();  // never goes back, whatever the clock does
  Time wall() const;

  QueueRows* queue(std::string_view name);
  bool routed(Sequence sequence) const;
  bool gone(const Record& record) const;
  Stored as_read(Stored stored) const;  // with holder_gone filled in

  // Writes over whatever is there, stamps it, and answers what is stored now.
  Stored write(QueueRows& rows, const Address& at, const Record& record);
  // Makes the feed follow a record: when to look at its entry again. An order that is left is
  // looked at whatever the record says.
  void follow(QueueRows& rows, Sequence sequence, const Stored& stored);
  void leave(Member member);
  void verify(const LogRow& row, std::vector<Damage>& damages) const;
  // Wakes every waiting fetch.
  void changed();

  std::mutex mutex{};
  std::condition_variable_any change{};
  std::uint64_t changes{};  // counts changed(), so that no wake-up is missed

  std::shared_ptr<Clock> clock{};  // shared with whoever moves it; null: the machine's
  StoreTime last_now{};
  Sequence last_sequence{};
  Revision last_revision{};
  Member last_member{};
  std::uint64_t last_delivery{};
  Retention ages{};

  std::map<Sequence, LogRow> log{};
  std::map<std::string, Sequence, std::less<>> ids{};
  std::map<std::string, QueueRows, std::less<>> queues{};
  std::map<Member, Present> workers{};                 // those that are here
  core::Sequences forgotten{};                         // whose ids retention took
  std::map<std::string, Value, std::less<>> values{};  // by joined() key
};

}  // namespace once::store::memory
