// The log: one write per task decides, by a compare-and-swap over everything that the id ever had.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <thread>

#include "core/names.h"
#include "store/nats/store_impl.h"

namespace once::store::nats {
namespace {

using core::AppendVerdict;

constexpr std::size_t kWorthABatch = 4;  // fewer go one by one
constexpr int kRounds = 6;               // of sending what is unknown or met something that is gone
constexpr std::chrono::milliseconds kBetweenRounds{50};

// What an append met: itself, or what was there.
struct AppendOutcome {
  AppendVerdict verdict{};
  Sequence sequence{};
  Digest digest{};
  Nonce nonce{};
  std::string topic{};
};

// once . zone . log|sys|old . id . rest
std::string id_token(std::string_view subject) {
  for (int i = 0; i < 3; ++i) subject.remove_prefix(subject.find('.') + 1);
  return std::string(subject.substr(0, subject.find('.')));
}

bool routed(const std::vector<KnownQueue>& queues, std::string_view topic) {
  return std::any_of(queues.begin(), queues.end(), [&](const KnownQueue& queue) {
    return !queue.definition.ledger && !queue.foreign() &&
           core::matches(queue.definition.topic, topic);
  });
}

Error too_large(std::size_t size, std::size_t most) {
  return {.code = Code::too_large,
          .message = "the task has " + std::to_string(size) +
                     " bytes with its headers; this NATS server takes at most " +
                     std::to_string(most) + " (max_payload); nothing was added"};
}

}  // namespace

std::vector<Result<Appended>> NatsStore::append(std::span<const Append> items) {
  std::vector<Result<Appended>> answers;
  if (items.empty()) return answers;
  if (auto may = zone_->watch.may_begin(); !may) {
    answers.assign(items.size(), may.error());
    return answers;
  }
  answers.reserve(items.size());
  // Of an id that is there more than once the first is sent; the others meet it.
  std::map<std::string_view, std::size_t> firsts;
  std::vector<std::optional<Result<AppendOutcome>>> met(items.size());
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (firsts.try_emplace(items[i].id, i).second) open.push_back(i);

  // Which queues there are is asked in one burst with the first append.
  auto asked_queues = begin_all_known();

  const std::size_t most = zone_->exchange->max_payload();
  const std::size_t singly = zone_->append_batches.singly(open.size());
  Together together;
  if (singly < open.size()) {
    const auto begun = std::chrono::steady_clock::now();
    together =
        append_together(items, {open.begin() + static_cast<std::ptrdiff_t>(singly), open.end()});
    zone_->append_batches.took(true, open.size() - singly,
                               std::chrono::steady_clock::now() - begun);
  }
  // What one round cannot tell about, no later one can say did not happen.
  std::set<std::size_t>& unknown = together.unknown;
  const auto failed = [&](std::size_t i, Error error) {
    if (unknown.contains(i) && !error.in_doubt) error = failure_of({.text = error.message});
    return error;
  };
  std::erase_if(open, [&](std::size_t i) {
    const auto stored = together.stored.find(i);
    if (stored == together.stored.end()) return false;
    met[i] = AppendOutcome{.verdict = AppendVerdict::accepted,
                           .sequence = {stored->second},
                           .digest = items[i].digest,
                           .nonce = items[i].nonce,
                           .topic = items[i].topic};
    return true;
  });
  const auto deadline = std::chrono::steady_clock::now() + 2 * zone_->jet.patience();
  for (int round = 0;
       round < kRounds && !open.empty() && std::chrono::steady_clock::now() < deadline; ++round) {
    if (round > 0) std::this_thread::sleep_for(kBetweenRounds);
    std::vector<Outgoing> messages;
    std::vector<std::size_t> sent;
    for (const std::size_t i : open) {
      Outgoing message = task_message(zone_->subjects, items[i]);
      zone_->clock.stamp(message.headers);
      if (const std::size_t size = size_of(message); size > most) {
        met[i] = too_large(size, most);
        continue;
      }
      messages.push_back(std::move(message));
      sent.push_back(i);
    }
    const auto begun = std::chrono::steady_clock::now();
    const auto published = zone_->jet.publish(messages);
    if (round == 0 && singly > 0)
      zone_->append_batches.took(false, sent.size(), std::chrono::steady_clock::now() - begun);
    open.clear();
    std::vector<std::uint64_t> others;
    for (const Published& each : published)
      if (each.kind == Published::Kind::refused) others.push_back(each.sequence);
    auto in_the_way = zone_->jet.get(zone_->subjects.log_stream(), others);
    auto next = in_the_way.begin();
    for (std::size_t k = 0; k < sent.size(); ++k) {
      const std::size_t i = sent[k];
      const Append& item = items[i];
      switch (published[k].kind) {
        case Published::Kind::stored:
          met[i] = AppendOutcome{.verdict = AppendVerdict::accepted,
                                 .sequence = {published[k].sequence},
                                 .digest = item.digest,
                                 .nonce = item.nonce,
                                 .topic = item.topic};
          break;
        case Published::Kind::refused: {
          auto there = log_entry(std::move(*next++));
          if (!there) {
            met[i] = failed(i, there.error());
          } else if (!*there) {  // retired or forgotten since: send again
            open.push_back(i);
          } else {
            LogEntry& entry = **there;
            met[i] = AppendOutcome{.verdict = core::judge_append(item.nonce, item.digest,
                                                                 entry.nonce, entry.entry.digest),
                                   .sequence = entry.entry.sequence,
                                   .digest = entry.entry.digest,
                                   .nonce = entry.nonce,
                                   .topic = std::move(entry.entry.topic)};
          }
          break;
        }
        case Published::Kind::failed: met[i] = failed(i, failure_of(published[k])); break;
        case Published::Kind::unknown:  // the same message again finds out
          unknown.insert(i);
          met[i] = failure_of(published[k]);
          open.push_back(i);
          break;
      }
    }
  }

  std::map<std::string_view, std::uint64_t> duplicates;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::size_t first = firsts.at(items[i].id);
    if (i != first && met[first] && *met[first]) {
      AppendOutcome repeated = **met[first];
      repeated.verdict =
          core::judge_append(items[i].nonce, items[i].digest, repeated.nonce, repeated.digest);
      met[i] = std::move(repeated);
    } else if (i != first) {
      met[i] = met[first];
    }
    if (met[i] && *met[i] && (*met[i])->verdict == AppendVerdict::duplicate)
      ++duplicates[items[i].id];
  }
  const auto uncounted = count_duplicates(duplicates);

  auto queues = end_all_known(std::move(asked_queues));
  if (!queues)
    queues = end_all_known(begin_all_known());  // the connection may have come back since
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!met[i]) {
      answers.emplace_back(failure_of({}));
    } else if (!*met[i]) {
      answers.emplace_back(met[i]->error());
    } else if (const AppendOutcome& found = **met[i];
               found.verdict == AppendVerdict::duplicate && uncounted.contains(items[i].id)) {
      answers.emplace_back(uncounted.at(items[i].id));
    } else if (!queues) {
      // It is in the log, and whether a queue takes it can't be said: the same append again can.
      answers.emplace_back(failure_of({.text = queues.error().message}));
    } else {
      answers.emplace_back(Appended{.verdict = found.verdict,
                                    .sequence = found.sequence,
                                    .digest = found.digest,
                                    .unrouted = !routed(*queues, found.topic)});
    }
  }
  return answers;
}

// A batch is stored whole or not at all, and one id that is there already refuses it. What was not
// stored, or may have been, is sent by itself after this: that finds out. An id is in one batch at a
// time.
NatsStore::Together NatsStore::append_together(std::span<const Append> items,
                                               std::vector<std::size_t> open) {
  Together together;
  std::vector<std::size_t> mine;
  bool look_first = false;
  {
    const std::lock_guard lock(zone_->mutex);
    look_first = zone_->met_duplicates;
    for (const std::size_t i : open)
      if (zone_->in_batches.insert(items[i].id).second) mine.push_back(i);
  }
  const std::size_t most = zone_->exchange->max_payload();
  bool met = false;
  for (std::size_t first = 0; first < mine.size(); first += JetStreamClient::kMostInBatch) {
    const auto some = std::span(mine).subspan(first);
    const auto these = some.first(std::min(some.size(), JetStreamClient::kMostInBatch));
    std::vector<std::size_t> batch(these.begin(), these.end());
    for (int round = 0; round < 2 && !batch.empty(); ++round) {
      if (look_first || round > 0) {
        std::vector<std::string> filters;
        for (const std::size_t i : batch) filters.push_back(zone_->subjects.all_of(items[i].id));
        const auto there = zone_->jet.last_of_each(zone_->subjects.log_stream(), filters);
        if (!there) break;
        std::set<std::string> ids;
        for (const auto& [subject, kept] : *there) ids.insert(id_token(subject));
        met = met || !ids.empty();
        std::erase_if(batch, [&](std::size_t i) { return ids.contains(token(items[i].id)); });
      }
      std::vector<Outgoing> messages;
      std::erase_if(batch, [&](std::size_t i) {
        Outgoing message = task_message(zone_->subjects, items[i]);
        zone_->clock.stamp(message.headers);
        if (size_of(message) + JetStreamClient::kBatchHeaders > most) return true;
        messages.push_back(std::move(message));
        return false;
      });
      if (batch.size() < kWorthABatch) break;
      const Published published = zone_->jet.publish_together(std::move(messages));
      if (published.kind == Published::Kind::refused) {
        met = true;
        continue;
      }
      if (published.kind == Published::Kind::stored)
        for (std::size_t k = 0; k < batch.size(); ++k)
          together.stored[batch[k]] = published.sequence - batch.size() + 1 + k;
      if (published.kind == Published::Kind::unknown)
        together.unknown.insert(batch.begin(), batch.end());
      break;
    }
  }
  const std::lock_guard lock(zone_->mutex);
  // One whose outcome is unknown may be under way still: its ids go by themselves from now on.
  for (const std::size_t i : mine)
    if (!together.unknown.contains(i)) zone_->in_batches.erase(items[i].id);
  if (!mine.empty()) zone_->met_duplicates = met;
  return together;
}

Result<std::optional<LogEntry>> NatsStore::log_entry(std::uint64_t message) {
  return log_entry(zone_->jet.get(zone_->subjects.log_stream(), message));
}

Result<std::optional<LogEntry>> NatsStore::log_entry(Result<std::optional<StreamMessage>> kept) {
  if (!kept) return kept.error();
  if (!*kept) return std::optional<LogEntry>{};
  auto entry = log_entry_from(**kept, zone_->clock);
  if (!entry) return entry.error();
  return std::optional<LogEntry>(std::move(*entry));
}

Result<std::optional<LogEntry>> NatsStore::entry_at(Sequence sequence) {
  auto whole = log_entry(sequence.value);
  if (!whole) return whole;
  if (*whole && (*whole)->stage == core::Stage::whole) return whole;
  const auto note =
      zone_->jet.last(zone_->subjects.old_stream(), zone_->subjects.old_note(sequence));
  if (!note) return note.error();
  if (!*note) return std::optional<LogEntry>{};
  auto old = zone_->jet.last(zone_->subjects.log_stream(), (*note)->data);
  if (!old) return old.error();
  if (!*old) return std::optional<LogEntry>{};
  auto entry = log_entry_from(**old, zone_->clock);
  if (!entry) return entry.error();
  return std::optional<LogEntry>(std::move(*entry));
}

std::map<std::string_view, Error> NatsStore::count_duplicates(
    const std::map<std::string_view, std::uint64_t>& counts) {
  std::vector<Outgoing> messages;
  for (const auto& [id, count] : counts)
    messages.push_back({.subject = zone_->subjects.duplicates(id),
                        .headers = {{"Nats-Incr", "+" + std::to_string(count)}}});
  const auto published = zone_->jet.publish(messages);
  std::map<std::string_view, Error> uncounted;
  std::size_t next = 0;
  for (const auto& [id, count] : counts)
    if (const Published& counted = published[next++]; counted.kind != Published::Kind::stored)
      uncounted.emplace(id, failure_of(counted));
  return uncounted;
}

Result<void> NatsStore::read_duplicates(std::span<Entry> entries) {
  std::vector<std::string> subjects;
  subjects.reserve(entries.size());
  for (const Entry& entry : entries) subjects.push_back(zone_->subjects.duplicates(entry.id));
  const auto counters = zone_->jet.last_of_each(zone_->subjects.count_stream(), subjects);
  if (!counters) return counters.error();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto counter = counters->find(subjects[i]);
    if (counter == counters->end()) continue;
    const auto json = encoding::parse_json(counter->second.data);
    if (json) entries[i].duplicates = std::strtoull(text_of(*json, "val").c_str(), nullptr, 10);
  }
  return {};
}

// Those of the ranges from `first` to `last`, until `enough` were found; answers the last range read.
Result<std::uint64_t> NatsStore::read_retired(std::uint64_t first, std::uint64_t last,
                                              std::size_t enough, std::vector<LogEntry>& into) {
  constexpr std::uint64_t kAtOnce = 256;
  const std::string notes = zone_->subjects.old_stream();
  for (std::uint64_t from = first; from <= last; from += kAtOnce) {
    const std::uint64_t to = std::min(last, from + kAtOnce - 1);
    std::vector<std::string> filters;
    for (std::uint64_t range = from; range <= to; ++range)
      filters.push_back(zone_->subjects.old_notes(range));
    const auto there = zone_->jet.last(notes, filters);
    for (std::uint64_t range = from; range <= to; ++range) {
      if (!there[range - from]) return there[range - from].error();
      if (!*there[range - from]) continue;
      const auto noted = zone_->jet.all(notes, filters[range - from]);
      if (!noted) return noted.error();
      std::vector<std::string> subjects;
      for (const StreamMessage& note : *noted) subjects.push_back(note.data);
      const auto olds = zone_->jet.last_of_each(zone_->subjects.log_stream(), subjects);
      if (!olds) return olds.error();
      for (const auto& [subject, kept] : *olds) {
        auto entry = log_entry_from(kept, zone_->clock);
        if (!entry) return entry.error();
        into.push_back(std::move(*entry));
      }
      if (into.size() >= enough) return range;
    }
  }
  return last;
}

// Retired ids lie behind the tasks in the stream, under later numbers: they are put back into their
// places.
Result<std::vector<LogEntry>> NatsStore::read_log(Sequence after, std::size_t limit,
                                                  std::string_view filter) {
  constexpr std::size_t kMostInPage = 500;
  const std::string stream = zone_->subjects.log_stream();
  // Tasks lie under two roots. Asked for both, the server gives retired ids among them.
  const std::string tasks =
      filter.empty() ? zone_->subjects.whole_log() : zone_->subjects.logs(filter);
  limit = std::min<std::size_t>(limit, 1000);
  std::size_t at_least = 1;
  while (true) {
    std::vector<StreamMessage> whole;
    std::uint64_t seen = after.value;
    bool more = limit > 0;
    bool passed_retired = false;
    while (more && whole.size() < limit && !passed_retired) {
      std::vector<StreamMessage> page;
      const auto next = zone_->jet.page(
          stream, tasks, seen + 1, std::clamp(limit - whole.size(), at_least, kMostInPage), page);
      if (!next) return next.error();
      more = *next;
      if (!page.empty()) seen = page.back().sequence;
      passed_retired = std::erase_if(page, is_retired) > 0;
      std::move(page.begin(), page.end(), std::back_inserter(whole));
    }
    if (passed_retired) at_least = kMostInPage;  // where some are, many are
    std::uint64_t last = 0;                      // up to which everything is in hand
    if (more && seen > after.value) {
      last = seen;
    } else {
      const auto end = zone_->jet.last(stream, zone_->subjects.whole_log());
      if (!end) return end.error();
      if (*end) last = (*end)->sequence;
    }
    std::vector<LogEntry> found;
    if (limit == 0 || last <= after.value) return found;
    std::vector<LogEntry> olds;
    const std::uint64_t wanted = Subjects::range_of({last});
    const auto range = read_retired(Subjects::range_of({after.value + 1}), wanted, limit, olds);
    if (!range) return range.error();
    const bool all = *range == wanted;
    if (!all) last = (*range + 1) * Subjects::kRange - 1;

    std::map<Sequence, LogEntry> entries;
    for (const StreamMessage& kept : whole) {
      if (kept.sequence > last) break;
      auto entry = log_entry_from(kept, zone_->clock);
      if (!entry) continue;  // no once wrote it, and no queue runs it
      entries[entry->entry.sequence] = std::move(*entry);
    }
    for (LogEntry& entry : olds) {
      const Sequence sequence = entry.entry.sequence;
      if (sequence <= after || sequence.value > last) continue;
      if (!filter.empty() && !core::matches(filter, entry.entry.topic)) continue;
      entry.beside_its_task = entries.contains(sequence);
      entries[sequence] = std::move(entry);
    }
    for (auto& [sequence, entry] : entries) {
      if (found.size() == limit) break;
      found.push_back(std::move(entry));
    }
    if (!found.empty() || (all && !more)) return found;
    after = {last};  // nothing of it matches: an empty answer would mean the end
  }
}

Result<std::vector<Entry>> NatsStore::read(Sequence after, std::size_t limit,
                                           std::string_view filter) {
  auto page = read_log(after, limit, filter);
  if (!page) return page.error();
  std::vector<Entry> entries;
  entries.reserve(page->size());
  for (LogEntry& each : *page) entries.push_back(std::move(each.entry));
  if (auto counted = read_duplicates(entries); !counted) return counted.error();
  return entries;
}

Result<std::optional<Entry>> NatsStore::find(std::string_view id) {
  auto kept = zone_->jet.last(zone_->subjects.log_stream(), zone_->subjects.all_of(id));
  if (!kept) return kept.error();
  if (!*kept) return std::optional<Entry>{};
  auto entry = log_entry_from(**kept, zone_->clock);
  if (!entry) return entry.error();
  if (auto counted = read_duplicates(std::span(&entry->entry, 1)); !counted) return counted.error();
  return std::optional<Entry>(std::move(entry->entry));
}

}  // namespace once::store::nats
