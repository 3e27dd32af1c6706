// What people see of a zone: status, list, inspect, log, wait.
#include "once/view.h"

#include <algorithm>

#include "api/zone_state.h"
#include "codec/digest.h"
#include "codec/key_template.h"
#include "codec/step_headers.h"
#include "core/names.h"
#include "work/task_row.h"

namespace once::inline v1 {
namespace {

constexpr std::size_t kRowPage = 200;

LogEntry log_entry(store::Entry entry) {
  return {.sequence = entry.sequence.value,
          .id = std::move(entry.id),
          .topic = std::move(entry.topic),
          .body = std::move(entry.body),
          .headers = std::move(entry.headers),
          .published_at = entry.published_at,
          .digest = encoding::text(entry.digest),
          .not_before = entry.delay > Duration{0} ? std::optional(entry.published_at + entry.delay)
                                                  : std::nullopt,
          .expires = entry.lives ? std::optional(entry.published_at + *entry.lives) : std::nullopt};
}

NextView next_of_dead(const store::Row& row) {
  if (row.own) return {.kind = NextView::Kind::dead_for_good};
  if (auto step = encoding::read_step(row.entry.headers, row.queue))
    return {.kind = NextView::Kind::dead_step, .run = std::move(step->run)};
  return {.kind = NextView::Kind::dead};
}

NextView next_of_running(const store::Stored& stored, core::StoreTime now) {
  if (stored.holder_gone) return {.kind = NextView::Kind::worker_gone};
  if (stored.record.cancel_asked) return {.kind = NextView::Kind::stops};
  const Duration left = stored.stamp + stored.record.lease - now;
  if (left <= Duration{0}) return {.kind = NextView::Kind::lease_expired};
  if (stored.record.offer)
    return {.kind = NextView::Kind::offered, .in = left, .by = stored.record.offer->worker};
  return {.kind = NextView::Kind::runs, .in = left};
}

NextView next_of(const store::Row& row, core::StoreTime now) {
  using Kind = NextView::Kind;
  switch (store::state_of(row, now)) {
    case State::scheduled:
      return {.kind = Kind::starts, .in = std::max(row.entry.not_before() - now, Duration{0})};
    case State::waiting:
      if (row.order) return {.kind = Kind::obeys, .by = row.order->by};
      return {.kind = Kind::waits};
    case State::running: return next_of_running(*row.stored, now);
    case State::retrying: {
      const Duration left = row.stored->stamp + row.stored->record.delay - now;
      if (left <= Duration{0}) return {.kind = Kind::retry_due};
      return {.kind = Kind::retries, .in = left};
    }
    case State::in_doubt:
      for (const core::Step& step : row.stored->record.steps)
        if (core::cut_off(row.stored->record, step))
          return {.kind = Kind::held_by_step, .step = step.name};
      return {.kind = Kind::held};
    case State::completed: return {.kind = Kind::completed};
    case State::dead: return next_of_dead(row);
    case State::cancelled: return {.kind = Kind::cancelled};
    case State::duplicate: return {.kind = Kind::duplicate};
  }
  return {};
}

QueueView queue_view(const store::Row& row, core::StoreTime now) {
  QueueView view{.queue = row.queue,
                 .key = row.key,
                 .state = store::state_of(row, now),
                 .next = next_of(row, now)};
  if (!row.stored) return view;
  const core::Record& record = row.stored->record;
  view.reason = record.reason;
  view.claims = record.claims;
  view.error = record.error;
  view.result = record.result;
  view.result_cut = record.result_cut;
  view.attempts_dropped = record.claims - record.attempts.size();
  for (const core::Attempt& attempt : record.attempts) {
    view.attempts.push_back(
        {.attempt = static_cast<int>(attempt.number),
         .worker = attempt.worker,
         .token = attempt.token ? attempt.token.value : row.stored->revision.value,
         .started_at = attempt.started_at,
         .ended_at = attempt.ended_at,
         .outcome = attempt.ending,
         .in_doubt = core::without_verdict(attempt.ending),
         .error = attempt.error,
         .log = attempt.log});
  }
  for (const core::Step& step : record.steps) view.steps.push_back(core::step_view(record, step));
  view.actions_dropped = record.actions - record.story.size();
  for (const core::OperatorAction& action : record.story)
    view.story.push_back({.kind = action.act,
                          .at = action.at,
                          .by = action.by,
                          .why = action.why,
                          .step = action.step});
  if (row.order && view.state == State::waiting)
    view.story.push_back({.kind = row.order->kind == core::Order::Kind::retry
                                      ? ActionView::Kind::retry_asked
                                      : ActionView::Kind::step_completion_asked,
                          .at = row.order->at,
                          .by = row.order->by,
                          .why = row.order->why,
                          .step = row.order->step});
  return view;
}

ListItem list_item(const store::Row& row, core::StoreTime now) {
  ListItem item{.id = row.entry.id.empty() ? row.key : row.entry.id,
                .queue = row.queue,
                .key = row.key,
                .sequence = row.entry.sequence.value,
                .topic = row.entry.topic,
                .state = store::state_of(row, now),
                .since = row.entry.published_at};
  if (!row.stored) return item;
  const core::Record& record = row.stored->record;
  item.attempts = static_cast<int>(record.claims);
  // Of a dead one the last error says more than why it is dead; of others the reason does.
  const bool error_first = item.state == State::dead || record.reason.empty();
  item.error = error_first && !record.error.empty() ? record.error : record.reason;
  item.since = record.since;
  return item;
}

bool passes(const ListFilter& filter, const store::Row& row, const ListItem& item) {
  if (filter.until && item.since > *filter.until) return false;
  if (filter.error.empty()) return true;
  const auto has = [&](const std::string& text) { return text.find(filter.error) != text.npos; };
  return row.stored && (has(row.stored->record.error) || has(row.stored->record.reason));
}

// "dead: no attempts are left: exit 3"; a reason that names the state says it once.
std::string end_of(const core::Record& record) {
  std::string text(to_string(record.state));
  if (record.reason.starts_with(text))
    text = record.reason;
  else if (!record.reason.empty())
    text += ": " + record.reason;
  return record.error.empty() ? text : text + ": " + record.error;
}

Error unknown_id(std::string_view id) {
  return {.code = Code::not_found, .message = "no task has the id '" + std::string(id) + "'"};
}

// The task that Tasks::wait() waits for.
struct WaitedTask {
  std::optional<store::Entry> entry{};
  std::optional<core::Sequence> outside{};  // on a stream of others'
};

Result<WaitedTask> waited_task(const detail::ZoneState& zone, std::string_view id,
                               const Queue& queue) {
  if (queue.stream.empty()) {
    auto entry = zone.store->find(id);
    if (!entry) return entry.error();
    if (!*entry) return unknown_id(id);
    return WaitedTask{.entry = std::move(*entry)};
  }
  const auto row = zone.foreign_row(id, queue, true);
  if (!row) return row.error();
  if (!*row) return unknown_id(id);
  return WaitedTask{.outside = (*row)->entry.sequence};
}

Error no_row(const WaitedTask& task, std::string_view id, std::string_view queue) {
  return {.code = Code::not_found,
          .message = task.entry && task.entry->body
                         ? "queue '" + std::string(queue) + "' does not take the task '" +
                               std::string(id) + "'"
                         : "the task '" + std::string(id) +
                               "' was settled long ago, and its record in queue '" +
                               std::string(queue) + "' is forgotten, if it had one"};
}

Error incomplete_result(std::string_view id, std::string_view queue) {
  return {.code = Code::too_large,
          .message = "task '" + std::string(id) + "' is completed in queue '" + std::string(queue) +
                     "', but its result is not whole: an older Once kept only the first "
                     "MiB of it, or a part cannot be read",
          .reason = Reason::result_incomplete,
          .facts = {{"task", std::string(id)}, {"queue", std::string(queue)}}};
}

Error still_open(State state, std::string_view id, std::string_view queue) {
  return {.code = Code::timed_out,
          .message = "task '" + std::string(id) + "' is still " + std::string(to_string(state)) +
                     " in queue '" + std::string(queue) + "'; waiting again is safe",
          .retryable = true};
}

// Of a task that is settled.
Result<Outcome> outcome_of(const core::Record& record, State state, std::string_view id,
                           std::string_view queue) {
  if (state == State::in_doubt) return Outcome::unknown(record.reason);
  if (state != State::completed) return Outcome::dead(end_of(record));
  if (record.result_cut) return incomplete_result(id, queue);
  return Outcome::completed(record.result.value_or(Body{}));
}

}  // namespace

Result<std::optional<store::Row>> detail::ZoneState::foreign_row(std::string_view name,
                                                                 const Queue& queue,
                                                                 bool unclaimed) const {
  if (const auto sequence = core::sequence_in(queue.stream, name))
    return engine::row_at(*store, core::Sequence{*sequence}, queue);
  const auto key = encoding::KeyTemplate::of(queue);
  if (!key) return key.error();
  std::vector<std::string> keys{std::string(name)};
  if (auto made = key->key_of(name); made && *made != name) keys.push_back(std::move(*made));
  for (const std::string& each : keys) {
    const store::Address at{.queue = queue.name, .key = each};
    auto stored = std::move(store->get(std::span(&at, 1)).front());
    if (!stored) return stored.error();
    if (*stored) return engine::row_at(*store, (*stored)->record.sequence, queue);
  }
  std::optional<store::Row> last;
  while (unclaimed) {
    auto page = store->rows({.queue = queue.name}, last ? &*last : nullptr, kRowPage);
    if (!page) return page.error();
    for (store::Row& row : page->rows)
      if (std::find(keys.begin(), keys.end(), row.key) != keys.end())
        return std::optional(std::move(row));
    if (!page->more || page->rows.empty()) break;
    last = std::move(page->rows.back());
  }
  return std::optional<store::Row>{};
}

Result<Status> Zone::status() const {
  Status status;
  auto queues = state_->store->queues();
  if (!queues) return queues.error();
  for (Queue& queue : *queues) {
    auto counts = state_->store->counts(queue.name);
    if (!counts) return counts.error();
    status.queues.push_back({.queue = std::move(queue),
                             .tasks = std::move(counts->tasks),
                             .workers = counts->workers,
                             .oldest_waiting = counts->oldest_waiting,
                             .oldest_in_doubt = counts->oldest_in_doubt});
  }
  auto unrouted = state_->store->unrouted();
  if (!unrouted) return unrouted.error();
  status.unrouted = *unrouted;
  return status;
}

Result<void> detail::ZoneState::list(const ListFilter& filter, const std::string& queue,
                                     std::optional<store::Row> last,
                                     std::vector<ListItem>& items) const {
  const store::RowFilter wanted{.queue = queue,
                                .state = filter.state,
                                .topic = filter.topic,
                                .since = filter.since,
                                .lean = true};
  while (items.size() < filter.limit) {
    auto page = store->rows(wanted, last ? &*last : nullptr,
                            std::min(kRowPage, filter.limit - items.size()));
    if (!page) return page.error();
    const core::StoreTime now = store->now();
    for (const store::Row& row : page->rows) {
      ListItem item = list_item(row, now);
      if (passes(filter, row, item)) items.push_back(std::move(item));
    }
    if (!page->more || page->rows.empty()) break;
    last = std::move(page->rows.back());
  }
  return {};
}

Tasks::Tasks(std::shared_ptr<detail::ZoneState> state) : state_(std::move(state)) {}

Result<std::vector<ListItem>> Tasks::list(const ListFilter& filter, const ListItem* after) const {
  if (!filter.queue.empty())
    if (auto queue = state_->queue(filter.queue); !queue) return queue.error();
  if (!filter.topic.empty())
    if (auto ok = core::check_filter(filter.topic); !ok) return ok.error();
  const auto queues = state_->store->queues();
  if (!queues) return queues.error();
  std::vector<ListItem> items;
  for (const Queue& queue : *queues) {
    if (!filter.queue.empty() && queue.name != filter.queue) continue;
    if (after && queue.name < after->queue) continue;
    std::optional<store::Row> last;
    if (after && queue.name == after->queue)
      last = store::Row{
          .entry = {.sequence = {after->sequence}}, .queue = after->queue, .key = after->key};
    auto listed = state_->list(filter, queue.name, std::move(last), items);
    if (!listed) return listed.error();
  }
  return items;
}

// A key of ledger-only queues; empty when none of them knows it.
Result<std::vector<QueueView>> detail::ZoneState::ledger_views(
    std::string_view key, std::span<const Queue> queues) const {
  std::vector<QueueView> views;
  for (const Queue& queue : queues) {
    if (!queue.ledger) continue;
    const store::Address at{.queue = queue.name, .key = std::string(key)};
    auto stored = std::move(store->get(std::span(&at, 1)).front());
    if (!stored) return stored.error();
    if (*stored)
      views.push_back(queue_view({.queue = queue.name, .key = at.key, .stored = std::move(*stored)},
                                 store->now()));
  }
  return views;
}

Result<TaskView> Tasks::inspect(std::string_view id) const {
  auto found = state_->store->find(id);
  if (!found) return found.error();
  TaskView view;
  auto queues = state_->store->queues();
  if (!queues) return queues.error();
  auto ledgers = state_->ledger_views(id, *queues);
  if (!ledgers) return ledgers.error();
  view.queues = std::move(*ledgers);
  for (const Queue& queue : *queues) {
    if (queue.stream.empty()) continue;
    auto row = state_->foreign_row(id, queue, !*found && view.queues.empty());
    if (!row) return row.error();
    if (!*row) continue;
    view.queues.push_back(queue_view(**row, state_->store->now()));
    auto whole = state_->store->entry(queue.name, (*row)->entry.sequence);
    if (!whole) return whole.error();
    view.entry = log_entry(*whole ? std::move(**whole) : std::move((*row)->entry));
  }
  if (!*found) {
    if (view.queues.empty()) return unknown_id(id);
    if (view.entry.id.empty()) view.entry.id = id;
    return view;
  }
  view.duplicates = (*found)->duplicates;
  for (const Queue& queue : *queues) {
    auto row = engine::row_of(*state_->store, **found, queue);
    if (!row) return row.error();
    if (*row) view.queues.push_back(queue_view(**row, state_->store->now()));
  }
  view.entry = log_entry(std::move(**found));
  return view;
}

Result<std::vector<LogEntry>> Tasks::log(std::uint64_t after, std::size_t limit,
                                         std::string_view topic) const {
  if (!topic.empty())
    if (auto ok = core::check_filter(topic); !ok) return ok.error();
  std::vector<LogEntry> out;
  while (out.size() < limit) {
    auto page = state_->store->read(core::Sequence{after}, limit - out.size(), topic);
    if (!page) return page.error();
    if (page->empty()) break;
    after = page->back().sequence.value;
    for (store::Entry& entry : *page) out.push_back(log_entry(std::move(entry)));
  }
  return out;
}

Result<Outcome> Tasks::wait(std::string_view id, std::string_view queue, Duration limit) const {
  auto definition = state_->queue(queue);
  if (!definition) return definition.error();
  const auto task = waited_task(*state_, id, *definition);
  if (!task) return task.error();

  engine::Scheduler& scheduler = *state_->scheduler;
  const auto mutex = scheduler.mutex();
  const auto condition = mutex->condition();
  constexpr Duration kLongest = std::chrono::hours{24 * 365};
  const engine::Moment deadline = scheduler.now() + std::clamp(limit, Duration{0}, kLongest);
  Duration look{2};
  Result<std::optional<store::Row>> row = std::optional<store::Row>();
  while (true) {
    // The row before is held until then: its large values are not read again.
    row = task->outside ? engine::row_at(*state_->store, *task->outside, *definition)
                        : engine::row_of(*state_->store, *task->entry, *definition);
    if (!row) return row.error();
    if (!*row) return no_row(*task, id, queue);
    const State state = store::state_of(**row, state_->store->now());
    if (core::settled(state)) return outcome_of((*row)->stored->record, state, id, queue);
    const engine::Moment now = scheduler.now();
    if (now >= deadline) return still_open(state, id, queue);
    mutex->lock();
    condition->wait(std::min<engine::Moment>(deadline, now + look));
    mutex->unlock();
    look = std::min(look * 2, Duration{100});
  }
}

}  // namespace once::inline v1
