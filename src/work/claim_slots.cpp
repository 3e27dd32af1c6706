#include "work/claim_slots.h"

#include <algorithm>

namespace once::engine {
namespace {

constexpr std::size_t kLookedAt = 64;  // slots that are read at once

Error slot_lost() {
  return {.code = Code::fenced,
          .message =
              "this claim does not hold its place among the queue's max_running any more; "
              "nothing was done: its lease ended, or the task was settled or given back"};
}

}  // namespace

ClaimSlots::ClaimSlots(store::Store& store, Scheduler& scheduler, const Queue& queue,
                       std::string worker)
    : scheduler_(scheduler),
      queue_(queue.name),
      worker_(std::move(worker)),
      writer_(store, core::slot_policy(core::policy_of(queue))),
      mutex_(scheduler.mutex()),
      freed_(mutex_->condition()),
      count_(static_cast<std::size_t>(queue.max_running)),
      highest_(count_) {}

void ClaimSlots::set_queue(const Queue& queue) {
  writer_.set_policy(core::slot_policy(core::policy_of(queue)));
  const std::lock_guard lock(*mutex_);
  count_ = static_cast<std::size_t>(queue.max_running);
  highest_ = std::max(highest_, count_);
}

bool ClaimSlots::limited() const {
  const std::lock_guard lock(*mutex_);
  return count_ > 0;
}

store::Address ClaimSlots::address(std::uint32_t number) const {
  return {.kind = store::Address::Kind::lone, .queue = queue_, .key = core::slot_name(number)};
}

// --- Slots for claims that are to be made -------------------------------------------------------

// Callers begin at different slots, so that they seldom want the same one.
Result<std::vector<ClaimSlot>> ClaimSlots::take(std::size_t most) {
  std::size_t count = 0;
  std::size_t highest = 0;
  {
    const std::lock_guard lock(*mutex_);
    count = count_;
    highest = highest_;
  }
  if (count < highest) {
    const auto fewer = below_lowered(count, highest, most);
    if (!fewer) return fewer.error();
    most = *fewer;
  }
  std::vector<ClaimSlot> taken;
  const auto start = static_cast<std::size_t>(scheduler_.random() * static_cast<double>(count));
  for (std::size_t seen = 0; seen < count && taken.size() < most;) {
    const std::size_t first = (start + seen) % count;
    const std::size_t some = std::min({kLookedAt, count - seen, count - first});
    seen += some;
    auto free = free_among(first, some);
    Result<void> claimed = free ? Result<void>{} : Result<void>(free.error());
    while (free && claimed && !free->empty() && taken.size() < most) {
      const std::size_t wanted = std::min(most - taken.size(), free->size());
      std::vector<Intent> chosen(std::make_move_iterator(free->end() - static_cast<long>(wanted)),
                                 std::make_move_iterator(free->end()));
      free->resize(free->size() - wanted);
      claimed = claim(std::move(chosen), taken);
    }
    if (!claimed && taken.empty()) return claimed.error();
    if (!claimed) break;
  }
  return taken;
}

Result<std::size_t> ClaimSlots::below_lowered(std::size_t count, std::size_t highest,
                                              std::size_t most) {
  const auto above = free_among(count, highest - count);
  if (!above) return above.error();
  const std::size_t held = highest - count - above->size();
  if (held == 0) {
    const std::lock_guard lock(*mutex_);
    highest_ = count_;
    return most;
  }
  const auto below = free_among(0, count);
  if (!below) return below.error();
  return std::min(most, below->size() - std::min(below->size(), held));
}

Result<std::vector<Intent>> ClaimSlots::free_among(std::size_t first, std::size_t count) {
  std::vector<store::Address> addresses;
  for (std::size_t i = 0; i < count; ++i)
    addresses.push_back(address(static_cast<std::uint32_t>(first + i)));
  auto found = writer_.read(addresses);
  const auto policy = writer_.policy();
  const Duration lease = core::slot_lease(std::min(policy->lease, core::kOfferLease));
  std::vector<Intent> free;
  for (std::size_t i = 0; i < count; ++i) {
    if (!found[i]) return found[i].error();
    core::Claim claim{.worker = worker_, .lease = lease};
    scheduler_.random_bytes(claim.nonce.bytes.data(), claim.nonce.bytes.size());
    const core::Stored* const known = *found[i] ? &**found[i] : nullptr;
    if (core::decide(known, claim, *policy, writer_.now()).verdict != core::Verdict::claimed)
      continue;
    free.push_back({.at = std::move(addresses[i]),
                    .known = std::move(*found[i]),
                    .command = std::move(claim)});
  }
  return free;
}

Result<void> ClaimSlots::claim(std::vector<Intent> intents, std::vector<ClaimSlot>& taken) {
  std::vector<ClaimSlot> wanted;
  for (const Intent& intent : intents)
    wanted.push_back({.number = static_cast<std::uint32_t>(
                          std::stoul(intent.at.key.substr(core::kSlotPrefix.size()))),
                      .nonce = std::get<core::Claim>(intent.command).nonce});
  auto written = writer_.write(std::move(intents));
  Result<void> all;
  const std::lock_guard lock(*mutex_);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!written[i]) {
      all = written[i].error();
      continue;
    }
    const core::Verdict verdict = written[i]->decision.verdict;
    if (verdict != core::Verdict::claimed && verdict != core::Verdict::already_done) continue;
    wanted[i].until = written[i]->stored->stamp + written[i]->stored->record.lease;
    taken_[wanted[i].nonce] = {.slot = wanted[i]};
    taken.push_back(wanted[i]);
  }
  return all;
}

std::optional<ClaimSlot> ClaimSlots::use(const core::Nonce& nonce) {
  const std::lock_guard lock(*mutex_);
  const auto found = taken_.find(nonce);
  if (found == taken_.end()) return std::nullopt;
  const ClaimSlot slot = found->second.slot;
  taken_.erase(found);
  return slot;
}

void ClaimSlots::give_back_unused(std::span<const core::Nonce> nonces,
                                  const std::function<bool(const core::Nonce&)>& perhaps) {
  std::vector<ClaimSlot> unused;
  {
    const std::lock_guard lock(*mutex_);
    for (const core::Nonce& nonce : nonces)
      if (const auto found = taken_.find(nonce); found != taken_.end())
        found->second.in_doubt = true;
    std::erase_if(taken_, [&](const auto& each) {
      if (!each.second.in_doubt || perhaps(each.first)) return false;
      unused.push_back(each.second.slot);
      return true;
    });
  }
  give_back(unused);
}

void ClaimSlots::await_free(Duration at_most, std::stop_token stop) {
  const auto wake = [this] {
    const std::lock_guard lock(*mutex_);
    freed_->notify_all();
  };
  const std::stop_callback<decltype(wake)> on_stop(stop, wake);  // outlives the lock
  const std::lock_guard lock(*mutex_);
  if (!stop.stop_requested()) freed_->wait(scheduler_.now() + at_most);
}

// --- Slots of claims that are out ---------------------------------------------------------------

std::vector<Result<core::StoreTime>> ClaimSlots::keep(std::span<const ClaimSlot> slots,
                                                      Duration lease) {
  std::vector<Result<core::StoreTime>> kept;
  if (slots.empty()) return kept;
  std::vector<store::Address> addresses;
  for (const ClaimSlot& slot : slots) addresses.push_back(address(slot.number));
  auto found = writer_.read(addresses);
  const core::StoreTime now = writer_.now().store;
  std::vector<Intent> intents;
  std::vector<std::size_t> renewed;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    kept.emplace_back(slot_lost());
    if (!found[i]) {
      kept[i] = found[i].error();
      continue;
    }
    const core::Stored* const stored = *found[i] ? &**found[i] : nullptr;
    switch (core::slot_use(stored, slots[i].nonce, lease, now)) {
      case core::SlotUse::lost: break;
      case core::SlotUse::covers: kept[i] = stored->stamp + stored->record.lease; break;
      case core::SlotUse::renew:
        intents.push_back(
            {.at = std::move(addresses[i]),
             .known = std::move(*found[i]),
             .command = core::Renew{.nonce = slots[i].nonce, .lease = core::slot_lease(lease)}});
        renewed.push_back(i);
    }
  }
  const auto written = writer_.write(std::move(intents));
  for (std::size_t k = 0; k < written.size(); ++k) {
    if (!written[k])
      kept[renewed[k]] = written[k].error();
    else if (written[k]->decision.verdict == core::Verdict::renewed)
      kept[renewed[k]] = written[k]->stored->stamp + written[k]->stored->record.lease;
  }
  return kept;
}

void ClaimSlots::give_back(std::span<const ClaimSlot> slots) {
  if (slots.empty()) return;
  std::vector<store::Address> addresses;
  for (const ClaimSlot& slot : slots) addresses.push_back(address(slot.number));
  auto found = writer_.read(addresses);
  std::vector<Intent> intents;
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (found[i])
      intents.push_back({.at = std::move(addresses[i]),
                         .known = std::move(*found[i]),
                         .command = core::Release{.nonce = slots[i].nonce}});
  static_cast<void>(writer_.write(std::move(intents)));
  const std::lock_guard lock(*mutex_);
  freed_->notify_all();
}

}  // namespace once::engine
