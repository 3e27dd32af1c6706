// The consumers of a server, one per queue, each with the line of its long polls. A queue that no
// request has used for a minute loses its consumer. So the server counts as a worker of a queue only
// while clients work on it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "once/zone.h"
#include "server/offer_line.h"
#include "tooling/tokens.h"

namespace once::server {

// Any thread may call. The zone must outlive it.
class Consumers {
 public:
  Consumers(Zone& zone, OffersResponse response)
      : zone_(zone),
        response_(response),
        thread_([this](const std::stop_token& stop) { drop_idle(stop); }) {}

  // Both are shared with the calls that use them. They return an error if the caller's token does not
  // permit the queue. So no handler can work on a queue without this check.
  Result<std::shared_ptr<Consumer>> of(const AccessToken* caller, const std::string& queue);
  Result<std::shared_ptr<OfferLine>> line(const AccessToken* caller, const std::string& queue);
  // The queue was removed. A queue of the same name needs a new consumer.
  void forget(const std::string& queue);

 private:
  struct Known {
    std::shared_ptr<OfferLine> line{};
    std::chrono::steady_clock::time_point used{};
  };
  void drop_idle(const std::stop_token& stop);

  Zone& zone_;
  const OffersResponse response_;
  std::mutex mutex_;
  std::condition_variable_any ending_;
  std::map<std::string, Known> known_;  // by queue; under mutex_
  std::jthread thread_;                 // last: it uses the others
};

}  // namespace once::server
