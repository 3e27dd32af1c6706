// The public face of a zone: publishing, queues, retention.
#include "once/zone.h"

#include <algorithm>

#include "api/open_store.h"
#include "api/queue_mismatch.h"
#include "api/zone_impl.h"
#include "codec/key_template.h"
#include "core/names.h"
#include "flow/run_store.h"
#include "work/housekeeper.h"

namespace once::inline v1 {
namespace {

Error and_nothing(Error error, std::string_view done) {
  error.message += "; nothing was " + std::string(done);
  return error;
}

}  // namespace

Zone::Zone(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Zone::Zone(Zone&&) noexcept = default;
Zone& Zone::operator=(Zone&&) noexcept = default;
Zone::~Zone() = default;

Result<Zone> Zone::open(std::string_view url, OpenOptions options) {
  auto store = api::open_store(url, options);
  if (!store) return store.error();
  return Zone(std::make_shared<Impl>(std::move(*store)));
}

std::string Zone::uuid() const { return impl_->store->uuid(); }

Result<std::uint64_t> Zone::add(const Queue& queue) {
  if (auto ok = core::check_queue(queue); !ok) return and_nothing(ok.error(), "added");
  if (auto ok = Impl::not_own(queue.name, "nothing was added; give the queue another name"); !ok)
    return ok.error();
  if (auto key = encoding::KeyTemplate::of(queue); !key) return and_nothing(key.error(), "added");
  auto added = impl_->store->add_queue(queue);
  if (!added) return added.error();
  if (added->added) return added->found;
  // A queue of version 0.1 keeps the format of its keys.
  if (queue.key_format == KeyFormat::plain) added->existing.key_format = KeyFormat::plain;
  if (auto differs = api::queue_mismatch(added->existing, queue)) return *differs;
  return std::uint64_t{0};
}

Result<std::vector<Queue>> Zone::queues() const { return impl_->store->queues(); }

Result<void> Zone::remove_queue(std::string_view name, bool force) {
  if (auto ok = Impl::not_own(name, "nothing was removed: runs go on from what it holds"); !ok)
    return ok;
  if (auto queue = impl_->queue(name); !queue) return queue.error();
  if (!force) {
    auto counts = impl_->store->counts(name);
    if (!counts) return counts.error();
    std::uint64_t unsettled = 0;
    for (const auto& [state, count] : counts->tasks)
      if (!core::settled(state) || state == State::in_doubt || state == State::dead)
        unsettled += count;
    if (unsettled > 0)
      return Error{.code = Code::invalid_input,
                   .message = "queue '" + std::string(name) + "' has " + std::to_string(unsettled) +
                              (unsettled == 1 ? " task that is" : " tasks that are") +
                              " unfinished, dead or in doubt; nothing was removed. See 'once list "
                              "--queue " +
                              std::string(name) +
                              "': let a worker finish them, decide about the others with 'once "
                              "dead' and 'once doubt', or remove the queue with --force."};
  }
  return impl_->store->remove_queue(name);
}

Result<Receipt> Zone::publish(Task task) {
  std::vector<Task> one;
  one.push_back(std::move(task));
  return std::move(impl_->publisher.publish(std::move(one)).front());
}

std::vector<Result<Receipt>> Zone::publish_batch(std::vector<Task> tasks) {
  return impl_->publisher.publish(std::move(tasks));
}

PublisherMetrics Zone::metrics() const { return impl_->publisher.metrics(); }

Result<Retention> Zone::retention() const { return impl_->store->retention(); }

Result<void> Zone::set_retention(const Retention& ages) {
  constexpr Duration kLongest = std::chrono::hours{24 * 365 * 100};
  for (const Duration age : {ages.bodies, ages.records, ages.ids})
    if (age < Duration{0} || age > kLongest)
      return Error{.code = Code::invalid_input,
                   .message = "a retention must be between 0 and 100 years; nothing was changed"};
  const auto before = impl_->store->retention();
  if (!before) return before.error();
  if (ages.records >= before->records) return impl_->store->set_retention(ages);
  if (auto ok = impl_->outlives_keys(ages); !ok) return ok;
  if (auto set = impl_->store->set_retention(ages); !set) return set;
  // A workflow may have been added meanwhile. Of the two who write, at least one sees the other.
  if (auto ok = impl_->outlives_keys(ages); !ok) {
    const auto now = impl_->store->retention();
    if (!now) return now.error();
    if (*now != ages) return ok;  // somebody else has set it since
    if (auto undone = impl_->store->set_retention(*before); !undone) return undone;
    return ok;
  }
  return {};
}

Result<void> Zone::Impl::outlives_keys(const Retention& ages) const {
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
  return engine::Housekeeper::retire(*impl_->store, [] { return false; });
}

Result<std::string> key_from(std::string_view key_template, const Task& task) {
  auto parsed = encoding::KeyTemplate::parse(key_template, {}, {.format = KeyFormat::escaped});
  if (!parsed) return parsed.error();
  return parsed->key(task.id, task.topic, task.body, task.headers);
}

Result<void> Zone::Impl::not_own(std::string_view queue, std::string_view instead) {
  if (!core::own_queue(queue)) return {};
  return Error{.code = Code::invalid_input,
               .message = "queue '" + std::string(queue) + "' belongs to workflows; " +
                          std::string(instead)};
}

Result<Queue> Zone::Impl::queue(std::string_view name) const {
  auto queues = store->queues();
  if (!queues) return queues.error();
  for (Queue& queue : *queues)
    if (queue.name == name) return std::move(queue);
  return Error{.code = Code::not_found,
               .message = "there is no queue '" + std::string(name) +
                          "'; make it with 'once queue add " + std::string(name) +
                          " --topic FILTER'"};
}

}  // namespace once::inline v1
