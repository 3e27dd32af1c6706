// For benchmarks: the same work on the same store, with the same durability and nothing of Once's
// checks. What Once costs is the ratio to it; `once bench` prints that.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "once/zone.h"

namespace once::inline v1 {

// Open it before the zone: it tells later whether the zone was there. One thread uses it; clear() may
// be called by any.
class Yardstick {
 public:
  // Makes what it needs beside the zone that the URL names, and removes what an earlier one left. A
  // URL whose store cannot be measured is invalid_input.
  static Result<std::unique_ptr<Yardstick>> open(std::string_view url, OpenOptions options = {});
  virtual ~Yardstick() = default;

  virtual std::string_view name() const = 0;  // "bare SQL"
  // One batch: one transaction, or a pipelined burst that is awaited as a whole.
  virtual Result<void> publish(std::span<const std::string> ids, const std::string& body) = 0;
  // Takes the next `count` tasks, claims them in one batch and completes them in another. So many must
  // have been published.
  virtual Result<void> work(std::size_t count) = 0;

  // Was the zone there before?
  virtual bool found_zone() const = 0;
  // Removes what it made; with `zone` also a zone on a server, unless that was there before (a file
  // stays). What is done in the zone meanwhile fails.
  virtual Result<void> clear(bool zone) = 0;
};

}  // namespace once::inline v1
