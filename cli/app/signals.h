// SIGINT and SIGTERM as something to wait for. Make it before any thread: it blocks both for the
// threads that come later.
#pragma once

#include "once/task.h"

namespace once::cli {

class Signals {
 public:
  explicit Signals(bool hang_up = false);  // SIGHUP too
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // True: a signal came (it is taken). One thread waits at a time.
  bool wait(Duration limit);
  bool wait();  // until a signal or wake()
  // Ends waits from now on; from any thread.
  void wake();

 private:
  bool wait_for(int milliseconds);
  int signals_;
  int woken_;
};

}  // namespace once::cli
