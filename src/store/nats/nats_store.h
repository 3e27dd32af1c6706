// The store for fleets on many machines: a zone on a JetStream account of nats-server 2.12 or newer.
// subjects.h says where its things lie.
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
  Duration patience{5'000};     // how long an answer is waited for before it counts as lost
  bool create = true;           // false: a missing zone is not_found
  bool as_it_is = false;        // see OpenOptions
  Duration look_every{30'000};  // whether the zone is still what was opened
  std::function<void(std::string_view)> log{};  // see OpenOptions
  std::shared_ptr<Clock> clock{};  // none: the server's; shared with the caller that moves it
};

Result<std::unique_ptr<Store>> open_nats(const NatsOptions& options);

}  // namespace once::store
