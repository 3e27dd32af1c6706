// One request at a time. A request that reads the whole zone keeps a thread of the pool busy. Others of
// its kind are refused meanwhile, so that they cannot take all threads.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "once/result.h"

namespace once::server {

class Turn {
 public:
  using Busy = std::shared_ptr<std::atomic_flag>;  // shared by copies of the handler

  static Busy make() { return std::make_shared<std::atomic_flag>(); }

  // Fails with Code::overloaded if another request has the turn. The end of the Turn gives it back.
  static Result<Turn> take(Busy busy, const std::string& what) {
    if (busy->test_and_set())
      return Error{.code = Code::overloaded,
                   .message = "another request reads " + what + " now",
                   .retryable = true};
    return Turn(std::move(busy));
  }

 private:
  struct GiveBack {
    void operator()(std::atomic_flag* busy) const { busy->clear(); }
  };
  explicit Turn(Busy busy) : busy_(std::move(busy)), held_(busy_.get()) {}

  Busy busy_;
  std::unique_ptr<std::atomic_flag, GiveBack> held_;
};

}  // namespace once::server
