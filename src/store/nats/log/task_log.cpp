#include "store/nats/log/task_log.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "core/names.h"

namespace once::store::nats {
namespace {

constexpr std::size_t kMostInPage = 500;

// The entries up to `last`, in order: a retired id takes the place of its task.
std::map<Sequence, LogEntry> in_order(std::vector<StreamMessage> tasks, std::vector<LogEntry> olds,
                                      Sequence after, std::uint64_t last, std::string_view filter,
                                      const ZoneClock& clock) {
  std::map<Sequence, LogEntry> entries;
  for (StreamMessage& message : tasks) {
    if (message.sequence > last) break;
    auto entry = log_entry_from(std::move(message), clock);
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
  return entries;
}

}  // namespace

Result<std::optional<LogEntry>> TaskLog::entry_of(
    Result<std::optional<StreamMessage>> message) const {
  if (!message) return message.error();
  if (!*message) return std::optional<LogEntry>{};
  auto entry = log_entry_from(std::move(**message), zone_.clock);
  if (!entry) return entry.error();
  return std::optional<LogEntry>(std::move(*entry));
}

Result<std::optional<LogEntry>> TaskLog::entry_at(Sequence sequence) const {
  const std::string log = zone_.subjects.log_stream();
  auto whole = entry_of(zone_.client.get(log, sequence.value));
  if (!whole) return whole;
  if (*whole && (*whole)->stage == core::Stage::whole) return whole;
  const auto note =
      zone_.client.last(zone_.subjects.old_stream(), zone_.subjects.old_note(sequence));
  if (!note) return note.error();
  if (!*note) return std::optional<LogEntry>{};
  return entry_of(zone_.client.last(log, (*note)->data));
}

Result<std::optional<Entry>> TaskLog::find(std::string_view id) const {
  auto found = entry_of(zone_.client.last(zone_.subjects.log_stream(), zone_.subjects.all_of(id)));
  if (!found) return found.error();
  if (!*found) return std::optional<Entry>{};
  Entry& entry = (*found)->entry;
  if (auto counted = read_duplicates(std::span(&entry, 1)); !counted) return counted.error();
  return std::optional<Entry>(std::move(entry));
}

Result<void> TaskLog::read_range(const std::string& notes, std::vector<LogEntry>& into) const {
  const auto noted = zone_.client.all(zone_.subjects.old_stream(), notes);
  if (!noted) return noted.error();
  std::vector<std::string> subjects;
  for (const StreamMessage& note : *noted) subjects.push_back(note.data);
  auto olds = zone_.client.last_of_each(zone_.subjects.log_stream(), subjects);
  if (!olds) return olds.error();
  for (auto& [subject, message] : *olds) {
    auto entry = log_entry_from(std::move(message), zone_.clock);
    if (!entry) return entry.error();
    into.push_back(std::move(*entry));
  }
  return {};
}

Result<std::uint64_t> TaskLog::read_retired(std::uint64_t first, std::uint64_t last,
                                            std::size_t enough, std::vector<LogEntry>& into) const {
  constexpr std::uint64_t kAtOnce = 256;
  for (std::uint64_t from = first; from <= last; from += kAtOnce) {
    const std::uint64_t to = std::min(last, from + kAtOnce - 1);
    std::vector<std::string> filters;
    for (std::uint64_t range = from; range <= to; ++range)
      filters.push_back(zone_.subjects.old_notes(range));
    const auto there = zone_.client.last(zone_.subjects.old_stream(), filters);
    for (std::uint64_t range = from; range <= to; ++range) {
      if (!there[range - from]) return there[range - from].error();
      if (!*there[range - from]) continue;
      if (auto read = read_range(filters[range - from], into); !read) return read.error();
      if (into.size() >= enough) return range;
    }
  }
  return last;
}

Result<TaskLog::Tasks> TaskLog::tasks_after(Sequence after, std::size_t limit, std::size_t at_least,
                                            const std::string& filter) const {
  Tasks found{.seen = after.value, .more = limit > 0};
  while (found.more && found.messages.size() < limit && !found.passed_retired) {
    std::vector<StreamMessage> page;
    const auto more =
        zone_.client.page(zone_.subjects.log_stream(), filter, found.seen + 1,
                          std::clamp(limit - found.messages.size(), at_least, kMostInPage), page);
    if (!more) return more.error();
    found.more = *more;
    if (!page.empty()) found.seen = page.back().sequence;
    found.passed_retired = std::erase_if(page, is_retired) > 0;
    std::move(page.begin(), page.end(), std::back_inserter(found.messages));
  }
  return found;
}

Result<std::uint64_t> TaskLog::last_number() const {
  const auto end = zone_.client.last(zone_.subjects.log_stream(), zone_.subjects.whole_log());
  if (!end) return end.error();
  return *end ? (*end)->sequence : 0;
}

Result<std::vector<LogEntry>> TaskLog::page(Sequence after, std::size_t limit,
                                            std::string_view filter) const {
  // Tasks lie under two roots. Asked for both, the server gives retired ids among them.
  const std::string subjects =
      filter.empty() ? zone_.subjects.whole_log() : zone_.subjects.logs(filter);
  limit = std::min<std::size_t>(limit, 1000);
  std::size_t at_least = 1;
  while (true) {
    auto tasks = tasks_after(after, limit, at_least, subjects);
    if (!tasks) return tasks.error();
    if (tasks->passed_retired) at_least = kMostInPage;  // where some are, many are
    // The number up to which everything is in hand.
    const auto end = tasks->more && tasks->seen > after.value ? tasks->seen : last_number();
    if (!end) return end.error();
    std::uint64_t last = *end;
    std::vector<LogEntry> found;
    if (limit == 0 || last <= after.value) return found;
    std::vector<LogEntry> olds;
    const std::uint64_t wanted = Subjects::range_of({last});
    const auto range = read_retired(Subjects::range_of({after.value + 1}), wanted, limit, olds);
    if (!range) return range.error();
    const bool all = *range == wanted;
    if (!all) last = (*range + 1) * Subjects::kRange - 1;
    for (auto& [sequence, entry] :
         in_order(std::move(tasks->messages), std::move(olds), after, last, filter, zone_.clock)) {
      if (found.size() == limit) break;
      found.push_back(std::move(entry));
    }
    if (!found.empty() || (all && !tasks->more)) return found;
    after = {last};  // nothing of it matches: an empty answer would mean the end
  }
}

std::map<std::string_view, Error> TaskLog::count_duplicates(
    const std::map<std::string_view, std::uint64_t>& counts) const {
  std::vector<Outgoing> messages;
  for (const auto& [id, count] : counts)
    messages.push_back({.subject = zone_.subjects.duplicates(id),
                        .headers = {{"Nats-Incr", "+" + std::to_string(count)}}});
  const auto published = zone_.client.publish(messages);
  std::map<std::string_view, Error> uncounted;
  std::size_t next = 0;
  for (const auto& [id, count] : counts)
    if (const PublishResult& counted = published[next++];
        counted.kind != PublishResult::Kind::stored)
      uncounted.emplace(id, failure_of(counted));
  return uncounted;
}

Result<void> TaskLog::read_duplicates(std::span<Entry> entries) const {
  std::vector<std::string> subjects;
  subjects.reserve(entries.size());
  for (const Entry& entry : entries) subjects.push_back(zone_.subjects.duplicates(entry.id));
  const auto counters = zone_.client.last_of_each(zone_.subjects.count_stream(), subjects);
  if (!counters) return counters.error();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto counter = counters->find(subjects[i]);
    if (counter == counters->end()) continue;
    const auto json = encoding::parse_json(counter->second.data);
    if (json) entries[i].duplicates = std::strtoull(text_of(*json, "val").c_str(), nullptr, 10);
  }
  return {};
}

Result<std::vector<Entry>> TaskLog::read(Sequence after, std::size_t limit,
                                         std::string_view filter) const {
  auto entries = page(after, limit, filter);
  if (!entries) return entries.error();
  std::vector<Entry> read;
  read.reserve(entries->size());
  for (LogEntry& each : *entries) read.push_back(std::move(each.entry));
  if (auto counted = read_duplicates(read); !counted) return counted.error();
  return read;
}

}  // namespace once::store::nats
