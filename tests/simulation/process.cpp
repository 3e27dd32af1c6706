#include "simulation/process.h"

#include <cstdlib>
#include <cstring>

namespace once::sim {
namespace {

using engine::Moment;
using std::chrono::microseconds;

constexpr double kInterrupted = 0.1;  // how often others run between two steps of an activity
constexpr double kWokenEarly = 0.02;
constexpr Moment kBirth{std::chrono::hours{1}};  // what its clock says when a process begins

class SimMutex final : public engine::Mutex {
 public:
  explicit SimMutex(Process& process) : process_(process) {}

  void lock() override {
    World& world = process_.world();
    if (world.may_give_way() && world.random().chance(kInterrupted)) world.give_way();
    while (locked_) {
      if (!world.current()) std::abort();  // the world itself never waits
      world.wait(&waiting_, {});
    }
    locked_ = true;
    if (world.current()) ++world.current()->locks;
  }
  void unlock() override {
    locked_ = false;
    if (process_.world().current()) --process_.world().current()->locks;
    process_.world().notify_one(waiting_);
  }
  std::unique_ptr<engine::Condition> condition() override;

  Process& process() { return process_; }

 private:
  Process& process_;
  bool locked_ = false;
  WaitQueue waiting_;
};

class SimCondition final : public engine::Condition {
 public:
  explicit SimCondition(SimMutex& mutex) : mutex_(mutex) {}

  void wait(std::optional<Moment> deadline) override {
    World& world = mutex_.process().world();
    mutex_.unlock();
    if (world.random().chance(kWokenEarly))
      world.give_way();
    else
      mutex_.process().wait(&waiting_, deadline);
    mutex_.lock();
  }
  void notify_one() override { mutex_.process().world().notify_one(waiting_); }
  void notify_all() override { mutex_.process().world().notify_all(waiting_); }

 private:
  SimMutex& mutex_;
  WaitQueue waiting_;
};

std::unique_ptr<engine::Condition> SimMutex::condition() {
  return std::make_unique<SimCondition>(*this);
}

class SimActivity final : public engine::Activity {
 public:
  explicit SimActivity(Process& process, std::function<void()> body)
      : process_(process), strand_(process.begin([this, body = std::move(body)] {
          body();
          over_ = true;
          process_.world().notify_all(joining_);
        })) {}
  ~SimActivity() override {
    while (!over_) process_.world().wait(&joining_, {});
  }
  SimActivity(const SimActivity&) = delete;
  SimActivity& operator=(const SimActivity&) = delete;

 private:
  Process& process_;
  bool over_ = false;
  WaitQueue joining_;
  std::shared_ptr<Strand> strand_;  // shared with the world
};

}  // namespace

Process::Process(World& world, std::string name, std::int64_t speed)
    : world_(world),
      name_(std::move(name)),
      speed_(speed),
      born_(world.now()),
      punctual_(speed == 1000) {}

std::shared_ptr<Strand> Process::begin(std::function<void()> body) {
  ++strands_;
  return world_.start(*this, std::move(body));
}

Moment Process::now() { return dead_ ? ghost_now_ : moment_of(world_.now()); }

Moment Process::moment_of(Instant instant) const {
  return kBirth + microseconds{(instant - born_).count() * speed_ / 1000};
}

Instant Process::instant_of(Moment moment) const {
  return born_ + microseconds{(moment - kBirth).count() * 1000 / speed_ + 1};
}

std::unique_ptr<engine::Mutex> Process::mutex() { return std::make_unique<SimMutex>(*this); }

std::unique_ptr<engine::Activity> Process::spawn(std::function<void()> body) {
  return std::make_unique<SimActivity>(*this, std::move(body));
}

void Process::random_bytes(std::uint8_t* to, std::size_t size) {
  while (size > 0) {
    const std::uint64_t bits = world_.random().next();
    const std::size_t some = std::min(size, sizeof bits);
    std::memcpy(to, &bits, some);
    to += some;
    size -= some;
  }
}

void Process::sleep(microseconds how_long) {
  if (dead_) return;
  world_.wait(nullptr, world_.now() + how_long);
}

void Process::wait(WaitQueue* queue, std::optional<Moment> deadline) {
  if (dead_ && deadline) {
    ghost_now_ = std::max(ghost_now_, *deadline);
    return world_.give_way();
  }
  world_.wait(queue, deadline ? std::optional(instant_of(*deadline)) : std::nullopt);
}

void Process::die() {
  if (dead_) return;
  ghost_now_ = now();
  dead_ = true;
  thaw();
  ask_to_stop();
  world_.hurry(*this);
}

// A stop's callbacks run on the thread that asks for it; who waits for them to be over would wait in
// the kernel, where fibers cannot.
void Process::ask_to_stop() {
  const World::Undisturbed alone(world_);
  stop_.request_stop();
}

void Process::strand_ended() {
  if (--strands_ == 0 && on_end) on_end();
}

}  // namespace once::sim
