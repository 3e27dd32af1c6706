#include "store/nats/ledger/record_ledger.h"

#include <optional>
#include <set>

namespace once::store::nats {
namespace {

Error too_large(const Swap& item, std::size_t size, std::size_t most) {
  return {.code = Code::too_large,
          .message = "the record of '" + item.at.key + "' has " + std::to_string(size) +
                     " bytes without its results; this NATS server takes at most " +
                     std::to_string(most) +
                     " (max_payload); nothing was recorded: raise max_payload"};
}

Error no_such_task(const Swap& item) {
  return {.code = Code::not_found,
          .message = "there is no task '" + item.at.key + "' in the log: nothing was recorded"};
}

}  // namespace

// The steps are in the order of run(). Each leaves out the items that it has answered.
class RecordLedger::Call {
 public:
  Call(RecordLedger& ledger, std::span<const Swap> items)
      : ledger_(ledger), zone_(ledger.zone_), items_(items), answers_(items.size()) {}

  std::vector<Result<SwapResult>> run(Definitions definitions) {
    find_places();
    prepare();
    write(definitions);
    take_back();
    answer_deliveries();
    read_refused();
    std::vector<Result<SwapResult>> result;
    result.reserve(answers_.size());
    for (auto& each : answers_) result.push_back(std::move(*each));
    return result;
  }

 private:
  const Result<KnownQueue>& queue_of(const Swap& item) {
    const std::string& name = item.at.queue;
    const auto known = queues_.find(name);
    return known != queues_.end()
               ? known->second
               : queues_.emplace(name, ledger_.registry_.recall(name)).first->second;
  }
  Result<std::string> other_place(const Swap& item);
  Result<Outgoing> message_for(RecordWrite& write);
  void find_places();
  void prepare();
  void write(Definitions definitions);
  std::set<std::string_view> removed_queues(
      std::span<const std::string> names,
      std::span<const Result<std::optional<StreamMessage>>> definitions);
  void was_written(const Outgoing& message, RecordWrite write, Revision revision);
  void take_back();
  void answer_deliveries();
  void read_refused();

  RecordLedger& ledger_;
  ZoneConnection& zone_;
  const std::span<const Swap> items_;
  std::vector<std::optional<Result<SwapResult>>> answers_;
  std::map<std::string, Result<KnownQueue>> queues_;
  std::vector<RecordWrite> open_;   // to be written
  std::vector<Outgoing> messages_;  // the messages of open_
  StoreTime before_{};              // the server stamps the writes at this time or shortly after
  std::vector<RecordWrite> written_;
  std::vector<std::size_t> refused_;
  std::vector<std::string> refused_subjects_;
};

Result<std::string> RecordLedger::Call::other_place(const Swap& item) {
  const auto& queue = queue_of(item);
  if (!queue) return queue.error();
  const auto has_entry = ledger_.places_.has_entry(*queue, item);
  if (!has_entry) return has_entry.error();
  if (!*has_entry) return no_such_task(item);
  return ledger_.places_.other_place(*queue, item);
}

void RecordLedger::Call::find_places() {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    auto other = other_place(items_[i]);
    if (other)
      open_.push_back({.item = &items_[i], .index = i, .other = std::move(*other)});
    else
      answers_[i] = other.error();
  }
}

Result<Outgoing> RecordLedger::Call::message_for(RecordWrite& write) {
  const Swap& item = *write.item;
  const KnownQueue& queue = *queue_of(item);
  const std::size_t most = zone_.mux->max_payload();
  const std::string subject = zone_.subjects.record(queue, item.at);
  PackedRecord packed = pack(item.record, most);
  write.moved = packed.moved;
  Outgoing message = record_message(subject, item.at, std::move(packed), item.expected);
  zone_.clock.stamp(message.headers);
  if (auto noted = ledger_.foreign_.prepare(queue, item, message); !noted) return noted.error();
  if (const std::size_t size = size_of(message); size > most) return too_large(item, size, most);
  const auto stored = ledger_.values_.store(subject, item.record, item.expected, write.moved);
  if (!stored) return stored.error();
  return message;
}

void RecordLedger::Call::prepare() {
  const auto standing = ledger_.places_.stand_elsewhere(open_);
  before_ = zone_.now();
  std::vector<RecordWrite> prepared;
  for (std::size_t k = 0; k < open_.size(); ++k) {
    RecordWrite& each = open_[k];
    if (!standing[k] || *standing[k]) {
      answers_[each.index] =
          standing[k] ? stands_elsewhere(each.item->record.sequence) : standing[k].error();
      continue;
    }
    auto message = message_for(each);
    if (!message) {
      answers_[each.index] = message.error();
      continue;
    }
    messages_.push_back(std::move(*message));
    prepared.push_back(std::move(each));
  }
  open_ = std::move(prepared);
}

// Returns the queues that were removed. A record for such a queue has the old generation in its
// subject, so no reader finds it.
std::set<std::string_view> RecordLedger::Call::removed_queues(
    std::span<const std::string> names,
    std::span<const Result<std::optional<StreamMessage>>> definitions) {
  std::set<std::string_view> removed;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto queue = known_from(definitions[i]);
    if (!queue) continue;
    // In a zone that lost its UUID the definition was lost and not removed: the record counts.
    if (!*queue && !ledger_.watch_.has_its_uuid()) continue;
    ledger_.registry_.remember(names[i], *queue);
    if (!*queue || (*queue)->generation != queues_.at(names[i])->generation)
      removed.insert(names[i]);
  }
  return removed;
}

void RecordLedger::Call::write(Definitions definitions_are) {
  std::vector<std::string> names;
  std::vector<std::string> definitions;
  for (const auto& [name, queue] : queues_) {
    if (!queue || definitions_are == Definitions::known) continue;
    names.push_back(name);
    definitions.push_back(zone_.subjects.queue(name));
  }
  const auto [published, read] = ledger_.writer_.write(messages_, definitions);
  const auto removed = removed_queues(names, read);
  for (std::size_t k = 0; k < open_.size(); ++k) {
    RecordWrite& each = open_[k];
    if (removed.contains(each.item->at.queue)) {
      answers_[each.index] = no_queue(each.item->at.queue);
      // No reader finds its large values either. They only use space, so an error does not matter.
      if (!each.moved.empty())
        static_cast<void>(zone_.client.purge(zone_.subjects.blob_stream(),
                                             zone_.subjects.chunks(messages_[k].subject)));
      continue;
    }
    switch (published[k].kind) {
      case PublishResult::Kind::stored:
        was_written(messages_[k], std::move(each), {published[k].sequence});
        break;
      case PublishResult::Kind::refused:
        refused_subjects_.push_back(messages_[k].subject);
        refused_.push_back(each.index);
        break;
      case PublishResult::Kind::failed:
      case PublishResult::Kind::unknown: answers_[each.index] = failure_of(published[k]); break;
    }
  }
}

void RecordLedger::Call::was_written(const Outgoing& message, RecordWrite write,
                                     Revision revision) {
  const Swap& item = *write.item;
  const KnownQueue& queue = *queue_of(item);
  write.revision = revision;
  ledger_.watch_.note_record(revision.value);
  const bool settled = core::settled(item.record.state) && !item.record.reply_due;
  ledger_.sole_writer_.wrote({.queue = queue.consumer(),
                              .subject = message.subject,
                              .sequence = revision.value,
                              .is_new = !item.expected,
                              .settled = item.at.kind == Address::Kind::lone ||
                                         queue.definition.ledger || queue.foreign() || settled});
  if (!write.moved.empty() || item.expected)
    ledger_.values_.written(message.subject, revision, write.moved);
  encoding::hold_in_use(item.record, write.moved);
  written_.push_back(std::move(write));
}

// The second look of record_places.h. Removes records from the ledger, and from `written_`, whose
// entry has a record in its other place.
void RecordLedger::Call::take_back() {
  const auto standing = ledger_.places_.stand_elsewhere(written_);
  std::vector<RecordWrite> kept;
  for (std::size_t k = 0; k < written_.size(); ++k) {
    RecordWrite& each = written_[k];
    if (standing[k] && !*standing[k]) {
      kept.push_back(std::move(each));
      continue;
    }
    const auto removed =
        standing[k] ? zone_.client.remove(zone_.subjects.ledger_stream(), each.revision.value)
                    : standing[k];
    Error error = removed ? stands_elsewhere(each.item->record.sequence) : removed.error();
    error.in_doubt = !removed;
    answers_[each.index] = std::move(error);
  }
  written_ = std::move(kept);
}

void RecordLedger::Call::answer_deliveries() {
  std::vector<Answering> deliveries;
  for (const RecordWrite& each : written_) {
    const Swap& item = *each.item;
    Stored stored{.record = item.record, .revision = each.revision, .stamp = before_};
    if (!item.handle.empty())
      ledger_.acknowledgements_.answer_swap(*queue_of(item), item, stored, deliveries);
    answers_[each.index] = SwapResult{.written = true, .current = std::move(stored)};
  }
  ledger_.acknowledgements_.send_and_go_on(std::move(deliveries));
}

void RecordLedger::Call::read_refused() {
  auto current = zone_.client.last(zone_.subjects.ledger_stream(), refused_subjects_);
  for (std::size_t k = 0; k < refused_.size(); ++k) {
    if (!current[k]) {
      answers_[refused_[k]] = current[k].error();
      continue;
    }
    Result<std::optional<Stored>> stored = std::optional<Stored>{};
    if (*current[k]) stored = ledger_.values_.whole_record(std::move(**current[k]));
    if (stored)
      answers_[refused_[k]] = SwapResult{.current = std::move(*stored)};
    else
      answers_[refused_[k]] = stored.error();
  }
}

std::vector<Result<SwapResult>> RecordLedger::swap(std::span<const Swap> items,
                                                   Definitions definitions) {
  return Call(*this, items).run(definitions);
}

std::vector<Result<std::optional<Stored>>> RecordLedger::get(std::span<const Address> items) {
  std::map<std::string, Result<KnownQueue>> queues;
  std::vector<std::string> subjects;
  std::vector<std::optional<Error>> errors(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string& name = items[i].queue;
    auto known = queues.find(name);
    if (known == queues.end()) known = queues.emplace(name, registry_.must_know(name)).first;
    if (known->second)
      subjects.push_back(zone_.subjects.record(*known->second, items[i]));
    else
      errors[i] = known->second.error();
  }
  auto messages = zone_.client.last(zone_.subjects.ledger_stream(), subjects);
  std::vector<Result<std::optional<Stored>>> answers;
  answers.reserve(items.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (errors[i]) {
      answers.emplace_back(*errors[i]);
      continue;
    }
    auto& found = messages[next++];
    if (!found)
      answers.emplace_back(found.error());
    else if (!*found)
      answers.emplace_back(std::optional<Stored>{});
    else
      answers.push_back(values_.whole_record(std::move(**found)));
  }
  return answers;
}

}  // namespace once::store::nats
