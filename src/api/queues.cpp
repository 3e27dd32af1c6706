// The public face of queues: adding, changing, pausing and removing them.
#include "once/queues.h"

#include "api/queue_mismatch.h"
#include "api/zone_state.h"
#include "codec/key_template.h"
#include "core/names.h"

namespace once::inline v1 {
namespace {

Error and_nothing(Error error, std::string_view done) {
  error.message += "; nothing was " + std::string(done);
  return error;
}

// Whether content is compared says which values such a key refuses.
Result<void> keeps_keys(const Queue& now, const Queue& next) {
  if (now.same_key == next.same_key || now.key_format == KeyFormat::escaped) return {};
  const auto key = encoding::KeyTemplate::of(now);
  if (!key) return key.error();
  if (key->one_value()) return {};
  return Error{.code = Code::queue_mismatch,
               .message = "the key of queue '" + now.name +
                          "' has several values, so its same-key rule is fixed; nothing was "
                          "changed. A queue of another name can have another rule."};
}

}  // namespace

Queues::Queues(std::shared_ptr<detail::ZoneState> state) : state_(std::move(state)) {}

Result<std::uint64_t> Queues::add(const Queue& queue) {
  if (auto ok = core::check_queue(queue); !ok) return and_nothing(ok.error(), "added");
  if (auto ok =
          detail::ZoneState::not_own(queue.name, "nothing was added; give the queue another name");
      !ok)
    return ok.error();
  if (auto key = encoding::KeyTemplate::of(queue); !key) return and_nothing(key.error(), "added");
  auto added = state_->store->add_queue(queue);
  if (!added) return added.error();
  if (added->added) return added->found;
  // A queue of version 0.1 keeps the format of its keys.
  if (queue.key_format == KeyFormat::plain) added->existing.key_format = KeyFormat::plain;
  if (auto differs = api::queue_mismatch(added->existing, queue)) return *differs;
  return std::uint64_t{0};
}

Result<std::vector<Queue>> Queues::list() const { return state_->store->queues(); }

Result<Queue> Queues::change(std::string_view name, const std::function<void(Queue&)>& edit) {
  while (true) {
    auto now = state_->queue(name);
    if (!now) return now.error();
    Queue next = *now;
    edit(next);
    if (auto ok = core::check_queue(next); next != *now && !ok) {
      Error error = ok.error();
      error.message += "; nothing was changed";
      return error;
    }
    if (now->name != next.name || now->topic != next.topic || now->key != next.key ||
        now->key_format != next.key_format || now->from != next.from ||
        now->stream != next.stream || now->ledger != next.ledger)
      return Error{.code = Code::queue_mismatch,
                   .message = "the topic, key, start and stream of queue '" + now->name +
                              "' are fixed; nothing was changed. A queue of another name can have "
                              "others."};
    if (auto ok = keeps_keys(*now, next); !ok) return ok.error();
    // Also where nothing changes: the store may have to finish a change that was cut off.
    auto written = state_->store->set_queue(next, *now);
    if (!written) return written.error();
    if (*written) return next;
  }
}

Result<Queue> Queues::pause(std::string_view name) {
  return change(name, [](Queue& queue) { queue.paused = true; });
}

Result<Queue> Queues::resume(std::string_view name) {
  return change(name, [](Queue& queue) { queue.paused = false; });
}

Result<void> Queues::remove(std::string_view name, RemoveOptions options) {
  if (auto ok =
          detail::ZoneState::not_own(name, "nothing was removed: runs go on from what it holds");
      !ok)
    return ok;
  if (auto queue = state_->queue(name); !queue) return queue.error();
  if (!options.force) {
    auto counts = state_->store->counts(name);
    if (!counts) return counts.error();
    std::uint64_t unsettled = 0;
    for (const auto& [state, count] : counts->tasks)
      if (!core::settled(state) || state == State::in_doubt || state == State::dead)
        unsettled += count;
    if (unsettled > 0)
      return Error{.code = Code::invalid_input,
                   .message = "queue '" + std::string(name) + "' has " + std::to_string(unsettled) +
                              (unsettled == 1 ? " task that is" : " tasks that are") +
                              " unfinished, dead or in doubt; nothing was removed. Let a worker "
                              "finish the unfinished tasks and decide about the others, or force "
                              "the removal.",
                   .reason = Reason::queue_not_empty,
                   .facts = {{"queue", std::string(name)}, {"tasks", std::to_string(unsettled)}}};
  }
  return state_->store->remove_queue(name);
}

}  // namespace once::inline v1
