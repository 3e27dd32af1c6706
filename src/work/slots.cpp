#include "work/slots.h"

#include <algorithm>

#include "core/slot.h"

namespace once::engine {

Slots::Slots(store::Store& store, Scheduler& scheduler, const Queue& queue, std::string worker,
             core::Member member)
    : store_(store),
      scheduler_(scheduler),
      queue_(queue.name),
      count_(static_cast<std::size_t>(queue.max_running)),
      worker_(std::move(worker)),
      member_(member),
      writer_(store, core::slot_policy(core::policy_of(queue))),
      keeper_(scheduler, writer_, Duration{0}) {}

Slots::~Slots() { keep(0); }

std::size_t Slots::number(const RunningTask& slot) const {
  return std::stoul(slot.address.key.substr(core::kSlotPrefix.size()));
}

store::Address Slots::address(std::size_t slot) const {
  return {.kind = store::Address::Kind::lone, .queue = queue_, .key = core::slot_name(slot)};
}

// If max_running was lowered, slots above it are given back as soon as no task uses them.
void Slots::set_count(std::size_t count, std::size_t busy) {
  count_ = count;
  if (std::all_of(held_.begin(), held_.end(),
                  [&](const auto& slot) { return number(*slot) < count_; }))
    return;
  const auto beyond = std::stable_partition(
      held_.begin(), held_.end(), [&](const auto& slot) { return number(*slot) < count_; });
  keep(std::max(busy, static_cast<std::size_t>(beyond - held_.begin())));
}

Result<std::size_t> Slots::hold(std::size_t want) {
  std::erase_if(held_, [&](const std::unique_ptr<RunningTask>& slot) {
    if (!slot->stop.stop_requested()) return false;
    RunningTask* const lost = slot.get();
    keeper_.unwatch(std::span(&lost, 1));
    return true;
  });
  // While this worker holds a slot above max_running, it must not take another one.
  const bool beyond = std::any_of(held_.begin(), held_.end(),
                                  [&](const auto& slot) { return number(*slot) >= count_; });
  if (beyond || held_.size() >= want || held_.size() >= count_) return held_.size();

  std::vector<store::Address> addresses;
  for (std::size_t slot = 0; slot < count_; ++slot) addresses.push_back(address(slot));
  auto found = store_.get(addresses);
  for (std::size_t slot = 0; slot < count_ && held_.size() < want; ++slot) {
    if (!found[slot]) return found[slot].error();
    const bool mine = std::any_of(held_.begin(), held_.end(), [&](const auto& held) {
      return held->address == addresses[slot];
    });
    if (mine) continue;
    auto running = std::make_unique<RunningTask>();
    scheduler_.random_bytes(running->nonce.bytes.data(), running->nonce.bytes.size());
    running->address = addresses[slot];
    running->renewed_at = scheduler_.now();
    auto written = writer_.write(
        {.at = addresses[slot],
         .known = std::move(*found[slot]),
         .command = core::Claim{.worker = worker_, .member = member_, .nonce = running->nonce}});
    if (!written) return written.error();
    const core::Verdict verdict = written->decision.verdict;
    if (verdict != core::Verdict::claimed && verdict != core::Verdict::already_done) continue;
    running->stored = std::move(*written->stored);
    running->claimed_for = running->stored.record.lease;
    keeper_.watch(*running);
    held_.push_back(std::move(running));
  }
  return held_.size();
}

void Slots::keep(std::size_t count) {
  if (held_.size() <= count) return;
  std::vector<RunningTask*> others;
  std::vector<Intent> intents;
  for (std::size_t i = count; i < held_.size(); ++i) others.push_back(held_[i].get());
  keeper_.unwatch(others);
  for (const RunningTask* slot : others)
    intents.push_back({.at = slot->address,
                       .known = slot->stored,
                       .command = core::Release{.nonce = slot->nonce}});
  // A slot that cannot be given back now is free when its lease expires.
  static_cast<void>(writer_.write(std::move(intents)));
  held_.resize(count);
}

}  // namespace once::engine
