#include "server/events.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "shapes/error_json.h"
#include "shapes/json_line.h"
#include "shapes/status_json.h"

namespace once::server {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kTick{1};
constexpr std::chrono::seconds kHeartbeat{15};  // keeps proxies from closing a silent connection

std::string event_of(std::string_view name, const std::string& json) {
  return "event: " + std::string(name) + "\ndata: " + json + "\n\n";
}

std::string current_event(Zone& zone) {
  try {
    const auto status = zone.status();
    if (status) return event_of("status", cli::zone_status_json(*status));
    cli::JsonLine line;
    return event_of("problem", cli::add_error(line, status.error(), status.error().message).str());
  } catch (const std::exception& error) {
    return event_of("problem", cli::JsonLine{}.text("message", error.what()).str());
  }
}

}  // namespace

class Events::Place : public Wait {
 public:
  Place(Events& events, Listeners::iterator at) : events_(events), at_(at) {}
  ~Place() override {
    const std::lock_guard lock(events_.mutex_);
    events_.listeners_.erase(at_);
  }

 private:
  Events& events_;
  const Listeners::iterator at_;
};

Streamed Events::streamed() {
  return {.type = "text/event-stream", .begin = [this](SendMore send) {
            const std::lock_guard lock(mutex_);
            const auto at = listeners_.insert(listeners_.end(), {.send = std::move(send)});
            changed_.notify_one();
            return std::make_unique<Place>(*this, at);
          }};
}

void Events::run(const std::stop_token& stop) {
  auto spoken = steady_clock::now();
  std::unique_lock lock(mutex_);
  const auto somebody_new = [&] {
    return std::any_of(listeners_.begin(), listeners_.end(),
                       [](const Listener& each) { return each.is_new; });
  };
  while (!stop.stop_requested()) {
    if (listeners_.empty()) {
      changed_.wait(lock, stop, [&] { return !listeners_.empty(); });
      continue;
    }
    lock.unlock();
    std::string event = current_event(zone_);
    lock.lock();
    if (event != last_) {
      spoken = steady_clock::now();
      for (Listener& each : listeners_) each.is_new = true;
      last_ = std::move(event);
    }
    for (Listener& each : listeners_)
      if (std::exchange(each.is_new, false)) each.send(last_);
    if (steady_clock::now() - spoken >= kHeartbeat) {
      spoken = steady_clock::now();
      for (const Listener& each : listeners_) each.send(":\n\n");
    }
    changed_.wait_for(lock, stop, kTick, somebody_new);
  }
}

}  // namespace once::server
