// Requests that wait for something that the store does not announce, such as the end of a task. One
// thread looks again and again for all of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "server/http.h"

namespace once::server {

// Any thread may call. It must outlive the requests.
class Watch {
 public:
  // Returns the response, or nullopt to look again later. With `last`, it must return a response.
  using Look = std::function<std::optional<Response>(bool last)>;

  Watch() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

  // Parks a request for up to `limit`.
  Parked parked(Duration limit, Look look);

 private:
  using Moment = std::chrono::steady_clock::time_point;
  struct Waiting {
    Look look{};
    AnswerWith answer{};
    Duration pause{};   // before the next look
    bool last = false;  // the next look must answer; under mutex_
    bool gone = false;  // the client left; under mutex_
    Moment at{};        // of the next look; under mutex_
  };
  using Line = std::multimap<Moment, std::shared_ptr<Waiting>>;
  class Entry;

  void finish(const std::shared_ptr<Waiting>& waiting);
  void leave(const std::shared_ptr<Waiting>& waiting);
  void run(const std::stop_token& stop);
  static std::optional<Response> look(const Waiting& waiting, bool last);
  // Takes a request out of the line. False if the thread looks at it now. Under mutex_.
  bool take(const std::shared_ptr<Waiting>& waiting);
  void put(std::shared_ptr<Waiting> waiting, Moment at);  // under mutex_

  std::mutex mutex_;
  std::condition_variable_any changed_;
  Line line_{};          // by the time of the next look; under mutex_
  std::jthread thread_;  // last: it uses the others
};

}  // namespace once::server
