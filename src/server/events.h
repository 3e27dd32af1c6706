// Server-sent events for pages: the counts of every queue, whenever they change. One thread looks once
// a second for all listeners, and only while there are listeners.
#pragma once

#include <condition_variable>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "once/zone.h"
#include "server/http.h"

namespace once::server {

// Any thread may call. The zone must outlive it, and it must outlive its listeners.
class Events {
 public:
  explicit Events(Zone& zone)
      : zone_(zone), thread_([this](const std::stop_token& stop) { run(stop); }) {}

  Streamed streamed();

 private:
  struct Listener {
    SendMore send{};
    bool is_new = true;  // has not heard the last event
  };
  using Listeners = std::list<Listener>;
  class Place;

  void run(const std::stop_token& stop);

  Zone& zone_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  Listeners listeners_{};  // under mutex_
  std::string last_{};     // the last event; used by the thread alone
  std::jthread thread_;    // last: it uses the others
};

}  // namespace once::server
