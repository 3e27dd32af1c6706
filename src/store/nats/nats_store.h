// The store for many machines: a zone on a JetStream account of nats-server 2.12 or newer.
// subjects.h lists its streams and subjects. nats_store.cpp shows the parts and which part uses
// which.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "once/zone.h"
#include "store/store.h"

namespace once::store {

struct NatsOptions {
  std::vector<std::string> servers{};  // "nats://host:port", or all "tls://..."
  NatsLogin login{};
  std::string zone = "main";
  Duration patience{5'000};     // how long a request waits; then its answer counts as lost
  bool create = true;           // if false, a missing zone is not_found
  bool allow_unsafe = false;    // see OpenOptions
  Duration look_every{30'000};  // how often the Watch checks the zone
  std::function<void(std::string_view)> log{};  // see OpenOptions
  std::shared_ptr<Clock> clock{};  // null: the server's; shared with the caller that moves it
};

Result<std::unique_ptr<Store>> open_nats(const NatsOptions& options);

}  // namespace once::store
