#include "engine/task_row.h"

#include "core/names.h"
#include "encoding/step_headers.h"

namespace once::engine {

bool takes(const Queue& queue, std::string_view topic) {
  return !queue.ledger && queue.stream.empty() && core::matches(queue.topic, topic);
}

Result<std::optional<store::Row>> row_at(store::Store& store, core::Sequence sequence,
                                         const Queue& queue) {
  store::Row before;
  before.entry.sequence = {sequence.value - 1};
  before.queue = queue.name;
  auto page = store.rows({.queue = queue.name, .up_to = sequence}, &before, 1);
  if (!page) return page.error();
  if (page->rows.empty() || page->rows.front().entry.sequence != sequence)
    return std::optional<store::Row>{};
  return std::optional(std::move(page->rows.front()));
}

Result<std::optional<store::Row>> row_of(store::Store& store, const store::Entry& entry,
                                         const Queue& queue) {
  if (!takes(queue, entry.topic) || entry.sequence.value < queue.from.value_or(0))
    return std::optional<store::Row>{};
  auto row = row_at(store, entry.sequence, queue);
  if (row && *row) (*row)->entry.headers = entry.headers;
  return row;
}

store::Address address_of(const store::Row& row) {
  return {.kind = row.own ? store::Address::Kind::entry : store::Address::Kind::task,
          .queue = row.queue,
          .key = row.key,
          .sequence = row.entry.sequence};
}

namespace {

core::Nonce new_nonce(Scheduler& scheduler) {
  core::Nonce nonce;
  scheduler.random_bytes(nonce.bytes.data(), nonce.bytes.size());
  return nonce;
}

}  // namespace

Result<Written> drop(store::Store& store, Scheduler& scheduler, const Queue& queue,
                     const store::Row& row, const std::string& by, const std::string& why) {
  Scribe scribe(store, core::policy_of(queue));
  return scribe.write({.at = address_of(row),
                       .known = row.stored,
                       .command = core::Drop{.nonce = new_nonce(scheduler), .by = by, .why = why}});
}

Result<Written> cancel(store::Store& store, Scheduler& scheduler, const Queue& queue,
                       const store::Row& row, const std::string& by, const std::string& why) {
  store::Address at = address_of(row);
  if (!row.stored && !queue.key.empty()) at.kind = store::Address::Kind::entry;
  core::Cancel command{.sequence = row.entry.sequence,
                       .digest = row.entry.digest,
                       .nonce = new_nonce(scheduler),
                       .by = by,
                       .why = why};
  command.order = row.order;
  if (queue.stream.empty())
    if (const auto step = encoding::read_step(row.entry.headers, queue.name))
      command.reply = encoding::reply_to(*step);
  Scribe scribe(store, core::policy_of(queue));
  return scribe.write({.at = std::move(at), .known = row.stored, .command = std::move(command)});
}

}  // namespace once::engine
