// Copies of dead or held messages of streams that others publish to. Such a stream may drop a message by
// its own rules, so the zone keeps a copy that a person can look at and run again. Any thread may call it.
#pragma once

#include "store/nats/zone_connection.h"

namespace once::store::nats {

class MessageCopies {
 public:
  explicit MessageCopies(ZoneConnection& zone) : zone_(zone) {}

  // Whether the copy is there, whole.
  Result<bool> has(const KnownQueue& queue, Sequence sequence) const;
  // nullopt if there is no copy.
  Result<std::optional<StreamMessage>> read(const KnownQueue& queue, Sequence sequence) const;
  // Writes the copy in parts. Another process may write the same copy at the same time.
  Result<void> write(const KnownQueue& queue, const StreamMessage& stream_message);
  // The sequences that have a copy.
  Result<std::vector<Sequence>> all(const KnownQueue& queue) const;
  Result<void> remove(const KnownQueue& queue, Sequence sequence);

 private:
  ZoneConnection& zone_;
};

}  // namespace once::store::nats
