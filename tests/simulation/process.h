// One simulated process: what its engine takes for threads, mutexes, the clock and randomness. It can
// be frozen for a while, as by SIGSTOP, and it can die: then it is cut off from the world, and what is
// left of it runs to its end as a ghost that nobody sees and for which time flies.
#pragma once

#include <stop_token>

#include "base/scheduler.h"
#include "simulation/world.h"

namespace once::sim {

class Process final : public engine::Scheduler {
 public:
  // `speed`: of its clock, in thousandths of the world's.
  Process(World& world, std::string name, std::int64_t speed);

  // Its main activity; the process has ended when no activity is left.
  void start(std::function<void()> body) { static_cast<void>(begin(std::move(body))); }
  bool ended() const { return strands_ == 0; }

  engine::Moment now() override;
  std::unique_ptr<engine::Mutex> mutex() override;
  std::unique_ptr<engine::Activity> spawn(std::function<void()> body) override;
  double random() override { return world_.random().unit(); }
  void random_bytes(std::uint8_t* to, std::size_t size) override;

  World& world() { return world_; }
  const std::string& name() const { return name_; }

  void sleep(std::chrono::microseconds how_long);  // of the world's time
  // As Condition::wait: `queue` may be null.
  void wait(WaitQueue* queue, std::optional<engine::Moment> deadline);

  void die();
  bool dead() const { return dead_; }
  // Its worker has left the zone: whatever it held, it does not work on it any more.
  void leave() { left_ = true; }
  bool gone() const { return dead_ || left_ || ended(); }
  // Asks it to end, as by SIGTERM, or by its death.
  std::stop_source& stop() { return stop_; }
  void ask_to_stop();
  void freeze(std::chrono::microseconds how_long) {
    frozen_until_ = world_.now() + how_long;
    punctual_ = false;
  }
  // It was never frozen, and its clock goes as the world's.
  bool punctual() const { return punctual_; }
  void thaw() { frozen_until_ = {}; }
  Instant frozen_until() const { return frozen_until_; }

  std::shared_ptr<Strand> begin(std::function<void()> body);
  void strand_ended();
  std::function<void()> on_end{};  // called when it has ended

 private:
  engine::Moment moment_of(Instant instant) const;
  Instant instant_of(engine::Moment moment) const;

  World& world_;
  const std::string name_;
  const std::int64_t speed_;
  const Instant born_;
  std::size_t strands_ = 0;
  bool dead_ = false;
  bool left_ = false;
  std::stop_source stop_;
  engine::Moment ghost_now_{};
  Instant frozen_until_{};
  bool punctual_;
};

}  // namespace once::sim
