#include "inspect/auditor.h"

#include <algorithm>

#include "core/names.h"

namespace once::engine {
namespace {

constexpr std::size_t kAuditPage = 1000;
constexpr std::size_t kPageOutside = 20'000;  // a store may have to read all for each
constexpr int kAuditRounds = 5;

// What takes its tasks from the zone's log.
bool from_log(const Queue& queue) { return !queue.ledger && queue.stream.empty(); }

std::uint64_t published(const core::Hours& hours) {
  std::uint64_t sum = 0;
  for (const auto& [hour, totals] : hours) sum += totals.published + totals.duplicates_at_append;
  return sum;
}

Time period_of(std::int64_t hour, AuditOptions::Period by) {
  using namespace std::chrono;
  const Time time = core::begin_of_hour(hour);
  const auto day = floor<days>(time);
  switch (by) {
    case AuditOptions::Period::hour: return time;
    case AuditOptions::Period::day: return day;
    case AuditOptions::Period::month: {
      const year_month_day date(day);
      return sys_days(date.year() / date.month() / 1);
    }
    case AuditOptions::Period::all: break;
  }
  return Time{};
}

}  // namespace

Result<Audit> Auditor::run() {
  for (int round = 0;; ++round) {
    discrepancies_.clear();
    unlisted_ = 0;
    if (auto chosen = choose_queues(); !chosen) return chosen.error();
    if (auto read = read_past(); !read) return read.error();
    if (auto walked = walk_log(); !walked) return walked.error();
    for (Watched& queue : queues_) {
      if (!from_log(queue.queue))
        if (auto walked = walk_outside(queue); !walked) return walked.error();
      if (auto looked = find_strays(queue); !looked) return looked.error();
      if (auto looked = find_overlooked(queue); !looked) return looked.error();
      look_at_past(queue);
    }
    if (auto verified = find_damage(); !verified) return verified.error();
    // What retention took meanwhile was counted twice or not at all.
    const auto moved = past_moved();
    if (!moved) return moved.error();
    if (!*moved) return lines();
    if (round + 1 == kAuditRounds)
      return Error{.code = Code::store_unavailable,
                   .message =
                       "retention took tasks each time they were counted, so they could not be; "
                       "nothing was changed; audit again when it is done",
                   .retryable = true};
  }
}

Result<void> Auditor::choose_queues() {
  auto all = store_.queues();
  if (!all) return all.error();
  queues_.clear();
  takers_.clear();
  unrouted_.clear();
  for (Queue& queue : *all) queues_.push_back({.queue = std::move(queue)});
  if (options_.queue.empty()) return {};
  std::erase_if(queues_, [&](const Watched& each) { return each.queue.name != options_.queue; });
  if (!queues_.empty() || besides_.contains(options_.queue)) return {};
  return Error{.code = Code::not_found,
               .message = "there is no queue '" + options_.queue + "': nothing was audited",
               .reason = Reason::no_queue,
               .facts = {{"queue", options_.queue}}};
}

Result<void> Auditor::read_past() {
  for (Watched& each : queues_) {
    auto past = store_.past(each.queue.name);
    if (!past) return past.error();
    each.past = std::move(*past);
  }
  return {};
}

Result<bool> Auditor::past_moved() {
  for (const Watched& each : queues_) {
    const auto past = store_.past(each.queue.name);
    if (!past) return past.error();
    if (published(past->hours) != published(each.past.hours)) return true;
  }
  return false;
}

const std::vector<std::size_t>& Auditor::takers(const store::Entry& entry) {
  constexpr std::size_t kMost = 10'000;  // topics that are remembered
  if (takers_.size() >= kMost) takers_.clear();
  const auto [found, is_new] = takers_.try_emplace(entry.topic);
  if (is_new)
    for (std::size_t i = 0; i < queues_.size(); ++i)
      if (from_log(queues_[i].queue) && core::matches(queues_[i].queue.topic, entry.topic))
        found->second.push_back(i);
  return found->second;
}

Result<void> Auditor::walk_log() {
  core::Sequence after{};
  while (true) {
    const auto page = store_.inventory(after, kAuditPage);
    if (!page) return page.error();
    if (options_.queue.empty())
      for (const auto& [first, last] : page->missing.ranges())
        report({.kind = Discrepancy::Kind::missing,
                .sequence = first,
                .what = first == last ? "#" + std::to_string(first) + " is not in the log"
                                      : "#" + std::to_string(first) + " to #" +
                                            std::to_string(last) + " are not in the log"});
    std::vector<std::size_t> expected(queues_.size());
    for (const store::Entry& entry : page->entries) {
      const std::int64_t hour = core::hour_of(entry.published_at);
      bool taken = false;
      for (const std::size_t i : takers(entry)) {
        if (entry.sequence.value < queues_[i].queue.from.value_or(0)) continue;
        taken = true;
        ++expected[i];
        if (entry.duplicates > 0) queues_[i].hours[hour].duplicates_at_append += entry.duplicates;
      }
      if (taken || !entry.body || !options_.queue.empty()) continue;
      Totals& totals = unrouted_[hour];
      core::account({.state = State::waiting}, totals);
      totals.duplicates_at_append += entry.duplicates;
    }
    for (std::size_t i = 0; i < queues_.size(); ++i)
      if (expected[i] > 0)
        if (auto walked = walk_rows(queues_[i], after, *page, expected[i]); !walked) return walked;
    if (!page->next) return {};
    after = page->next;
    told(static_cast<double>(after.value) / static_cast<double>(std::max(page->last, after).value) /
         (options_.deep ? 2 : 1));
  }
}

Result<void> Auditor::walk_rows(Watched& queue, core::Sequence after,
                                const store::Log::Inventory& page, std::size_t expected) {
  store::Row last{.entry = {.sequence = after}, .queue = queue.queue.name};
  const core::Sequence end = page.entries.back().sequence;
  while (true) {
    auto rows =
        store_.rows({.queue = queue.queue.name, .up_to = end, .lean = true}, &last, expected);
    if (!rows) return rows.error();
    for (const store::Row& row : rows->rows) count(queue, row);
    if (!rows->more || rows->rows.empty()) return {};
    last = std::move(rows->rows.back());
  }
}

Result<void> Auditor::walk_outside(Watched& queue) {
  std::optional<store::Row> last;
  while (true) {
    auto page = store_.rows({.queue = queue.queue.name, .lean = true}, last ? &*last : nullptr,
                            kPageOutside);
    if (!page) return page.error();
    for (const store::Row& row : page->rows) count(queue, row);
    if (!page->more || page->rows.empty()) return {};
    last = std::move(page->rows.back());
  }
}

void Auditor::count(Watched& queue, const store::Row& row) {
  Totals& totals = queue.hours[core::hour_of(store::published(row))];
  std::string contradiction = core::account(store::accounted(row, store_.now()), totals);
  if (contradiction.empty() && !options_.deep) contradiction = row.contradicts;
  if (row.damaged) contradiction = options_.deep ? "" : "its record cannot be read";
  if (contradiction.empty()) return;
  report({.kind = Discrepancy::Kind::inconsistent,
          .queue = queue.queue.name,
          .sequence = row.entry.sequence.value,
          .task = row.entry.id.empty() ? row.key : row.entry.id,
          .what = std::move(contradiction)});
}

Result<void> Auditor::find_strays(const Watched& queue) {
  std::string after;
  do {
    auto page = store_.strays(queue.queue.name, after);
    if (!page) return page.error();
    for (const store::Address& record : page->records)
      report({.kind = Discrepancy::Kind::stray,
              .queue = queue.queue.name,
              .sequence = record.sequence.value,
              .task = record.key,
              .what = "the ledger has a record of #" + std::to_string(record.sequence.value) +
                      ", which is not in the log"});
    after = std::move(page->next);
  } while (!after.empty());
  return {};
}

Result<void> Auditor::find_overlooked(const Watched& queue) {
  core::Sequence after{};
  do {
    const auto page = store_.overlooked(queue.queue.name, after, kAuditPage);
    if (!page) return page.error();
    for (const core::Sequence sequence : page->sequences) {
      if (std::binary_search(page->perhaps.begin(), page->perhaps.end(), sequence)) continue;
      const auto overdue = long_overdue(queue, sequence);
      if (!overdue) return overdue.error();
      if (!*overdue) continue;
      report(
          {.kind = Discrepancy::Kind::overlooked,
           .queue = queue.queue.name,
           .sequence = sequence.value,
           .what = "#" + std::to_string(sequence.value) +
                   (std::binary_search(page->unrecorded.begin(), page->unrecorded.end(), sequence)
                        ? " was handed over and done with, and its record is gone from the "
                          "ledger; it may have run, so a worker's sweep holds it in doubt"
                        : " was handed over and is done with there, and the ledger does not say "
                          "so; a worker's sweep wakes it")});
    }
    after = page->next;
  } while (after);
  return {};
}

// What the store contradicts itself in. Read deeply, that includes every record.
Result<void> Auditor::find_damage() {
  const auto depth = options_.deep ? store::Store::Depth::deep : store::Store::Depth::quick;
  std::string after;
  do {
    auto page = store_.verify(depth, after);
    if (!page) return page.error();
    for (store::Damage& damage : page->damages)
      if (options_.queue.empty() || damage.queue == options_.queue)
        report({.kind = Discrepancy::Kind::damaged,
                .queue = std::move(damage.queue),
                .sequence = damage.sequence.value,
                .task = std::move(damage.task),
                .what = std::move(damage.what),
                .harm = std::move(damage.harm)});
    after = std::move(page->next);
    if (options_.deep) told((1 + page->done) / 2);
  } while (!after.empty());
  return {};
}

// Its records are gone, so which tasks it was about nobody can say any more.
void Auditor::look_at_past(const Watched& queue) {
  Totals all;
  for (const auto& [hour, totals] : queue.past.hours) all.add(totals);
  const auto tell = [&](std::string what) {
    report({.kind = Discrepancy::Kind::inconsistent,
            .queue = queue.queue.name,
            .what = std::move(what)});
  };
  if (queue.past.damaged)
    tell("some totals of tasks that retention took could not be read: they are not counted");
  if (const std::string contradicts = core::contradiction(all); !contradicts.empty())
    tell("the totals of tasks that retention took contradict themselves: " + contradicts);
  if (all.completed_twice > 0 || all.rerun(Rerun::unexplained) > 0)
    tell("of the tasks that retention took, " + std::to_string(all.completed_twice) +
         " were completed once too often, and " + std::to_string(all.rerun(Rerun::unexplained)) +
         " re-runs had no reason");
}

// For longer than a lease: before that it may be under way.
Result<bool> Auditor::long_overdue(const Watched& queue, core::Sequence sequence) {
  const store::Row before{.entry = {.sequence = {sequence.value - 1}}, .queue = queue.queue.name};
  const auto rows = store_.rows({.queue = queue.queue.name}, &before, 1);
  if (!rows) return rows.error();
  if (rows->rows.empty() || rows->rows.front().entry.sequence != sequence) return false;
  const store::Row& row = rows->rows.front();
  core::StoreTime due = row.entry.not_before();
  if (row.stored) {
    if (core::settled(row.stored->record.state)) return false;
    due = row.stored->stamp + core::look_again(row.stored->record).value_or(Duration{0});
  }
  return store_.now() > due + queue.queue.lease;
}

void Auditor::report(Discrepancy found) {
  if (discrepancies_.size() < options_.discrepancies)
    discrepancies_.push_back(std::move(found));
  else
    ++unlisted_;
}

void Auditor::told(double fraction) const {
  if (options_.progress) options_.progress(std::min(fraction, 1.0));
}

Audit Auditor::lines() const {
  std::map<std::pair<Time, std::string>, Totals> all;
  std::optional<Time> first;
  if (options_.since) first = period_of(core::hour_of(*options_.since), options_.by);
  const auto add = [&](const std::string& queue, const core::Hours& hours) {
    for (const auto& [hour, totals] : hours) {
      const Time period = period_of(hour, options_.by);
      if (!first || period >= *first) all[{period, queue}].add(totals);
    }
  };
  for (const Watched& each : queues_) {
    add(each.queue.name, each.past.hours);
    add(each.queue.name, each.hours);
  }
  add({}, unrouted_);
  for (const auto& [name, hours] : besides_)
    if (options_.queue.empty() || name == options_.queue) add(name, hours);
  Audit audit{.discrepancies = discrepancies_, .unlisted = unlisted_};
  for (auto& [key, totals] : all)
    audit.lines.push_back({.period = key.first,
                           .queue = key.second,
                           .totals = totals,
                           .own = core::own_queue(key.second)});
  return audit;
}

}  // namespace once::engine
