// Implements once::Zone: open, publish and retention. Publisher (publish/publisher.h) publishes.
#include "once/zone.h"

#include <algorithm>

#include "api/access.h"
#include "api/open_store.h"
#include "codec/key_template.h"
#include "core/names.h"
#include "flow/run_store.h"
#include "work/housekeeper.h"

namespace once::inline v1 {

Zone::Zone(std::shared_ptr<detail::ZoneState> state) : state_(std::move(state)) {}
Zone::Zone(Zone&&) noexcept = default;
Zone& Zone::operator=(Zone&& other) noexcept {
  if (this == &other) return *this;
  if (state_) state_->async.close();
  state_ = std::move(other.state_);
  return *this;
}
Zone::~Zone() {
  if (state_) state_->async.close();
}

Result<Zone> Zone::open(std::string_view url, OpenOptions options) {
  auto store = api::open_store(url, options);
  if (!store) return store.error();
  return Zone(std::make_shared<detail::ZoneState>(std::move(*store), engine::thread_scheduler(),
                                                  options.async));
}

Queues Zone::queues() const { return detail::Access::make<Queues>(state_); }
Tasks Zone::tasks() const { return detail::Access::make<Tasks>(state_); }

std::string Zone::uuid() const { return state_->store->uuid(); }

Result<Receipt> Zone::publish(Task task) {
  std::vector<Task> one;
  one.push_back(std::move(task));
  return std::move(state_->publisher.publish(std::move(one)).front());
}

std::vector<Result<Receipt>> Zone::publish_batch(std::vector<Task> tasks) {
  return state_->publisher.publish(std::move(tasks));
}

std::future<Result<Receipt>> Zone::publish_async(Task task) {
  // Shared because a std::function must be copyable.
  auto promise = std::make_shared<std::promise<Result<Receipt>>>();
  auto future = promise->get_future();
  auto accepted = publish_async(std::move(task), [promise](Result<Receipt> result) {
    promise->set_value(std::move(result));
  });
  if (!accepted) promise->set_value(accepted.error());
  return future;
}

Result<void> Zone::publish_async(Task task, PublishCallback done) {
  return state_->async.submit(std::move(task), std::move(done));
}

PublisherMetrics Zone::metrics() const {
  PublisherMetrics metrics = state_->publisher.metrics();
  metrics.in_flight = state_->async.in_flight();
  return metrics;
}

Result<Retention> Zone::retention() const { return state_->store->retention(); }

Result<void> Zone::set_retention(const Retention& ages) {
  constexpr Duration kLongest = std::chrono::hours{24 * 365 * 100};
  for (const Duration age : {ages.bodies, ages.records, ages.ids})
    if (age < Duration{0} || age > kLongest)
      return Error{.code = Code::invalid_input,
                   .message = "a retention must be between 0 and 100 years; nothing was changed"};
  const auto before = state_->store->retention();
  if (!before) return before.error();
  if (ages.records >= before->records) {
    if (auto set = state_->store->set_retention(ages); !set) return set;
    if (auto kept = engine::RunStore(*state_->store, *state_->scheduler).keep_longer(ages.records);
        !kept) {
      Error error = kept.error();
      error.message =
          "the ages are set, but not all runs of workflows that ended are kept for longer: " +
          error.message + "; the same call again goes on";
      return error;
    }
    return {};
  }
  if (auto ok = state_->outlives_keys(ages); !ok) return ok;
  if (auto set = state_->store->set_retention(ages); !set) return set;
  // Another process may have added a workflow meanwhile. Each of the two processes looks after its
  // write, so at least one of them sees the conflict.
  if (auto ok = state_->outlives_keys(ages); !ok) {
    const auto now = state_->store->retention();
    if (!now) return now.error();
    if (*now != ages) return ok;  // another caller has changed the ages since
    if (auto undone = state_->store->set_retention(*before); !undone) return undone;
    return ok;
  }
  return {};
}

Result<void> detail::ZoneState::outlives_keys(const Retention& ages) const {
  const auto all = engine::RunStore(*store, *scheduler).definitions();
  if (!all) return all.error();
  const auto longest = std::max_element(all->begin(), all->end(), [](const auto& a, const auto& b) {
    return a->key_ttl < b->key_ttl;
  });
  if (longest == all->end() || ages.records >= (*longest)->key_ttl) return {};
  return Error{.code = Code::invalid_input,
               .message = "workflow '" + (*longest)->name + "' (version " +
                          std::to_string((*longest)->version) + ") has key_ttl " +
                          duration_text((*longest)->key_ttl) + ": with records of " +
                          duration_text(ages.records) +
                          " a key would be forgotten before its time, and a second run let in; "
                          "nothing was changed"};
}

Result<Retired> Zone::retire() {
  return engine::Housekeeper::retire(*state_->store, [] { return false; });
}

Result<std::string> key_from(std::string_view key_template, const Task& task) {
  auto parsed = encoding::KeyTemplate::parse(key_template, {}, {.format = KeyFormat::escaped});
  if (!parsed) return parsed.error();
  return parsed->key(task.id, task.topic, task.body, task.headers);
}

Result<void> detail::ZoneState::not_own(std::string_view queue, std::string_view instead) {
  if (!core::own_queue(queue)) return {};
  return Error{
      .code = Code::invalid_input,
      .message = "queue '" + std::string(queue) + "' belongs to workflows; " + std::string(instead),
      .reason = Reason::queue_belongs_to_flows,
      .facts = {{"queue", std::string(queue)}}};
}

Result<Queue> detail::ZoneState::queue(std::string_view name) const {
  auto queues = store->queues();
  if (!queues) return queues.error();
  for (Queue& queue : *queues)
    if (queue.name == name) return std::move(queue);
  return Error{.code = Code::not_found,
               .message = "there is no queue '" + std::string(name) + "'",
               .reason = Reason::no_queue,
               .facts = {{"queue", std::string(name)}}};
}

}  // namespace once::inline v1
