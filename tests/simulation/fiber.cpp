#include "simulation/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace once::sim {
namespace {

constexpr std::size_t kGuard = 4096;
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kStack = 1 << 20;
#else
constexpr std::size_t kStack = 1 << 18;
#endif

// Stacks of fibers that have ended, for those that come.
std::vector<void*>& spare_stacks() {
  static std::vector<void*> stacks;
  return stacks;
}

void* take_stack() {
  if (!spare_stacks().empty()) {
    void* const stack = spare_stacks().back();
    spare_stacks().pop_back();
    return stack;
  }
  void* const memory = mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuard, PROT_NONE) != 0) std::abort();
  return static_cast<char*>(memory) + kGuard;
}

Fiber* entering = nullptr;

// The bounds of the thread's own stack, learned when a fiber begins.
[[maybe_unused]] const void* thread_bottom = nullptr;
[[maybe_unused]] std::size_t thread_size = 0;

#if defined(__SANITIZE_ADDRESS__)
void leaving_for(void** fake_stack, const void* bottom, std::size_t size) {
  __sanitizer_start_switch_fiber(fake_stack, bottom, size);
}
void arrived(void* fake_stack, const void** bottom, std::size_t* size) {
  __sanitizer_finish_switch_fiber(fake_stack, bottom, size);
}
#else
void leaving_for(void**, const void*, std::size_t) {}
void arrived(void*, const void**, std::size_t*) {}
#endif

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(take_stack()) {
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_;
  context_.uc_stack.ss_size = kStack;
  context_.uc_link = nullptr;
  makecontext(&context_, &Fiber::enter, 0);
}

Fiber::~Fiber() { spare_stacks().push_back(stack_); }

// A context is only entered as one; after that setjmp and longjmp are enough, which do not ask the
// kernel for the signal mask.
void Fiber::resume() {
  void* fake_stack = nullptr;
  exchange_exceptions();
  leaving_for(&fake_stack, stack_, kStack);
  if (_setjmp(outside_) == 0) {
    if (begun_) _longjmp(inside_, 1);
    begun_ = true;
    entering = this;
    setcontext(&context_);
  }
  arrived(fake_stack, nullptr, nullptr);
  exchange_exceptions();
}

void Fiber::give_way() {
  leaving_for(&fake_stack_, thread_bottom, thread_size);
  if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
  arrived(fake_stack_, &thread_bottom, &thread_size);
}

void Fiber::enter() {
  Fiber& self = *entering;
  arrived(nullptr, &thread_bottom, &thread_size);
  self.body_();
  self.body_ = nullptr;
  self.done_ = true;
  leaving_for(nullptr, thread_bottom, thread_size);
  _longjmp(self.outside_, 1);
}

void Fiber::exchange_exceptions() {
  Exceptions now;
  void* const globals = abi::__cxa_get_globals();
  std::memcpy(&now, globals, sizeof now);
  std::memcpy(globals, &exceptions_, sizeof exceptions_);
  exceptions_ = now;
}

}  // namespace once::sim
