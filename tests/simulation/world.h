// Virtual time and who runs next. Every activity of every simulated process is a strand (a fiber);
// one runs at a time, the seed chooses which, and time passes only when none can run.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulation/fiber.h"
#include "simulation/random.h"
#include "simulation/trace.h"

namespace once::sim {

class Process;
class WaitQueue;

struct Strand {
  Strand(Process& its_process, std::function<void()> body)
      : process(its_process), fiber(std::move(body)) {}

  Process& process;
  Fiber fiber;
  bool waiting = false;
  std::optional<Instant> deadline{};  // waiting: until then at most
  WaitQueue* queue = nullptr;         // waiting: or for a word of this one
  int locks = 0;                      // of simulated mutexes that it holds
};

// Strands that wait for a word.
class WaitQueue {
 public:
  bool empty() const { return strands_.empty(); }

 private:
  friend class World;
  std::vector<Strand*> strands_;
};

class World {
 public:
  World(std::uint64_t seed, Trace::Detail detail) : random_(seed), trace_(detail) {}

  Random& random() { return random_; }
  Trace& trace() { return trace_; }
  Instant now() const { return now_; }

  // The world's own doing, between two strands.
  void at(Instant when, std::function<void()> what) { events_.emplace(when, std::move(what)); }
  void after(std::chrono::microseconds wait, std::function<void()> what) {
    at(now_ + wait, std::move(what));
  }

  // Shared with the activity that joins it.
  std::shared_ptr<Strand> start(Process& process, std::function<void()> body);

  // Until `reached`, asked whenever time is about to pass. False: the limit came first, nothing can
  // happen any more, or a promise was broken.
  bool run_until(const std::function<bool()>& reached, Instant limit);

  // Inside a strand. Others may run now.
  void give_way();
  // Inside a strand: until somebody notifies the queue (null: nobody will), or the deadline.
  void wait(WaitQueue* queue, std::optional<Instant> deadline);
  void notify_one(WaitQueue& queue);
  void notify_all(WaitQueue& queue);
  // Its waits with a deadline are over: time flies for it.
  void hurry(const Process& process);

  Strand* current() { return current_; }  // null: outside of all strands
  // May the strand that runs now be interrupted by others?
  bool may_give_way() const { return current_ && undisturbed_ == 0 && current_->locks == 0; }

  // While one lives, nobody else runs: around what must be one step in the real world, too.
  class Undisturbed {
   public:
    explicit Undisturbed(World& world) : world_(world) { ++world_.undisturbed_; }
    ~Undisturbed() { --world_.undisturbed_; }
    Undisturbed(const Undisturbed&) = delete;
    Undisturbed& operator=(const Undisturbed&) = delete;

   private:
    World& world_;
  };

  // A promise was broken. The first one counts, and ends the run.
  void broken(std::string what);
  const std::optional<std::string>& violation() const { return violation_; }
  std::uint64_t steps() const { return steps_; }

 private:
  Strand* choose();
  std::optional<Instant> next_change() const;
  void wake(Strand& strand);
  void fire_events();

  Random random_;
  Trace trace_;
  Instant now_{};
  std::vector<std::shared_ptr<Strand>> strands_;  // shared with those who join them
  std::vector<Strand*> candidates_;
  std::multimap<Instant, std::function<void()>> events_;
  Strand* current_ = nullptr;
  int undisturbed_ = 0;
  std::uint64_t steps_ = 0;
  std::optional<std::string> violation_;
};

}  // namespace once::sim
