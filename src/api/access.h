// Creates the objects of the public API, whose constructors are private, and reads their state.
// The tests use it to open a Zone on a store of their own.
#pragma once

#include <memory>
#include <utility>

#include "api/zone_state.h"
#include "once/zone.h"

namespace once::inline v1 {

struct detail::Access {
  template <class Object, class... State>
  static Object make(State&&... state) {
    return Object(std::forward<State>(state)...);
  }
  static Zone zone_on(std::unique_ptr<store::Store> store, AsyncLimits limits = {}) {
    return Zone(std::make_shared<ZoneState>(std::move(store), engine::thread_scheduler(), limits));
  }
  static std::shared_ptr<ZoneState> state(const Zone& zone) { return zone.state_; }
};

}  // namespace once::inline v1
