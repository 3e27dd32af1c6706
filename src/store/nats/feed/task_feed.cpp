#include "store/nats/feed/task_feed.h"

#include <algorithm>
#include <chrono>

namespace once::store::nats {
namespace {

using std::chrono::steady_clock;

constexpr Duration kLongestWait{std::chrono::hours{24 * 365}};
constexpr Duration kHears{10'000};  // a new consumer knows all messages of its stream after this
constexpr Duration kCounts{2'000};  // it has usually counted them after this
constexpr Duration kInsists{500};
constexpr Duration kStillKnown{100};      // how long a definition that was read is relied on
constexpr Duration kBetweenFeedLooks{5};  // between looks for a wake that is not delivered yet

bool is_open(const KnownQueue& queue) {
  return !queue.definition.paused && !queue.definition.ledger;
}

}  // namespace

Result<void> TaskFeed::may_hand_over(const KnownQueue& queue, const Fetch& request) const {
  if (auto may = watch_.may_begin(); !may) return may;
  return members_.may_fetch(request.member, queue);
}

Definitions TaskFeed::definitions_since(steady_clock::time_point known_at,
                                        std::uint64_t news) const {
  const bool known = news_.told() == news && steady_clock::now() - known_at <= kStillKnown;
  return known ? Definitions::known : Definitions::ask;
}

// The pulls go out with the records. The store claims the pulled tasks after all records are written,
// because a worker that could not record has no room for more.
Store::CommitResult TaskFeed::commit(std::span<const Swap> records, const Fetch& request) {
  if (records.empty()) return {.delivered = fetch(request)};
  const auto last = registry_.remembered(request.queue);
  if (!last || !is_open(*last) || request.limit == 0) return {.swapped = ledger_.swap(records)};
  const auto known_at = steady_clock::now();
  const std::uint64_t heard = news_.told();
  Puller::Pulls pulls = puller_.begin(*last, request);
  Store::CommitResult both{.swapped = ledger_.swap(records)};  // also reads the definition anew
  const bool recorded = std::all_of(both.swapped.begin(), both.swapped.end(),
                                    [](const auto& each) { return each && each->written; });
  const auto queue = registry_.remembered(request.queue);
  if (!recorded || request.stop.stop_requested() || !queue || !is_open(*queue) ||
      queue->consumer() != pulls.consumer || !may_hand_over(*queue, request)) {
    puller_.abandon(pulls);
    return both;
  }
  auto messages = puller_.gather(*queue, std::move(pulls), request);
  if (!messages) {
    both.delivered = messages.error();
    return both;
  }
  both.delivered = handover_.hand_over(*queue, request, std::move(*messages),
                                       definitions_since(known_at, heard));
  return both;
}

// The state of one fetch: the queue's definition, the pulls in progress, and what they brought.
class TaskFeed::Call {
 public:
  Call(TaskFeed& feed, const Fetch& request)
      : feed_(feed),
        request_(request),
        deadline_(steady_clock::now() + std::min(request.wait, kLongestWait)) {}
  ~Call() { abandon(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Result<std::vector<Delivery>> run();

 private:
  bool stopped() const { return request_.stop.stop_requested(); }
  bool waits() const { return request_.wait > Duration{0}; }
  Result<void> look_at_queue();
  void abandon();
  void give_back();
  Result<void> gather();
  // nullopt if nothing was handed over.
  Result<std::optional<std::vector<Delivery>>> hand_over();
  bool may_be_late() const;
  Result<void> wait_until(steady_clock::time_point deadline);

  TaskFeed& feed_;
  const Fetch& request_;
  const steady_clock::time_point deadline_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  const QueueNews::Waiting waiting_{feed_.news_, bell_};
  std::uint64_t rings_{};  // bell_->rings() when the round began
  std::optional<KnownQueue> queue_;
  steady_clock::time_point known_at_{};  // when queue_ was read
  std::uint64_t heard_{};                // news_.told() when queue_ was read
  bool just_asked_ = false;              // queue_ was read in this round
  std::optional<Puller::Pulls> pulls_;   // in progress
  std::vector<PulledMessage> messages_;
  bool all_put_off_ = false;
};

// Reads the queue's definition, except for messages that a wait brought while there was no news.
// For those the claim checks the definition.
Result<void> TaskFeed::Call::look_at_queue() {
  const std::uint64_t news = feed_.news_.told();
  just_asked_ = !queue_ || messages_.empty() || news != heard_;
  if (!just_asked_) return {};
  // The pulls are sent before the definition is read, so that both take one round trip.
  const auto last = feed_.registry_.remembered(request_.queue);
  if (waits() && messages_.empty() && request_.limit > 0 && last && is_open(*last))
    pulls_ = feed_.puller_.begin(*last, request_);
  auto known = feed_.registry_.must_know(request_.queue);
  if (!known) return known.error();
  queue_ = std::move(*known);
  heard_ = news;
  known_at_ = steady_clock::now();
  if (pulls_ && pulls_->consumer != queue_->consumer()) abandon();
  return {};
}

void TaskFeed::Call::abandon() {
  if (pulls_) feed_.puller_.abandon(*pulls_);
  pulls_.reset();
}

void TaskFeed::Call::give_back() {
  abandon();
  static_cast<void>(feed_.acknowledgements_.send(
      Acknowledgements::given_back(queue_->consumer(), std::exchange(messages_, {}))));
}

Result<void> TaskFeed::Call::gather() {
  // A fetch that does not wait must not get an entry before the wake that carries an order for it.
  if (!waits() && request_.again > 0)
    while (steady_clock::now() < deadline_ + kCounts && !feed_.puller_.has_wakes(*queue_) &&
           feed_.puller_.behind(*queue_, true))
      bell_->wait_until(bell_->rings(), steady_clock::now() + kBetweenFeedLooks, request_.stop);
  if (!messages_.empty()) return {};
  if (!pulls_) pulls_ = feed_.puller_.begin(*queue_, request_);
  auto gathered = feed_.puller_.gather(*queue_, *std::exchange(pulls_, std::nullopt), request_);
  if (!gathered) return gathered.error();
  messages_ = std::move(*gathered);
  return {};
}

Result<std::optional<std::vector<Delivery>>> TaskFeed::Call::hand_over() {
  if (auto gathered = gather(); !gathered) return gathered.error();
  if (stopped()) {
    give_back();
    return std::optional(std::vector<Delivery>{});
  }
  all_put_off_ = !messages_.empty();
  const auto definitions =
      just_asked_ ? feed_.definitions_since(known_at_, heard_) : Definitions::ask;
  auto deliveries =
      feed_.handover_.hand_over(*queue_, request_, std::exchange(messages_, {}), definitions);
  if (!deliveries) return deliveries.error();
  if (deliveries->empty()) return std::optional<std::vector<Delivery>>{};
  return std::optional(std::move(*deliveries));
}

// The server tells a consumer of a message shortly after it has answered the publisher. Without
// this check, a fetch that does not wait could miss a message that was published before it.
bool TaskFeed::Call::may_be_late() const {
  return !waits() && steady_clock::now() < deadline_ + kHears &&
         (feed_.puller_.behind(*queue_, false) ||
          (request_.again > 0 && feed_.puller_.behind(*queue_, true)));
}

Result<void> TaskFeed::Call::wait_until(steady_clock::time_point deadline) {
  auto waited = feed_.puller_.wait(*queue_, request_, bell_, rings_, deadline);
  if (!waited) return waited.error();
  messages_ = std::move(*waited);
  return {};
}

Result<std::vector<Delivery>> TaskFeed::Call::run() {
  while (true) {
    rings_ = bell_->rings();
    if (auto looked = look_at_queue(); !looked) return looked.error();
    if (auto may = feed_.may_hand_over(*queue_, request_); !may) return may.error();
    const bool closed = !is_open(*queue_);
    if (closed || stopped()) give_back();
    if (stopped() || request_.limit == 0) return std::vector<Delivery>{};
    if (!closed) {
      auto handed = hand_over();
      if (!handed) return handed.error();
      if (*handed) return std::move(**handed);
      if (all_put_off_) continue;  // there may be more behind them
    }
    Result<void> waited;
    if (steady_clock::now() < deadline_) {
      if (closed)
        bell_->wait_until(rings_, deadline_, request_.stop);
      else
        waited = wait_until(deadline_);
    } else {
      if (closed || !may_be_late()) return std::vector<Delivery>{};
      // A consumer that counts too few messages refuses a pull that does not wait. A pull that
      // waits at the server gets the message.
      if (steady_clock::now() >= deadline_ + kCounts)
        waited = wait_until(steady_clock::now() + kInsists);
    }
    if (!waited) return waited.error();
  }
}

Result<std::vector<Delivery>> TaskFeed::fetch(const Fetch& request) {
  if (request.wait > Duration{0}) news_.listen();
  return Call(*this, request).run();
}

}  // namespace once::store::nats
