// For what nobody tells: looks again and again until it is so, or until a limit that is only met when
// something is wrong.
#pragma once

#include <chrono>
#include <thread>

namespace once::testing {

template <class Condition>
bool eventually(Condition condition, std::chrono::milliseconds limit = std::chrono::seconds{60}) {
  const auto give_up = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return true;
}

}  // namespace once::testing
