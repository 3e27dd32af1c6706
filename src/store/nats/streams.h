// The zone's streams: how they are made, how a zone is identified, and whether it is still the zone that
// was opened.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/nats/client/jetstream_client.h"
#include "store/nats/subjects.h"

namespace once::store::nats {

struct Plan {
  std::string name{};
  std::string config{};  // the fields that matter; each must be as it is here
  std::string seal{};    // what its seal's subject begins with; see marks.h. Empty: it has none
};
// Makes the streams that are missing. In a cluster they get three replicas, or nothing is made. A cluster
// that is still starting must not get a zone that dies with one of its nodes. Only a server that says
// that it is no cluster keeps one copy.
Result<void> make_streams(const JetStreamClient& client, std::vector<Plan> open);

struct Trouble {
  Error error{};
  bool ours = false;     // it is still this zone: what was begun may be recorded
  bool emptied = false;  // a stream lost messages
  bool values = false;   // the stream of values did; the others may be whole
};

// What identifies an opened zone. A stream that was made anew has another time of creation.
struct Identity {
  std::string uuid{};
  std::map<std::string, std::string> created{};  // by stream; that of values once it is used
  StoreTime last_write{};                        // to any of them, when it was opened
  std::optional<Trouble> trouble{};              // in spite of which it was opened
  std::map<std::string, std::uint64_t> last{};   // by stream, the last number that was seen
  bool sealed = false;                           // it has marks; see marks.h
  bool may_mark = true;                          // nothing has said that this login may not
  bool new_ledger = false;                       // the ledger holds its seal and nothing else
};

// Opens the zone. With `create` it makes the streams of a zone that is not there yet. A zone exists once
// its UUID is written, which comes last. From then on a missing stream means lost data. Settings that
// lose tasks are an error unless the zone is opened `allow_unsafe`.
Result<Identity> open_streams(const JetStreamClient& client, const Subjects& subjects, bool create,
                              bool allow_unsafe = false);

// Makes the stream for copies of others' messages. Only zones with queues on such streams have it.
Result<void> ensure_copy_stream(const JetStreamClient& client, const Subjects& subjects);

// The stream of values, which a zone has once there are workflows; see keys/key_values.h.
Plan kv_plan(const Subjects& subjects);
Error stream_edited(const std::string& stream, const Difference& difference);

// Whether it is still that zone, and no setting loses or repeats tasks. An error means that this could not
// be found out now. Updates `known`. Moves marks that are older than `marks_live`, unless that is zero.
Result<std::optional<Trouble>> examine(const JetStreamClient& client, const Subjects& subjects,
                                       Identity& known, Duration marks_live = Duration{0});
// An error if the meta bucket holds another UUID, or none.
Result<void> check_uuid(const JetStreamClient& client, const Subjects& subjects,
                        const std::string& uuid);
// Whether the ledger still has its seal. Every login may ask this.
Result<bool> ledger_is_sealed(const JetStreamClient& client, const Subjects& subjects,
                              const std::string& uuid);

// The zone's streams as they are; those of copies and values only where there are any.
struct StreamLook {
  Plan plan{};
  encoding::Json info{};  // as the server tells it
};
Result<std::vector<StreamLook>> look_at_streams(const JetStreamClient& client,
                                                const Subjects& subjects);
// All fields that differ from the plan.
std::vector<Difference> edits_of(const StreamLook& stream);
// What happens to tasks if somebody changed that field.
std::string_view harm_of(std::string_view field);

}  // namespace once::store::nats
