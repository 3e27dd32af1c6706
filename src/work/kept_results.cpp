#include "work/kept_results.h"

namespace once::engine {
namespace {

constexpr std::size_t kLarge = 4 << 10;  // a smaller result is part of the record in every store
constexpr std::size_t kMost = 64 << 20;

}  // namespace

void KeptResults::saw(const core::Nonce& claim, const core::Record& record) {
  Kept seen;
  if (record.state == State::running && record.nonce == claim)
    for (const core::Step& step : record.steps)
      if (step.state == core::Step::State::done && step.result.text().size() >= kLarge) {
        seen.size += step.result.text().size();
        seen.results.push_back(step.result);
      }
  const std::lock_guard lock(mutex_);
  forget(claim);
  if (seen.results.empty() || seen.size > kMost) return;
  size_ += seen.size;
  seen.age = ++last_age_;
  by_age_[seen.age] = claim;
  kept_[claim] = std::move(seen);
  while (size_ > kMost) forget(core::Nonce(by_age_.begin()->second));
}

void KeptResults::forget(const core::Nonce& claim) {
  const auto found = kept_.find(claim);
  if (found == kept_.end()) return;
  size_ -= found->second.size;
  by_age_.erase(found->second.age);
  kept_.erase(found);
}

}  // namespace once::engine
