#include "inspect/doctor.h"

#include <algorithm>
#include <set>

#include "core/names.h"
#include "core/words.h"

namespace once::engine {
namespace {

using core::counted;
using core::Sequence;
using core::StoreTime;
using core::time_text;
using store::Row;

constexpr std::size_t kPage = 200;
constexpr std::size_t kPerState = 500;    // rows of one state that are looked at
constexpr std::size_t kWindow = 2'000;    // rows at each end, where rows by state would cost much
constexpr std::size_t kPages = 20;        // that are searched for what was overlooked
constexpr std::size_t kEntries = 1'000;   // of the log, for topics that nobody takes
constexpr std::size_t kEntriesPage = 50;  // they come with their bodies
constexpr std::size_t kNamed = 3;         // tasks that a finding names
constexpr std::size_t kEnough = 5;        // completed attempts that make a median
constexpr int kSlow = 10;                 // times the median
constexpr Duration kNotSlow{1'000};       // whatever the median is
constexpr Duration kUnattended{std::chrono::hours{24}};
constexpr Duration kBriefly{std::chrono::hours{1}};
constexpr std::uint64_t kDamages = 20;  // that are told one by one
constexpr const char* kMend =
    "stop everything that uses the zone, keep a copy, and restore a backup (docs/effects.md, f); "
    "once "
    "audit --deep shows whether there is more";
constexpr Duration kShortLease{5'000};
constexpr Duration kClocksApart{5'000};

// Tasks with the same trouble: all are counted, a few are named.
struct Group {
  std::uint64_t count{};
  std::vector<std::string> names{};
  Duration worst{};

  void add(const Row& row, Duration age) {
    ++count;
    worst = std::max(worst, age);
    if (names.size() < kNamed) names.push_back(row.entry.id.empty() ? row.key : row.entry.id);
  }
  // "7 tasks (a, b, c and 4 more)"; no more than some are read.
  std::string text(std::string_view noun) const {
    return (count >= kPerState ? "at least " : "") + counted(count, noun) + named(count);
  }
  std::string named(std::uint64_t all) const {
    if (names.empty()) return {};
    std::string text = " (";
    for (const std::string& name : names) text += (text.size() > 2 ? ", " : "") + name;
    if (all > names.size()) text += " and " + std::to_string(all - names.size()) + " more";
    return text + ")";
  }
};

// What the rows of one queue show.
class Census {
 public:
  Census(const Queue& queue, StoreTime now, Time wall) : queue_(queue), now_(now), wall_(wall) {}

  void add(const Row& row) {
    ++rows;
    const Time shown = row.stored ? row.stored->record.since : row.entry.published_at;
    if (shown > wall_ + kClocksApart) ahead.add(row, shown - wall_);
    if (!row.stored) return;
    const core::Record& record = row.stored->record;
    const Duration age = now_ - row.stored->stamp;
    switch (store::state_of(row, now_)) {
      case State::running:
        running.push_back(row);
        begun.insert(row.entry.sequence);
        if (age >= 2 * record.lease) abandoned.add(row, age);
        break;
      case State::retrying:
        begun.insert(row.entry.sequence);
        if (age >= record.delay + queue_.lease) overdue.add(row, age - record.delay);
        break;
      case State::in_doubt: (age >= kUnattended ? unattended : doubtful).add(row, age); break;
      case State::dead: dead.add(row, age); break;
      case State::completed: add_times(record); break;
      default: break;
    }
  }

  // Of the attempts that completed; none: too few to say.
  std::optional<Duration> median() {
    if (times_.size() < kEnough) return {};
    const auto middle = times_.begin() + static_cast<std::ptrdiff_t>(times_.size() / 2);
    std::nth_element(times_.begin(), middle, times_.end());
    return *middle;
  }

  std::uint64_t rows{};
  std::vector<Row> running{};
  std::set<Sequence> begun{};  // running or to be tried again
  Group abandoned{}, overdue{}, doubtful{}, unattended{}, dead{}, ahead{};

 private:
  void add_times(const core::Record& record) {
    for (const core::Attempt& attempt : record.attempts)
      if (attempt.ending == core::Ending::completed && attempt.ended_at)
        times_.push_back(std::max(*attempt.ended_at - attempt.started_at, Duration{0}));
  }

  const Queue& queue_;
  const StoreTime now_;
  const Time wall_;
  std::vector<Duration> times_;
};

class Doctor {
 public:
  Doctor(store::Store& store, const DoctorOptions& options) : store_(store), options_(options) {}

  Result<Diagnosis> run() {
    auto queues = store_.queues();
    if (!queues) return queues.error();
    const auto wanted = [&](const Queue& queue) {
      return !core::own_bookkeeping(queue.name) &&
             (options_.queue.empty() || queue.name == options_.queue);
    };
    if (std::none_of(queues->begin(), queues->end(), wanted) && !options_.queue.empty())
      return Error{.code = Code::not_found,
                   .message = "there is no queue '" + options_.queue + "'; nothing was looked at"};
    auto examined = store_.examine(options_);
    if (!examined) return examined.error();
    seen_ = std::move(*examined);
    found_ = std::move(seen_.findings);
    checked_ = std::move(seen_.checked);
    if (auto looked = note(look_at_damage(), "damage"); !looked) return looked.error();
    for (const Queue& queue : *queues)
      if (wanted(queue))
        if (auto looked = note(look_at(queue), about(queue)); !looked) return looked.error();
    if (options_.queue.empty())
      if (auto looked = note(look_for_unrouted(*queues), "topics"); !looked) return looked.error();
    if (auto looked = note(look_at_retention(), "retention"); !looked) return looked.error();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
    return Diagnosis{.findings = std::move(found_), .checked = std::move(checked_)};
  }

 private:
  const store::QueueGlance* glance_at(const Queue& queue) const {
    const auto glance = seen_.queues.find(queue.name);
    return glance == seen_.queues.end() ? nullptr : &glance->second;
  }

  // --- Rows, a bounded number

  // `page_size`: larger where each page costs a whole read.
  Result<void> read_rows(const store::RowFilter& filter, Sequence after, std::size_t most,
                         Census& census, std::size_t page_size = kPage) {
    store::RowFilter lean = filter;
    lean.lean = true;
    Row last{.entry = {.sequence = after}, .queue = filter.queue};
    for (bool first = true; most > 0; first = false) {
      const bool from_start = first && !after;
      auto page = store_.rows(lean, from_start ? nullptr : &last, std::min(page_size, most));
      if (!page) return page.error();
      for (const Row& row : page->rows) census.add(row);
      if (!page->more || page->rows.empty()) break;
      most -= std::min(most, page->rows.size());
      last = std::move(page->rows.back());
    }
    return {};
  }

  Result<Census> take_census(const Queue& queue) {
    Census census(queue, store_.now(), store_.wall());
    const auto* glance = glance_at(queue);
    if (glance) {
      if (!glance->readable) return census;
      const std::size_t most = seen_.countable ? SIZE_MAX : kWindow;
      if (auto read = read_rows({.queue = queue.name}, glance->open_after, most, census, kWindow);
          !read)
        return read.error();
      const Sequence tail = end_of_log(kWindow);
      if (!seen_.countable && tail.value > glance->open_after.value + kWindow)
        if (auto read = read_rows({.queue = queue.name}, tail, kWindow, census); !read)
          return read.error();
      return census;
    }
    if (queue.ledger) {  // its rows go by key: finding those of a state may take reading them all
      if (auto read = read_rows({.queue = queue.name}, {}, kWindow, census, kWindow); !read)
        return read.error();
      return census;
    }
    for (const State state : {State::running, State::retrying, State::in_doubt, State::dead})
      if (auto read = read_rows({.queue = queue.name, .state = state}, {}, kPerState, census);
          !read)
        return read.error();
    if (auto read = read_rows({.queue = queue.name, .state = State::completed},
                              end_of_log(kPerState), kPerState, census);
        !read)
      return read.error();
    return census;
  }

  Sequence end_of_log(std::size_t entries) const {
    return {seen_.last.value > entries ? seen_.last.value - entries : 0};
  }

  // --- A queue

  Result<void> look_at(const Queue& queue) {
    const auto* glance = glance_at(queue);
    store::Counts counts;
    if (seen_.countable && (!glance || glance->readable)) {
      auto answer = store_.counts(queue.name);
      if (!answer) return answer.error();
      counts = std::move(*answer);
    } else if (glance) {
      counts.tasks[State::waiting] = glance->waiting;
      counts.workers = glance->workers;
    }
    auto census = take_census(queue);
    if (!census) return census.error();
    judge_running(queue, *census);
    judge_waiting(queue, counts);
    judge_doubt_and_dead(queue, *census, counts);
    if (queue.lease < kShortLease)
      find({.code = "short_lease",
            .severity = Severity::note,
            .about = about(queue),
            .what = "the lease is " + time_text(queue.lease),
            .harm =
                "a worker that stands still for that long (a busy machine, a slow disk) is taken "
                "for gone: its task is run beside it, and its own result is refused",
            .fix = "once queue set " + queue.name + " --lease 30s"});
    if (auto looked = look_for_overlooked(queue, *census, counts.workers); !looked)
      return looked.error();
    checked_.push_back(about(queue) + ": " + counted(census->rows, "task") + " looked at" +
                       how_many(queue, counts));
    return {};
  }

  std::string how_many(const Queue& queue, const store::Counts& counts) const {
    const auto* glance = glance_at(queue);
    if (glance && !glance->readable)
      return ": too many to be read one by one, so attempts, doubts and dead letters were not seen";
    if (!seen_.countable)
      return ", the oldest open ones and the newest; there are more, so a doubt or a dead letter "
             "may not be among them";
    std::uint64_t all = 0;
    for (const auto& [state, count] : counts.tasks) all += count;
    return " of " + std::to_string(all) + ", " + counted(counts.workers, "worker");
  }

  void judge_running(const Queue& queue, Census& census) {
    if (census.abandoned.count > 0)
      find({.code = "abandoned_attempt",
            .severity = Severity::warning,
            .about = about(queue),
            .what = census.abandoned.text("attempt") +
                    " let its lease go by and nobody has taken over; the oldest was heard of " +
                    time_text(census.abandoned.worst) + " ago",
            .harm =
                "its effect may have happened and nobody has recorded it; the task stands still "
                "until a worker comes, who runs it again or holds it as the queue says",
            .fix = "look at the worker that 'once inspect ID' names (stopped? cut off from the "
                   "store?), and start another: " +
                   worker_of(queue)});
    if (census.overdue.count > 0)
      find({.code = "overdue_retry",
            .severity = Severity::warning,
            .about = about(queue),
            .what = census.overdue.text("task") +
                    " to be tried again and not begun, overdue by up to " +
                    time_text(census.overdue.worst),
            .harm = "nothing is lost or repeated, but these tasks stand still",
            .fix = "start workers, or more of them: " + worker_of(queue)});
    if (census.ahead.count > 0)
      find({.code = "clock_jumped",
            .severity = Severity::warning,
            .about = about(queue),
            .what = census.ahead.text("task") + " stamped up to " + time_text(census.ahead.worst) +
                    " ahead of the clock: it was set back, or was ahead",
            .harm = "leases and retries don't go by this clock, so nothing is lost or repeated by "
                    "them; but a publish with --at or --expires given as a time is held back, or "
                    "cancelled, by as much",
            .fix = "set the clock right and keep it so (chrony, systemd-timesyncd)"});
    judge_slow(queue, census);
  }

  void judge_slow(const Queue& queue, Census& census) {
    const auto median = census.median();
    if (!median) return;
    Group slow;
    for (const Row& row : census.running) {
      const auto& attempts = row.stored->record.attempts;
      if (attempts.empty()) continue;
      const Duration ran = store_.wall() - attempts.back().started_at;
      if (ran >= kNotSlow && ran >= kSlow * *median) slow.add(row, ran);
    }
    if (slow.count == 0) return;
    find({.code = "slow_attempt",
          .severity = Severity::warning,
          .about = about(queue),
          .what = slow.text("attempt") + " running for up to " + time_text(slow.worst) +
                  ", more than ten times the queue's median of " + time_text(*median),
          .harm = "one that hangs keeps its lease for ever, and its task is never tried again" +
                  std::string(queue.timeout > Duration{0}
                                  ? "; the queue's timeout of " + time_text(queue.timeout) +
                                        " will end it"
                                  : ""),
          .fix = "look at it (once inspect ID names its worker); a hang needs a bound: once queue "
                 "set " +
                 queue.name + " --timeout " + timeout_for(*median)});
  }

  // Generous, and in whole seconds.
  static std::string timeout_for(Duration median) {
    return std::to_string(std::max<Duration::rep>(30 * median.count() / 1000, 60)) + "s";
  }

  void judge_waiting(const Queue& queue, const store::Counts& counts) {
    const std::uint64_t waiting = count_of(counts, State::waiting);
    if (waiting == 0 || queue.ledger) return;
    const std::string oldest = counts.oldest_waiting
                                   ? ", the oldest for " + time_text(*counts.oldest_waiting)
                                   : std::string();
    if (queue.paused) {
      find({.code = "paused",
            .severity = Severity::note,
            .about = about(queue),
            .what = "it is paused, and " + counted(waiting, "task") + " waiting" + oldest,
            .harm = "nothing is lost; nothing is run either",
            .fix = "once queue resume " + queue.name});
      return;
    }
    if (counts.workers > 0) return;
    const bool long_since = !counts.oldest_waiting || *counts.oldest_waiting >= queue.lease;
    find({.code = "nobody_works",
          .severity = long_since ? Severity::warning : Severity::note,
          .about = about(queue),
          .what = counted(waiting, "task") + " waiting" + oldest + ", and no worker is there",
          .harm =
              "nothing is lost, but nothing is run: a task with an expiry is cancelled when its "
              "time is over",
          .fix = core::own_queue(queue.name) ? "start '" + worker_of(queue) + "'"
                                             : worker_of(queue) + ", or once queue remove " +
                                                   queue.name + " if nobody needs it"});
  }

  // What works on a queue.
  static std::string worker_of(const Queue& queue) {
    return queue.name == core::kFlowQueue ? "once flow work"
                                          : "once work " + queue.name + " -- CMD";
  }

  void judge_doubt_and_dead(const Queue& queue, const Census& census, const store::Counts& counts) {
    const std::string show = "once doubt list --queue " + queue.name +
                             ", then once doubt complete, retry or drop; --in-doubt probe or steps "
                             "lets the queue decide by itself";
    if (census.unattended.count > 0)
      find({.code = "doubt_unattended",
            .severity = Severity::warning,
            .about = about(queue),
            .what = census.unattended.text("task") +
                    " in doubt for more than a day, the oldest for " +
                    time_text(census.unattended.worst),
            .harm =
                "each may have happened or not, and it stays so: what did not happen is not done",
            .fix = show});
    if (census.doubtful.count > 0)
      find({.code = "in_doubt",
            .severity = Severity::note,
            .about = about(queue),
            .what = census.doubtful.text("task") + " in doubt, held for a person",
            .harm = "each may have happened or not",
            .fix = show});
    const std::uint64_t dead = std::max(count_of(counts, State::dead), census.dead.count);
    if (dead > 0 && queue.name == core::kRunsLedger)
      find({.code = "failed_runs",
            .severity = Severity::note,
            .about = "runs of workflows",
            .what = counted(dead, "run") + " failed" + census.dead.named(dead),
            .harm = "nothing is lost: they are kept, as they stand, until somebody decides",
            .fix = "once flow runs --state failed, then once flow retry or cancel"});
    else if (dead > 0)
      find({.code = "dead_letters",
            .severity = Severity::note,
            .about = about(queue),
            .what = counted(dead, "dead letter") + census.dead.named(dead),
            .harm = "nothing is lost: they are kept, with their bodies, until somebody decides",
            .fix = "once dead list --queue " + queue.name + ", then once dead retry or drop"});
  }

  // Without those that have begun, of which it is said what became of their lease or retry, and those
  // that may be handed over all the same.
  Result<void> look_for_overlooked(const Queue& queue, const Census& census,
                                   std::uint64_t workers) {
    const auto* glance = glance_at(queue);
    if (!seen_.countable || queue.ledger || (glance && !glance->readable)) return {};
    std::vector<Sequence> found;
    std::vector<Sequence> lost;
    Sequence after{};
    for (std::size_t pages = 0; pages < kPages && found.size() < kPerState; ++pages) {
      auto page = store_.overlooked(queue.name, after, kPerState);
      if (!page) return page.error();
      std::copy_if(page->sequences.begin(), page->sequences.end(), std::back_inserter(found),
                   [&](Sequence each) {
                     return !census.begun.contains(each) &&
                            !std::binary_search(page->perhaps.begin(), page->perhaps.end(), each);
                   });
      std::erase_if(found, [&](Sequence each) {
        const bool is_lost =
            std::binary_search(page->unrecorded.begin(), page->unrecorded.end(), each);
        if (is_lost) lost.push_back(each);
        return is_lost;
      });
      if (!page->next) break;
      after = page->next;
    }
    if (!lost.empty())
      find({.code = "record_lost",
            .severity = Severity::hazard,
            .about = about(queue),
            .what = counted(lost.size(), "task") + " (#" + std::to_string(lost.front().value) +
                    (lost.size() > 1 ? ", ..." : "") +
                    ") that was handed over and done with, and whose record is gone",
            .harm = "somebody deleted the record, or the store lost it: the task may have run",
            .fix = "a worker's sweep holds such tasks in doubt; then once doubt list --queue " +
                   queue.name + ", and once doubt complete, retry or drop"});
    if (found.empty()) return {};
    find({.code = "overlooked",
          .severity = workers > 0 ? Severity::note : Severity::warning,
          .about = about(queue),
          .what = counted(found.size(), "task") + " (#" + std::to_string(found.front().value) +
                  (found.size() > 1 ? ", ..." : "") +
                  ") that the store counts as handed over, and that no record settles",
          .harm = "nobody is handed them again by the store itself",
          .fix = "a worker of the queue sweeps them up, once a minute; let one run"});
    return {};
  }

  // --- The zone

  Result<void> look_for_unrouted(const std::vector<Queue>& queues) {
    std::optional<std::uint64_t> all;
    if (seen_.countable) {
      auto count = store_.unrouted();
      if (!count) return count.error();
      if (*count == 0) {
        checked_.push_back("topics: a queue takes every task");
        return {};
      }
      all = *count;
    }
    std::map<std::string, std::uint64_t> topics;
    std::uint64_t looked = 0;
    // Where the log begins and where it ends.
    std::set<std::uint64_t> starts{0, end_of_log(kEntries).value};
    Sequence after{};
    for (const std::uint64_t start : starts) {
      after = std::max(after, Sequence{start});
      for (std::size_t read = 0; read < kEntries;) {
        auto page = store_.read(after, kEntriesPage, {});
        if (!page) return page.error();
        if (page->empty()) break;
        for (const store::Entry& entry : *page)
          if (entry.body && !taken(entry, queues)) ++topics[entry.topic];
        read += page->size();
        looked += page->size();
        after = page->back().sequence;
      }
    }
    checked_.push_back("topics: " + counted(looked, "task") + " looked at" +
                       (seen_.last.value > looked ? ", the oldest and the newest" : ""));
    if (topics.empty() && !all) return {};
    std::string named;
    for (const auto& [topic, count] : topics) {
      if (named.size() > 200) {
        named += ", ...";
        break;
      }
      named += (named.empty() ? "" : ", ") + topic + " (" + std::to_string(count) + ")";
    }
    std::uint64_t seen = 0;
    for (const auto& [topic, count] : topics) seen += count;
    find({.code = "unrouted",
          .severity = Severity::warning,
          .about = "topics",
          .what = (all ? counted(*all, "task") : "at least " + counted(seen, "task")) +
                  " that no queue takes" + (named.empty() ? "" : ": " + named),
          .harm = "they are kept and never run: a mistyped topic or filter looks like that",
          .fix = "add a queue that takes them (once queue add NAME --topic FILTER): it finds them "
                 "all"});
    return {};
  }

  static bool taken(const store::Entry& entry, const std::vector<Queue>& queues) {
    return std::any_of(queues.begin(), queues.end(), [&](const Queue& queue) {
      return !queue.ledger && queue.stream.empty() && core::matches(queue.topic, entry.topic) &&
             entry.sequence.value >= queue.from.value_or(0);
    });
  }

  // Where the store contradicts itself. What is cheap to see; with --deep everything.
  Result<void> look_at_damage() {
    const auto depth = options_.deep ? store::Store::Depth::deep : store::Store::Depth::quick;
    std::uint64_t all = 0;
    std::string after;
    do {
      auto page = store_.verify(depth, after);
      if (!page) return page.error();
      for (const store::Damage& damage : page->damages)
        if (++all <= kDamages)
          find({.code = "contradiction",
                .severity = Severity::hazard,
                .about = damage.queue.empty() ? "zone" : "queue " + damage.queue,
                .what = damage.what,
                .harm = damage.harm,
                .fix = kMend});
      after = std::move(page->next);
    } while (!after.empty());
    if (all > kDamages)
      find({.code = "contradiction",
            .severity = Severity::hazard,
            .about = "zone",
            .what = std::to_string(all - kDamages) + " more like these",
            .harm = "see those above",
            .fix = "once audit --deep lists all of them"});
    else if (all == 0)
      checked_.push_back(options_.deep ? "every digest, index and counter: they agree"
                                       : "counters and positions: they agree");
    return {};
  }

  Result<void> look_at_retention() {
    auto ages = store_.retention();
    if (!ages) return ages.error();
    const Duration kept = ages->bodies + ages->records + ages->ids;
    checked_.push_back("retention: an id is known for " + time_text(kept) +
                       " after its task is settled");
    if (kept < kBriefly)
      find({.code = "ids_kept_briefly",
            .severity = Severity::warning,
            .about = "retention",
            .what = "an id is forgotten " + time_text(kept) + " after its task is settled",
            .harm =
                "a publisher that retries later than that (a webhook, a restarted job) adds the "
                "task anew, and it runs again",
            .fix = "once retention --ids 30d, or longer than the latest retry"});
    return {};
  }

  // --- Words

  static std::string about(const Queue& queue) { return "queue " + queue.name; }
  static std::uint64_t count_of(const store::Counts& counts, State state) {
    const auto found = counts.tasks.find(state);
    return found == counts.tasks.end() ? 0 : found->second;
  }
  // What is there and cannot be read is a finding; a store that is away ends the look.
  Result<void> note(Result<void> looked, const std::string& at) {
    if (looked ||
        (looked.error().code != Code::store_unusable && looked.error().code != Code::not_found))
      return looked;
    find({.code = "unreadable",
          .severity = Severity::warning,
          .about = at,
          .what = "it cannot be read: " + looked.error().message,
          .harm = "what is damaged cannot be run or recorded either; what this login may not read "
                  "is not seen",
          .fix = "put right what the message says; then look again"});
    return {};
  }
  void find(Finding finding) { found_.push_back(std::move(finding)); }

  store::Store& store_;
  const DoctorOptions& options_;
  store::Examination seen_;
  std::vector<Finding> found_;
  std::vector<std::string> checked_;
};

}  // namespace

Result<Diagnosis> diagnose(store::Store& store, const DoctorOptions& options) {
  return Doctor(store, options).run();
}

}  // namespace once::engine
