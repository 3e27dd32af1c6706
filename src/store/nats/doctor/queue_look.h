// One look of the doctor at a queue: its consumers, and the stream of others' that it is on.
#pragma once

#include <functional>
#include <optional>

#include "store/nats/doctor/zone_look.h"

namespace once::store::nats {

class QueueLook {
 public:
  // `countable`: the queue's tasks can be counted, so nobody needs to know where the open ones begin.
  QueueLook(ZoneLook& look, const KnownQueue& queue, bool countable)
      : look_(look), queue_(queue), countable_(countable) {}

  Result<void> at_stream();
  // The consumers by their plans, the one of the tasks last.
  Result<void> at_consumers(std::span<const Plan> plans);
  // Whether the stream dropped messages that the queue was not handed. `dropped` finds out.
  Result<void> at_dropped(
      bool deep, const std::function<Result<core::Sequences>(std::uint64_t last)>& dropped);

  QueueGlance glance{};

 private:
  Result<void> gone(std::string_view key);  // of the finding
  Result<void> at_other_consumers();
  Result<void> at_consumer(const Plan& plan, bool source);
  void consumer_missing(const Plan& plan);
  // Up to which message it is worth a look whether the stream dropped some. Zero if it is not.
  std::uint64_t last_of_stream() const;

  ZoneLook& look_;
  const KnownQueue& queue_;
  const bool countable_;
  std::optional<encoding::Json> stream_;
};

}  // namespace once::store::nats
