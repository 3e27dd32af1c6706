#include "store/nats/batch_choice.h"

namespace once::store::nats {
namespace {

constexpr std::size_t kFewForBatch = 16;    // of more, some may go one by one as a sample
constexpr std::size_t kFewest = 4;          // of a batch, where single writes are slow
constexpr std::uint64_t kTryTheOther = 64;  // times
constexpr double kMuchSlower = 3;           // a few share the way to the server and back
constexpr int kSamples = 3;                 // as many in a row are no accident

}  // namespace

std::size_t BatchChoice::singly(std::size_t items) {
  const std::lock_guard lock(mutex_);
  const bool slow = samples_ >= kSamples;
  if (items < 2 * kFewForBatch) return slow && items >= kFewest ? 0 : items;
  if (cost_[kTogether] == 0) return 0;
  if (try_all_singly_) return items;
  if (samples_ < kSamples && cost_[kSingly] == 0) return kFewForBatch;
  const bool together = cost_[kSingly] == 0 || cost_[kTogether] < cost_[kSingly];
  if (++asked_ % kTryTheOther == 0) return together ? kFewForBatch : 0;
  return together ? 0 : items;
}

void BatchChoice::took(bool together, std::size_t items, std::chrono::nanoseconds time) {
  if (items < (together ? 2 * kFewForBatch : kFewForBatch)) return;
  const std::lock_guard lock(mutex_);
  const double now = static_cast<double>(time.count()) / static_cast<double>(items);
  if (!together && items < 2 * kFewForBatch) {
    if (cost_[kTogether] == 0) return;
    try_all_singly_ = now < kMuchSlower * cost_[kTogether];
    samples_ = try_all_singly_ ? 0 : samples_ + 1;
    return;
  }
  if (!together) try_all_singly_ = false;
  double& cost = cost_[together ? kTogether : kSingly];
  cost = cost == 0 ? now : (3 * cost + now) / 4;
}

}  // namespace once::store::nats
