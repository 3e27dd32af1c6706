#include "inspect/doctor.h"

#include <algorithm>
#include <set>

#include "core/findings.h"
#include "core/names.h"
#include "core/words.h"

namespace once::engine {
namespace {

using core::counted;
using core::Sequence;
using core::StoreTime;
using core::time_text;
using store::Row;

constexpr std::size_t kDoctorPage = 200;
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
    if (record.lapsed >= core::kLapsesInARow) never_started.add(row, age);
    switch (store::state_of(row, now_)) {
      case State::running:
        begun.insert(row.entry.sequence);
        if (record.offer) break;
        running.push_back(row);
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
  Group abandoned{}, overdue{}, doubtful{}, unattended{}, dead{}, ahead{}, never_started{};

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
      return options_.queue.empty() || queue.name == options_.queue;
    };
    if (std::none_of(queues->begin(), queues->end(), wanted) && !options_.queue.empty())
      return Error{.code = Code::not_found,
                   .message = "there is no queue '" + options_.queue + "'; nothing was looked at",
                   .reason = Reason::no_queue,
                   .facts = {{"queue", options_.queue}}};
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
                         Census& census, std::size_t page_size = kDoctorPage) {
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
      find("short_lease", Severity::note, queue, {{"lease", time_text(queue.lease)}});
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
      find("abandoned_attempt", Severity::warning, queue,
           {{"attempts", census.abandoned.text("attempt")},
            {"age", time_text(census.abandoned.worst)}});
    if (census.overdue.count > 0)
      find("overdue_retry", Severity::warning, queue,
           {{"tasks", census.overdue.text("task")}, {"age", time_text(census.overdue.worst)}});
    if (census.never_started.count > 0)
      find("never_started", Severity::warning, queue,
           {{"tasks", census.never_started.text("task")}});
    if (census.ahead.count > 0)
      find("clock_jumped", Severity::warning, queue,
           {{"tasks", census.ahead.text("task")}, {"age", time_text(census.ahead.worst)}});
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
    find("slow_attempt", Severity::warning, queue,
         {{"attempts", slow.text("attempt")},
          {"age", time_text(slow.worst)},
          {"median", time_text(*median)},
          {"timeout", queue.timeout > Duration{0} ? time_text(queue.timeout) : std::string()},
          {"bound", timeout_for(*median)}});
  }

  // Generous, and in whole seconds.
  static std::string timeout_for(Duration median) {
    return std::to_string(std::max<Duration::rep>(30 * median.count() / 1000, 60)) + "s";
  }

  void judge_waiting(const Queue& queue, const store::Counts& counts) {
    const std::uint64_t waiting = count_of(counts, State::waiting);
    if (waiting == 0 || queue.ledger) return;
    const Facts facts{
        {"tasks", counted(waiting, "task")},
        {"oldest", counts.oldest_waiting ? time_text(*counts.oldest_waiting) : std::string()}};
    if (queue.paused) {
      find("paused", Severity::note, queue, facts);
      return;
    }
    if (counts.workers > 0) return;
    const bool long_since = !counts.oldest_waiting || *counts.oldest_waiting >= queue.lease;
    find(core::own_queue(queue.name) ? "nobody_works/flows" : "nobody_works",
         long_since ? Severity::warning : Severity::note, queue, facts);
  }

  void judge_doubt_and_dead(const Queue& queue, const Census& census, const store::Counts& counts) {
    if (census.unattended.count > 0)
      find(
          "doubt_unattended", Severity::warning, queue,
          {{"tasks", census.unattended.text("task")}, {"age", time_text(census.unattended.worst)}});
    if (census.doubtful.count > 0)
      find("in_doubt", Severity::note, queue, {{"tasks", census.doubtful.text("task")}});
    const std::uint64_t dead = std::max(count_of(counts, State::dead), census.dead.count);
    if (dead > 0)
      find("dead_letters", Severity::note, queue,
           {{"tasks", counted(dead, "dead letter") + census.dead.named(dead)}});
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
    if (!lost.empty()) find("record_lost", Severity::hazard, queue, {{"tasks", text_of(lost)}});
    if (found.empty()) return {};
    find("overlooked", workers > 0 ? Severity::note : Severity::warning, queue,
         {{"tasks", text_of(found)}});
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
    find("unrouted", Severity::warning, "topics",
         {{"tasks", all ? counted(*all, "task") : "at least " + counted(seen, "task")},
          {"topics", named}});
    return {};
  }

  static bool taken(const store::Entry& entry, const std::vector<Queue>& queues) {
    return std::any_of(queues.begin(), queues.end(), [&](const Queue& queue) {
      return !queue.ledger && queue.stream.empty() && core::matches(queue.topic, entry.topic) &&
             entry.sequence.value >= queue.from.value_or(0);
    });
  }

  // Where the store contradicts itself. What is cheap to see; a deep look sees everything.
  Result<void> look_at_damage() {
    const auto depth = options_.deep ? store::Store::Depth::deep : store::Store::Depth::quick;
    std::uint64_t all = 0;
    std::string after;
    do {
      auto page = store_.verify(depth, after);
      if (!page) return page.error();
      for (const store::Damage& damage : page->damages)
        if (++all <= kDamages)
          find("contradiction", Severity::hazard,
               damage.queue.empty() ? std::string("zone") : "queue " + damage.queue,
               {{"queue", damage.queue}, {"damage", damage.what}, {"harm", damage.harm}});
      after = std::move(page->next);
    } while (!after.empty());
    if (all > kDamages)
      find("contradiction/more", Severity::hazard, "zone",
           {{"count", std::to_string(all - kDamages)}});
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
      find("ids_kept_briefly", Severity::warning, "retention", {{"kept", time_text(kept)}});
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
    find("unreadable", Severity::warning, at, {{"error", looked.error().message}});
    return {};
  }
  // "3 tasks (#7, ...)"
  static std::string text_of(const std::vector<Sequence>& tasks) {
    return counted(tasks.size(), "task") + " (#" + std::to_string(tasks.front().value) +
           (tasks.size() > 1 ? ", ..." : "") + ")";
  }
  void find(std::string_view key, Severity severity, std::string about, Facts facts) {
    found_.push_back(core::finding(key, severity, std::move(about), std::move(facts)));
  }
  // The queue is a fact of its own.
  void find(std::string_view key, Severity severity, const Queue& queue, const Facts& facts) {
    find(key, severity, about(queue), core::together({{"queue", queue.name}}, facts));
  }

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
