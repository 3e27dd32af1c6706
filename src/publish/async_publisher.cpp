#include "publish/async_publisher.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace once::engine {
namespace {

constexpr std::size_t kAsyncBatch = 1024;

Error overloaded(std::uint64_t publishes, std::size_t bytes) {
  return {.code = Code::overloaded,
          .message = std::to_string(publishes) + " asynchronous publishes with " +
                     std::to_string(bytes) +
                     " bytes are in flight, which is the limit of this zone object; nothing was "
                     "published",
          .retryable = true};
}

Error closing() {
  return {.code = Code::wrong_state,
          .message = "the zone object is being destroyed; nothing was published"};
}

Error not_tried() {
  return {.code = Code::store_unavailable,
          .message =
              "the zone object was destroyed while the store did not work; nothing was "
              "published",
          .retryable = true};
}

bool store_failed(const Result<Receipt>& result) {
  if (result) return false;
  const Code code = result.error().code;
  return code == Code::store_unavailable || code == Code::store_unusable ||
         code == Code::outcome_unknown;
}

}  // namespace

Result<void> AsyncPublisher::submit(Task task, PublishCallback done) {
  if (!done)
    return Error{.code = Code::invalid_input,
                 .message = "the callback of publish_async() is empty; nothing was published"};
  const std::size_t bytes = task.body.text().size();
  const std::lock_guard lock(*mutex_);
  if (closing_) return closing();
  // One body may be larger than the whole limit. It is accepted when nothing else is in flight.
  if (in_flight_ >= limits_.publishes || (in_flight_ > 0 && bytes_ + bytes > limits_.bytes))
    return overloaded(in_flight_, bytes_);
  if (!activity_) activity_ = scheduler_.spawn([this] { run(); });
  waiting_.push_back({.task = std::move(task), .done = std::move(done), .bytes = bytes});
  ++in_flight_;
  bytes_ += bytes;
  work_->notify_one();
  return {};
}

void AsyncPublisher::close() {
  std::unique_ptr<Activity> ending;
  {
    const std::lock_guard lock(*mutex_);
    closing_ = true;
    ending = std::move(activity_);
    work_->notify_one();
  }
  ending.reset();  // waits until run() has returned
  const std::lock_guard lock(*mutex_);
  closing_ = false;
}

std::uint64_t AsyncPublisher::in_flight() const {
  const std::lock_guard lock(*mutex_);
  return in_flight_;
}

void AsyncPublisher::run() {
  while (true) {
    std::vector<Item> batch = gather();
    if (batch.empty()) return;
    const bool failed = publish(std::move(batch));
    std::deque<Item> left;
    {
      const std::lock_guard lock(*mutex_);
      if (!closing_ || !failed) continue;
      left.swap(waiting_);
    }
    for (Item& item : left) answer(item, not_tried());
  }
}

// Empty when the zone closes and nothing waits.
std::vector<AsyncPublisher::Item> AsyncPublisher::gather() {
  const std::lock_guard lock(*mutex_);
  while (waiting_.empty() && !closing_) work_->wait();
  const auto end =
      waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kAsyncBatch));
  std::vector<Item> batch(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
  waiting_.erase(waiting_.begin(), end);
  return batch;
}

bool AsyncPublisher::publish(std::vector<Item> batch) {
  std::vector<Task> tasks;
  tasks.reserve(batch.size());
  for (Item& item : batch) tasks.push_back(std::move(item.task));
  std::vector<Result<Receipt>> results = publisher_.publish(std::move(tasks));
  // A task that is refused before it reaches the store says nothing about the store.
  const bool failed = std::any_of(results.begin(), results.end(), store_failed) &&
                      std::none_of(results.begin(), results.end(),
                                   [](const auto& each) { return static_cast<bool>(each); });
  for (std::size_t i = 0; i < batch.size(); ++i) answer(batch[i], std::move(results[i]));
  return failed;
}

// The place is free before the callback runs, so that a callback can publish the next task. What the
// callback owns is released before the next one runs.
void AsyncPublisher::answer(Item& item, Result<Receipt> result) {
  {
    const std::lock_guard lock(*mutex_);
    --in_flight_;
    bytes_ -= item.bytes;
  }
  const PublishCallback done = std::exchange(item.done, {});
  done(std::move(result));
}

}  // namespace once::engine
