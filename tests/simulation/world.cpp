#include "simulation/world.h"

#include <algorithm>

#include "simulation/process.h"

namespace once::sim {
namespace {

constexpr std::uint64_t kMostSteps = 3'000'000;  // of a run that gets somewhere

}  // namespace

std::shared_ptr<Strand> World::start(Process& process, std::function<void()> body) {
  strands_.push_back(std::make_shared<Strand>(process, std::move(body)));
  return strands_.back();
}

bool World::run_until(const std::function<bool()>& reached, Instant limit) {
  while (!violation_) {
    if (Strand* const next = choose()) {
      if (++steps_ > kMostSteps) broken("P4: the processes run and run and get nowhere");
      wake(*next);
      current_ = next;
      next->fiber.resume();
      current_ = nullptr;
      if (next->fiber.done()) {
        next->process.strand_ended();
        std::erase_if(strands_, [&](const auto& strand) { return strand.get() == next; });
      }
      continue;
    }
    if (reached()) return true;
    const auto when = next_change();
    if (!when || *when > limit) return false;
    now_ = *when;
    fire_events();
  }
  return false;
}

void World::fire_events() {
  while (!events_.empty() && events_.begin()->first <= now_) {
    const std::function<void()> what = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    what();
  }
}

// Ghosts first: what a dead process still does is seen by nobody, and takes no time.
Strand* World::choose() {
  candidates_.clear();
  bool ghosts = false;
  for (const auto& strand : strands_) {
    if (strand->waiting && !(strand->deadline && *strand->deadline <= now_)) continue;
    if (strand->process.frozen_until() > now_) continue;
    if (strand->process.dead() && !ghosts) {
      ghosts = true;
      candidates_.clear();
    }
    if (strand->process.dead() == ghosts) candidates_.push_back(strand.get());
  }
  if (candidates_.empty()) return nullptr;
  return candidates_[candidates_.size() == 1 ? 0 : random_.below(candidates_.size())];
}

std::optional<Instant> World::next_change() const {
  std::optional<Instant> next;
  const auto consider = [&](Instant when) { next = next ? std::min(*next, when) : when; };
  if (!events_.empty()) consider(events_.begin()->first);
  for (const auto& strand : strands_) {
    if (strand->waiting && !strand->deadline) continue;
    const Instant due = strand->waiting ? *strand->deadline : now_;
    consider(std::max(due, strand->process.frozen_until()));
  }
  return next;
}

void World::give_way() { current_->fiber.give_way(); }

void World::wait(WaitQueue* queue, std::optional<Instant> deadline) {
  Strand& me = *current_;
  me.waiting = true;
  me.deadline = deadline;
  me.queue = queue;
  if (queue) queue->strands_.push_back(&me);
  me.fiber.give_way();
}

void World::wake(Strand& strand) {
  if (!strand.waiting) return;
  strand.waiting = false;
  strand.deadline.reset();
  if (strand.queue) std::erase(strand.queue->strands_, &strand);
  strand.queue = nullptr;
}

void World::notify_one(WaitQueue& queue) {
  if (queue.strands_.empty()) return;
  wake(*queue.strands_[random_.below(queue.strands_.size())]);
}

void World::notify_all(WaitQueue& queue) {
  while (!queue.strands_.empty()) wake(*queue.strands_.back());
}

void World::hurry(const Process& process) {
  for (const auto& strand : strands_)
    if (&strand->process == &process && strand->deadline) wake(*strand);
}

void World::broken(std::string what) {
  if (violation_) return;
  trace_.note(now_, current_ ? current_->process.name() : "the end", "BROKEN", 0,
              [&] { return what; });
  violation_ = std::move(what);
}

}  // namespace once::sim
