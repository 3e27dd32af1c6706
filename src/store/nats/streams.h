// The zone's streams: how they are made, by what a zone is known, and whether it is still the one
// that was opened.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/nats/jetstream_client.h"
#include "store/nats/subjects.h"

namespace once::store::nats {

struct Plan {
  std::string name{};
  std::string config{};  // the fields that matter; each must be as it is here
  std::string seal{};    // what its seal's subject begins with; see marks.h. Empty: it has none
};
// Makes those that are not there. In a cluster there are three replicas, or nothing is made: one that
// is still being started must not get a zone that dies with one of its nodes. Only a server that says
// that it is no cluster keeps one copy.
Result<void> make_streams(const JetStreamClient& jet, std::vector<Plan> open);

struct Trouble {
  Error error{};
  bool ours = false;     // it is still this zone: what was begun may be recorded
  bool emptied = false;  // a stream lost messages
};

// What an opened zone is known by. A stream that was made anew has another time of creation, and may
// be as empty as it likes.
struct Identity {
  std::string uuid{};
  std::map<std::string, std::string> created{};  // by stream
  StoreTime last_write{};                        // to any of them, when it was opened
  std::optional<Trouble> trouble{};              // in spite of which it was opened
  std::map<std::string, std::uint64_t> last{};   // by stream, the last number that was seen
  bool sealed = false;                           // it has marks; see marks.h
  bool may_mark = true;                          // nothing has said that this login may not
  bool new_ledger = false;                       // the ledger holds its seal and nothing else
};

// Makes what is missing of a zone that is not there yet, when `create`; looks at the rest. A zone is
// there with its UUID, which is written last: from then on a stream that is missing was lost.
// Settings that lose tasks refuse it unless it is opened `as_it_is`.
Result<Identity> open_streams(const JetStreamClient& jet, const Subjects& subjects, bool create,
                              bool as_it_is = false);

// The stream that copies of others' messages lie in; only zones with queues on such streams have it.
Result<void> ensure_copy_stream(const JetStreamClient& jet, const Subjects& subjects);

// Is it still that zone, and is nothing set that loses or repeats tasks? An error: that could not be
// found out now. What it learns goes into `known`. Marks that are older than `marks_live` are moved,
// unless that is zero.
Result<std::optional<Trouble>> examine(const JetStreamClient& jet, const Subjects& subjects,
                                       Identity& known, Duration marks_live = Duration{0});
// Whether the ledger still has its seal. Every login may ask that.
Result<bool> ledger_is_sealed(const JetStreamClient& jet, const Subjects& subjects,
                              const std::string& uuid);

// The zone's streams as they are, the copy stream only where there is one.
struct StreamLook {
  Plan plan{};
  encoding::Json info{};  // as the server tells it
};
Result<std::vector<StreamLook>> look_at_streams(const JetStreamClient& jet,
                                                const Subjects& subjects);
// All fields that are not as they must be.
std::vector<Difference> edits_of(const StreamLook& stream);
// What a field that somebody changed does to the tasks.
std::string_view harm_of(std::string_view field);

}  // namespace once::store::nats
