#include "work/housekeeper.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <mutex>

#include "codec/key_template.h"
#include "codec/step_headers.h"

namespace once::engine {
namespace {

constexpr Duration kLook = std::chrono::seconds{15};  // between two looks at whose turn it is
constexpr Duration kFirstLook = std::chrono::seconds{1};
constexpr Duration kSweepEvery = std::chrono::minutes{1};
constexpr Duration kFromStartEvery = std::chrono::hours{1};  // a sweep of everything
constexpr Duration kRetireEvery = std::chrono::hours{1};
constexpr Duration kLease = std::chrono::minutes{10};  // of one round
constexpr int kRestPerRound = 20;
constexpr std::size_t kSweepPage = 500;

constexpr const char* kRecordLost =
    "its record is gone from the ledger, and it was handed over before: it may have run";

// Holds tasks whose record was lost. Writes the record under the key, where a claim finds it.
// Returns the tasks that a claim can judge itself: another task has the key, or there is no body to
// run.
Result<std::vector<core::Sequence>> hold_unrecorded(store::Store& store, const std::string& name,
                                                    std::span<const core::Sequence> sequences) {
  std::vector<core::Sequence> left;
  const auto queues = store.queues();
  if (!queues) return queues.error();
  const auto queue = std::find_if(queues->begin(), queues->end(),
                                  [&](const Queue& each) { return each.name == name; });
  if (queue == queues->end()) return left;
  const auto keys = encoding::KeyTemplate::of(*queue);
  if (!keys) return keys.error();
  LedgerWriter writer(store, core::policy_of(*queue));
  for (const core::Sequence sequence : sequences) {
    const auto entry = store.entry(name, sequence);
    if (!entry) return entry.error();
    if (!*entry || !(*entry)->body) {
      left.push_back(sequence);
      continue;
    }
    const store::Entry& task = **entry;
    auto key = keys->key(task.id, task.topic, *task.body, task.headers);
    if (!key) {
      left.push_back(sequence);
      continue;
    }
    core::SetAside aside{.sequence = sequence,
                         .digest = task.digest,
                         .state = State::in_doubt,
                         .reason = kRecordLost};
    if (auto step =
            queue->stream.empty() ? encoding::read_step(task.headers, name) : std::nullopt) {
      aside.reply = encoding::reply_to(*step);
      aside.own = std::move(step->policy);
    }
    const auto written =
        writer.write({.at = {.queue = name, .key = std::move(*key), .sequence = sequence},
                      .command = std::move(aside)});
    if (!written && written.error().code != Code::wrong_state) return written.error();
    if (!written || written->decision.verdict == core::Verdict::fenced) left.push_back(sequence);
  }
  return left;
}

}  // namespace

core::Sequence& SweepFloor::at(Moment now) {
  if (now >= falls_at_) {
    floor_ = {};
    falls_at_ = now + kFromStartEvery;
  }
  return floor_;
}

Housekeeper::Housekeeper(store::Store& store, Scheduler& scheduler, std::string queue,
                         std::string worker, core::Member member, std::vector<Duty> others)
    : store_(store),
      scheduler_(scheduler),
      queue_(std::move(queue)),
      worker_(std::move(worker)),
      member_(member),
      writer_(store, {.lease = kLease,
                      .attempts = std::numeric_limits<std::uint32_t>::max(),
                      .backoff = {kSweepEvery}}),
      mutex_(scheduler.mutex()),
      wake_(mutex_->condition()),
      duties_(std::move(others)) {
  duties_.push_back({.name = "sweep", .every = kSweepEvery, .work = [this](const auto& ending) {
                       return static_cast<bool>(
                           sweep(store_, queue_, floor_.at(scheduler_.now()), ending));
                     }});
  duties_.push_back(
      {.name = "retention", .every = kRetireEvery, .work = [this](const auto& ending) {
         const auto retired = retire(store_, ending);
         // The login of this worker may not be allowed to remove data. Then another process does
         // it.
         return retired || retired.error().code == Code::store_unusable;
       }});
  activity_ = scheduler.spawn([this] { run(); });
}

Housekeeper::~Housekeeper() {
  {
    std::lock_guard lock(*mutex_);
    ending_ = true;
    wake_->notify_all();
  }
  activity_.reset();
}

bool Housekeeper::ending() {
  std::lock_guard lock(*mutex_);
  return ending_;
}

void Housekeeper::run() {
  Moment next = scheduler_.now() + kFirstLook;
  std::unique_lock lock(*mutex_);
  while (!ending_) {
    if (scheduler_.now() < next) {
      wake_->wait(next);
      continue;
    }
    lock.unlock();
    for (const Duty& duty : duties_)
      if (!ending()) attend(duty);
    next = scheduler_.now() + kLook;
    lock.lock();
  }
}

Duration Housekeeper::rest(Duration every, Duration took) {
  return std::max(every, kRestPerRound * took);
}

// The same record elects the housekeeper and stores when its next round is due. The first worker
// that claims it when it is due runs the round, and then sets the next time. A round that was not
// finished is due again at once. For a new queue, only the first time is set.
void Housekeeper::attend(const Duty& duty) {
  const store::Address at{.kind = store::Address::Kind::lone, .queue = queue_, .key = duty.name};
  auto known = std::move(store_.get(std::span(&at, 1)).front());
  if (!known) return;
  const bool is_new = !*known;
  core::Nonce nonce;
  scheduler_.random_bytes(nonce.bytes.data(), nonce.bytes.size());
  auto claimed =
      writer_.write({.at = at,
                     .known = std::move(*known),
                     .command = core::Claim{.worker = worker_, .member = member_, .nonce = nonce}});
  if (!claimed || claimed->decision.verdict != core::Verdict::claimed) return;
  const Moment begun = scheduler_.now();
  const bool well = is_new || (duty.work([this] { return ending(); }) && !ending());
  // If the process was suspended meanwhile, that time does not count as work.
  const auto took = std::min(std::chrono::ceil<Duration>(scheduler_.now() - begun), kLease);
  core::Command done = core::Fail{.nonce = nonce, .retry_in = rest(duty.every, took)};
  if (!well) done = core::Release{.nonce = nonce};
  // If this cannot be written, the duty is due again when its lease expires.
  static_cast<void>(
      writer_.write({.at = at, .known = std::move(claimed->stored), .command = std::move(done)}));
}

Result<std::uint64_t> Housekeeper::sweep(store::Store& store, const std::string& queue,
                                         core::Sequence& floor,
                                         const std::function<bool()>& ending) {
  std::uint64_t woken = 0;
  core::Sequence after = floor;
  while (!ending()) {
    auto page = store.overlooked(queue, after, kSweepPage);
    if (!page) return page.error();
    if (after == floor) floor = page->settled;
    std::vector<core::Sequence> to_wake;
    std::set_difference(page->sequences.begin(), page->sequences.end(), page->unrecorded.begin(),
                        page->unrecorded.end(), std::back_inserter(to_wake));
    if (!page->unrecorded.empty()) {
      const auto left = hold_unrecorded(store, queue, page->unrecorded);
      if (!left) return left.error();
      to_wake.insert(to_wake.end(), left->begin(), left->end());
    }
    if (!to_wake.empty()) {
      std::vector<store::Wake> wakes;
      for (const core::Sequence sequence : to_wake) wakes.push_back({.sequence = sequence});
      if (auto done = store.wake(queue, wakes); !done) return done.error();
      woken += to_wake.size();
    }
    if (!page->next) break;
    after = page->next;
  }
  return woken;
}

Result<Retired> Housekeeper::retire(store::Store& store, const std::function<bool()>& ending) {
  Retired total;
  core::Sequence after{};
  while (!ending()) {
    auto page = store.retire(after, kSweepPage);
    if (!page) return page.error();
    total.bodies += page->retired.bodies;
    total.records += page->retired.records;
    total.ids += page->retired.ids;
    if (!page->next) break;
    after = page->next;
  }
  return total;
}

}  // namespace once::engine
