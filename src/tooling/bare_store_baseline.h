// A baseline for benchmarks. A BareStoreBaseline does the same work on the same store with the same
// durability, but without Once's checks. `once bench` prints the ratio as the cost of Once.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "once/zone.h"

namespace once::inline v1 {

// Open the baseline before the zone, so that found_zone() can tell whether the zone existed.
// Only one thread may use a baseline. Any thread may call clear().
class BareStoreBaseline {
 public:
  // Creates the baseline's own file or streams next to the zone that the URL names. open() also
  // removes the leftovers of an earlier baseline.
  // Returns invalid_input if the URL's store has no baseline.
  static Result<std::unique_ptr<BareStoreBaseline>> open(std::string_view url,
                                                         OpenOptions options = {});
  virtual ~BareStoreBaseline() = default;

  virtual std::string_view name() const = 0;  // "bare SQL"
  // Publishes one batch. A batch is one transaction, or one pipelined burst. publish() waits for
  // the whole batch.
  virtual Result<void> publish(std::span<const std::string> ids, const std::string& body) = 0;
  // Takes the next `count` tasks, claims them in one batch and completes them in another batch.
  // The caller must have published at least `count` more tasks.
  virtual Result<void> work(std::size_t count) = 0;

  // Returns true if the zone existed before open().
  virtual bool found_zone() const = 0;
  // Removes everything that this baseline created. If `zone` is true, clear() also removes a zone
  // on a server, unless the zone existed before open(). clear() never removes a zone's file.
  // Operations that run in the zone at the same time fail.
  virtual Result<void> clear(bool zone) = 0;
};

}  // namespace once::inline v1
