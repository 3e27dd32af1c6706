#include "store/nats/queues/queue_editor.h"

#include <algorithm>

namespace once::store::nats {
namespace {

constexpr int kEditRounds = 16;  // lost races before a caller is told to come again

Error raced() {
  return {.code = Code::store_unavailable,
          .message =
              "the queue's definition changed too often to be written; the same call again "
              "is safe",
          .retryable = true};
}

// The first number from which on the stream lacks no message.
std::uint64_t whole_from(const encoding::Json& state) {
  const bool gaps = number_of(state, "num_deleted").value_or(0) > 0;
  const std::uint64_t first = number_of(state, "first_seq").value_or(0);
  return gaps ? number_of(state, "last_seq").value_or(0) + 1 : std::max<std::uint64_t>(first, 1);
}

}  // namespace

Result<Queues::QueueAdded> QueueEditor::add(const Queue& queue) {
  KnownQueue wanted{.definition = queue, .generation = random_generation()};
  if (wanted.foreign()) {
    const auto source = foreign_.describe(queue);
    if (!source) return source.error();
    wanted.stream_made = text_of(*source, "created");
    if (const encoding::Json* state = source->member("state"))
      wanted.stream_whole = whole_from(*state);
  }
  for (int round = 0; round < kEditRounds; ++round) {
    auto there = registry_.known(queue.name);
    if (!there) return there.error();
    if (*there && (*there)->generation != wanted.generation) {
      if (auto restored = consumers_.restore(**there); !restored) return restored.error();
      return Queues::QueueAdded{.existing = std::move((*there)->definition)};
    }
    if (!*there) {
      // A queue that is added to a purged zone would run tasks again that are completed.
      if (auto same = watch_.has_its_uuid(); !same) return same.error();
      const PublishResult written = registry_.write(wanted);
      if (written.kind == PublishResult::Kind::failed) return failure_of(written);
      if (written.kind != PublishResult::Kind::stored) continue;  // lost, or unknown: look
    }
    auto found = consumers_.make(wanted);
    // What the server will never have so is not left half made.
    if (!found && !found.error().retryable)
      if (auto undone = undo_add(wanted); !undone) return undone.error();
    if (!found) return found.error();
    return Queues::QueueAdded{.added = true, .existing = queue, .found = *found};
  }
  return raced();
}

Result<void> QueueEditor::undo_add(const KnownQueue& queue) {
  const auto there = registry_.known(queue.definition.name);
  if (!there) return there.error();
  if (*there && (*there)->generation == queue.generation)
    if (const auto removed = registry_.remove(**there); !removed) return removed.error();
  return clear(queue);
}

// The consumers of a queue whose stream is gone are gone with it. Most changes are not about consumers.
Result<void> QueueEditor::restore(const KnownQueue& queue, const Queue& expected) {
  const Queue& wanted = queue.definition;
  const auto has_source = queue.foreign() ? foreign_.is_the_same(queue) : Result<bool>(true);
  if (has_source && !*has_source) return {};
  const auto restored = has_source ? consumers_.restore(queue) : has_source.error();
  if (restored || (wanted != expected && wanted.lease == expected.lease)) return {};
  Error error = restored.error();
  error.message = "the definition of queue '" + wanted.name +
                  "' is stored, but its consumers are not all as it says: " + error.message +
                  ". The same command again finishes this, and so does a worker that starts";
  return error;
}

Result<bool> QueueEditor::set(const Queue& queue, const Queue& expected) {
  for (int round = 0; round < kEditRounds; ++round) {
    auto there = registry_.must_know(queue.name);
    if (!there) return there.error();
    if (there->definition != expected) return false;
    if (queue != expected) {
      there->definition = queue;
      const PublishResult written = registry_.write(*there);
      if (written.kind == PublishResult::Kind::failed ||
          written.kind == PublishResult::Kind::unknown)
        return failure_of(written);
      if (written.kind != PublishResult::Kind::stored) continue;
    }
    if (auto restored = restore(*there, expected); !restored) return restored.error();
    return true;
  }
  return raced();
}

// With its definition the queue is gone. What is left then belongs to nobody.
Result<void> QueueEditor::remove(std::string_view name) {
  for (int round = 0; round < kEditRounds; ++round) {
    const auto there = registry_.must_know(name);
    if (!there) return there.error();
    const auto removed = registry_.remove(*there);
    if (!removed) return removed.error();
    if (!*removed) continue;
    if (auto cleared = clear(*there); !cleared) return cleared.error();
    // The server itself does not report a deletion.
    zone_.mux->tell("once-news." + zone_.subjects.zone + ".removed");
    return {};
  }
  return raced();
}

Result<void> QueueEditor::clear(const KnownQueue& queue) {
  const Subjects& subjects = zone_.subjects;
  if (auto gone = consumers_.remove(queue); !gone) return gone;
  for (const auto& [stream, filter] :
       {std::pair{subjects.ledger_stream(), subjects.records(queue)},
        std::pair{subjects.blob_stream(), subjects.chunks(queue)},
        std::pair{subjects.wake_stream(), subjects.wakes(queue)},
        std::pair{subjects.meta_stream(), subjects.past_root(queue) + "*"},
        std::pair{subjects.meta_stream(), subjects.worker_root(queue) + "*"}})
    if (auto cleared = zone_.client.purge(stream, filter); !cleared) return cleared.error();
  if (!queue.foreign()) return {};
  return zone_.client.purge(subjects.copy_stream(), subjects.copy_root(queue) + ">");
}

}  // namespace once::store::nats
