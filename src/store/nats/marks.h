// Marks by which a zone notices that one of its streams was emptied or went back in time.
//
//   seal    one message in each stream but the log, under a subject that ends with the zone's UUID.
//           A purge takes it, and a stream that was made anew does not have it.
//   marks   one message in the meta bucket. It names each stream's last number as of some time ago,
//           and the log's first number. It is written after the seals.
//
// The log has no seal, because the seal would take the first task's number. Retention notes every
// number that it removes from the log (see past_totals.h). So the number before the log's first message
// was either noted, or somebody else removed the message.
#pragma once

#include <functional>

#include "store/nats/streams.h"

namespace once::store::nats {

struct Mark {
  std::string created{};
  std::uint64_t first{};
  std::uint64_t last{};
  std::optional<Time> last_at{};  // when the last one was written
};

struct Marks {
  std::uint64_t revision{};  // of the message that holds them; it may be one that deletes them
  std::optional<Time> written{};
  std::map<std::string, Mark> streams{};  // by name; empty: the zone has no marks
};

// The zone's own streams with what the server tells of each.
struct Sight {
  const std::vector<Plan>& plans;
  const std::vector<JetStreamClient::Response>& infos;
};

// What a stream that lost messages means to the tasks.
std::string_view harm_of_loss(const Subjects& subjects, const std::string& stream);

Result<Marks> marks_from(const Result<std::optional<StreamMessage>>& message);
// Writes the seals that are missing, then the marks. False: this login may not.
bool write_seals(const JetStreamClient& client, const Subjects& subjects, const Sight& sight,
                 const std::string& uuid, std::uint64_t revision);
// Moves the marks to what is there now, unless another process was faster. False as above.
bool move_marks(const JetStreamClient& client, const Subjects& subjects, const Sight& sight,
                std::uint64_t revision);
// Compares the streams with the marks. `seen` holds the last numbers that this process has seen.
Result<std::optional<Trouble>> check_marks(const JetStreamClient& client, const Subjects& subjects,
                                           const Sight& sight, const Marks& marks,
                                           const Identity& known);
// Whether the stream still lacks what it lacked at the first look. A leader that was just elected may
// not have caught up, so a stream with replicas is looked at again for some seconds.
Result<bool> still_lacks(const JetStreamClient& client, const Plan& plan,
                         const encoding::Json& first,
                         const std::function<bool(const encoding::Json&)>& lacks);
// The error for a stream without its seal.
Error stream_emptied(const Subjects& subjects, const std::string& stream);

}  // namespace once::store::nats
