// A body with a stack of its own, run on the caller's thread until it gives way. All fibers of a
// process belong to one thread.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <functional>

namespace once::sim {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it gives way or ends. Not from inside a fiber.
  void resume();
  // Inside the body: back to whoever resumed it.
  void give_way();
  bool done() const { return done_; }

 private:
  // What a thread knows of exceptions under way, which belongs to the stack that throws them.
  struct Exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };

  static void enter();
  void exchange_exceptions();

  std::function<void()> body_;
  void* stack_;
  ucontext_t context_{};
  jmp_buf inside_{};   // where the body gave way
  jmp_buf outside_{};  // where it was resumed
  Exceptions exceptions_{};
  void* fake_stack_ = nullptr;  // AddressSanitizer's
  bool begun_ = false;
  bool done_ = false;
};

}  // namespace once::sim
