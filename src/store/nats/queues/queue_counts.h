// The states of a queue's entries, kept in memory. CountsKeeper brings them up to date from what was
// written since the last look. So counting and sweeping cost what has changed, not what is there.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "store/store.h"

namespace once::store::nats {

class QueueCounts {
 public:
  // An entry that still has something before it, waits for a person, or owes a reply.
  struct Open {
    State state = State::waiting;
    bool recorded = false;  // false: nobody has claimed it
    bool whole = true;      // its body is there
    StoreTime since{};      // when its record was written, or its not-before
    StoreTime due{};        // to be looked at
    bool owes = false;      // a reply
  };
  enum class Place { key, own };

  void see_entry(Sequence sequence, bool whole, StoreTime not_before);
  void see_record(Place place, Sequence sequence, const Record& record, StoreTime stamp);
  void see_lone(std::string subject) { lone_.insert(std::move(subject)); }
  void drop_records(Sequence sequence);

  // To compare with what the server counts.
  std::uint64_t records() const { return records_ + lone_.size(); }
  std::uint64_t whole() const { return whole_; }

  const std::map<Sequence, Open>& open() const { return open_; }
  std::uint64_t settled(State state) const { return settled_[static_cast<std::size_t>(state)]; }
  bool owes_replies() const { return owing_ > 0; }
  // The first entry after `after` that may be in that state. Orders are not known here. nullopt if there
  // is none.
  std::optional<Sequence> next(State state, Sequence after) const;
  bool has_state(Sequence sequence, State state) const;

  std::uint64_t ledger_seen{};  // up to where the streams were read
  std::uint64_t log_seen{};
  std::uint64_t olds_seen{};  // what is left of retired tasks

 private:
  static constexpr std::uint8_t kNone = 0xFF;
  struct Cell {
    std::uint8_t entry : 2 = 0;  // 0: not seen, 1: whole, 2: without its body
    bool key_owes : 1 = false;
    bool own_owes : 1 = false;
    std::uint8_t key = kNone;
    std::uint8_t own = kNone;

    std::uint8_t standing() const { return own != kNone ? own : key; }
    bool owes() const { return own != kNone ? own_owes : key_owes; }
    bool counted_alone() const;  // others are also listed, with their times
    bool counts() const { return entry == 1 || (entry == 2 && standing() != kNone); }
  };
  Cell& cell(Sequence sequence);
  void take_out(Sequence sequence, const Cell& cell);
  void put_in(Sequence sequence, const Cell& cell, StoreTime since, StoreTime due);

  std::vector<Cell> cells_;  // by sequence
  std::map<Sequence, Open> open_;
  std::map<Sequence, Open> early_;  // the times of open records whose entry was not seen yet
  std::array<std::uint64_t, 16> settled_{};
  std::set<std::string> lone_;
  std::uint64_t records_{};
  std::uint64_t whole_{};
  std::uint64_t owing_{};  // of the open ones
};

// The counts of one queue, and the mutex that guards them.
struct SharedCounts {
  std::mutex mutex{};
  QueueCounts counts{};
};

}  // namespace once::store::nats
