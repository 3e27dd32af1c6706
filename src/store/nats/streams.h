// The zone's streams: how they are made, by what a zone is known, and whether it is still the one
// that was opened.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/nats/jet.h"
#include "store/nats/subjects.h"

namespace once::store::nats {

struct Plan {
  std::string name{};
  std::string config{};  // the fields that matter; each must be as it is here
};
// Makes those that are not there. In a cluster there are three replicas, or nothing is made: one that
// is still being started must not get a zone that dies with one of its nodes. Only a server that says
// that it is no cluster keeps one copy.
Result<void> make_streams(const Jet& jet, std::vector<Plan> open);

// What an opened zone is known by. A stream that was made anew has another time of creation, and may
// be as empty as it likes.
struct Identity {
  std::string uuid{};
  std::map<std::string, std::string> created{};  // by stream
  StoreTime last_write{};                        // to any of them, when it was opened
};

// Makes what is missing of a zone that is not there yet, when `create`; looks at the rest. A zone is
// there with its UUID, which is written last: from then on a stream that is missing was lost.
Result<Identity> open_streams(const Jet& jet, const Subjects& subjects, bool create);

// The stream that copies of others' messages lie in; only zones with queues on such streams have it.
Result<void> ensure_copy_stream(const Jet& jet, const Subjects& subjects);

struct Finding {
  Error error{};
  bool ours = false;  // it is still this zone: what was begun may be recorded
};
// Is it still that zone, and is nothing set that loses or repeats tasks? An error: that could not be
// found out now.
Result<std::optional<Finding>> examine(const Jet& jet, const Subjects& subjects,
                                       const Identity& known);

}  // namespace once::store::nats
