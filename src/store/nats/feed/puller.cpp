#include "store/nats/feed/puller.h"

#include <algorithm>
#include <set>

namespace once::store::nats {
namespace {

using std::chrono::steady_clock;

constexpr Duration kPullExpires{10'000};   // the server ends a waiting pull after this
constexpr Duration kPullAnswered{13'000};  // if it has not ended by then, its node is gone
constexpr Duration kAfterRefusal{50};      // before the next pull, if the server refused one
constexpr std::size_t kMostAtOnce = 1000;
// A server disconnects a client that has 64 MiB of unread messages (max_pending). It delivers all
// of them again a lease later. The field max_bytes of a pull does not help, because a cluster
// refuses it with 409 for any size. So the limit of a pull depends on the size of recent tasks.
constexpr std::size_t kMostBytesAtOnce = 16 << 20;

std::string pull_subject(const Subjects& subjects, const KnownQueue& queue, bool wakes) {
  return "$JS.API.CONSUMER.MSG.NEXT." +
         (wakes ? subjects.wake_stream() : subjects.source_stream(queue)) + "." + queue.consumer();
}

}  // namespace

std::vector<PulledMessage> Puller::pulled(const KnownQueue& queue,
                                          std::span<const Message> messages) {
  std::vector<PulledMessage> found;
  for (const Message& message : messages)
    if (auto each = pulled_from(queue, message, zone_)) found.push_back(std::move(*each));
  return found;
}

// --- What is there now ------------------------------------------------------------------------

Puller::Pulls Puller::begin(const KnownQueue& queue, const Fetch& request) {
  return {.consumer = queue.consumer(),
          .wakes = begin_one(queue, true, std::min(request.limit, request.again)),
          .fresh = begin_one(queue, false, request.limit)};
}

Puller::Pull Puller::begin_one(const KnownQueue& queue, bool wakes, std::size_t limit) {
  const std::size_t room = std::max<std::size_t>(kMostBytesAtOnce / task_size_, 1);
  Pull pull{.bell = std::make_shared<Bell>(),
            .limit = std::min({limit, kMostAtOnce, room}),
            .wakes = wakes};
  if (pull.limit > 0)
    pull.pending = zone_.mux->pulls().pull(
        {.subject = pull_subject(zone_.subjects, queue, wakes),
         .data = "{\"batch\":" + std::to_string(pull.limit) + ",\"no_wait\":true}"},
        pull.limit, pull.bell);
  return pull;
}

std::vector<Message> Puller::messages_of(const Pull& pull) {
  const auto deadline = steady_clock::now() + zone_.client.patience();
  std::vector<Message> messages;
  while (true) {
    const std::uint64_t seen = pull.bell->rings();
    if (zone_.mux->pulls().take(*pull.pending, messages) || steady_clock::now() >= deadline) break;
    pull.bell->wait_until(seen, deadline, {});
  }
  zone_.mux->pulls().attend(*pull.pending, nullptr);
  zone_.mux->pulls().take(*pull.pending, messages);
  return messages;
}

// A new consumer marks every message as a first delivery. Only the ledger knows which tasks ran. So
// the ledger must be complete.
Result<void> Puller::restore(const KnownQueue& queue) {
  if (auto restored = consumers_.restore(queue); !restored) return restored;
  return watch_.ledger_is_whole();
}

Result<std::vector<PulledMessage>> Puller::end_one(const KnownQueue& queue, const Pull& pull) {
  if (pull.limit == 0) return std::vector<PulledMessage>{};
  if (!pull.pending)
    return Error{.code = Code::store_unavailable,
                 .message = "the NATS server at " + zone_.mux->where() +
                            " cannot be reached; nothing was fetched",
                 .retryable = true};
  const auto messages = messages_of(pull);
  if (!pull.wakes && !messages.empty()) {
    std::size_t largest = std::max<std::size_t>(task_size_ / 2, 1);
    for (const Message& message : messages) largest = std::max(largest, message.data().size());
    task_size_ = largest;
  }
  auto found = pulled(queue, messages);
  if (const std::string denied = zone_.mux->pulls().denied(*pull.pending); !denied.empty())
    return not_permitted(denied);
  if (zone_.mux->pulls().status_of(*pull.pending) == 503)
    if (auto restored = restore(queue); !restored) return restored.error();
  return found;
}

void Puller::abandon(const Pulls& pulls) {
  std::vector<Message> messages;
  for (const auto& pending : {pulls.wakes.pending, pulls.fresh.pending}) {
    if (!pending) continue;
    zone_.mux->pulls().attend(*pending, nullptr);
    zone_.mux->pulls().take(*pending, messages);
  }
  for (const Message& message : messages)
    zone_.mux->tell(std::string(message.reply()), nak(Duration{0}));
}

// Both pulls are in progress at the same time, so they may bring more than request.limit entries.
Result<std::vector<PulledMessage>> Puller::gather(const KnownQueue& queue, Pulls pulls,
                                                  const Fetch& request) {
  auto found = end_one(queue, pulls.wakes);
  auto fresh = end_one(queue, pulls.fresh);
  for (auto* well : {fresh ? nullptr : &found, found ? nullptr : &fresh}) {
    // One pull failed: the messages of the other one are given back.
    if (well && *well)
      acknowledgements_.send_and_go_on(
          Acknowledgements::given_back(queue.consumer(), std::move(**well)));
  }
  if (!found) return found;
  if (!fresh) return fresh;
  if (found->size() < request.limit) {
    auto due = redelivery_.take_due(queue.consumer(), zone_.clock, request.limit - found->size(),
                                    request.again - std::min(request.again, found->size()));
    std::move(due.begin(), due.end(), std::back_inserter(*found));
  }
  std::set<Sequence> entries;
  for (const PulledMessage& each : *found) entries.insert(each.sequence);
  std::vector<PulledMessage> surplus;
  for (PulledMessage& each : *fresh) {
    const bool wanted = entries.size() < request.limit || entries.contains(each.sequence);
    if (wanted) entries.insert(each.sequence);
    (wanted ? *found : surplus).push_back(std::move(each));
  }
  auto given =
      acknowledgements_.send(Acknowledgements::given_back(queue.consumer(), std::move(surplus)));
  if (!given) return given.error();
  return found;
}

bool Puller::behind(const KnownQueue& queue, bool wakes) const {
  const Subjects& subjects = zone_.subjects;
  const std::string stream = wakes ? subjects.wake_stream() : subjects.source_stream(queue);
  const auto info = zone_.client.call("CONSUMER.INFO." + stream + "." + queue.consumer(), "");
  if (!info || info->error != 0) return false;
  const encoding::Json* delivered = info->json.member("delivered");
  const std::uint64_t last = delivered ? number_of(*delivered, "stream_seq").value_or(0) : 0;
  const auto next = zone_.client.call(
      "STREAM.MSG.GET." + stream,
      "{\"seq\":" + std::to_string(last + 1) + ",\"next_by_subj\":" +
          json_string(wakes ? subjects.wakes(queue) : subjects.source_filter(queue)) + "}");
  return next && next->error == 0;
}

bool Puller::has_wakes(const KnownQueue& queue) const {
  const auto info = zone_.client.call(
      "CONSUMER.INFO." + zone_.subjects.wake_stream() + "." + queue.consumer(), "");
  return info && number_of(info->json, "num_pending").value_or(0) > 0;
}

// --- Waiting ----------------------------------------------------------------------------------

// Returns a pull that waits at the server: one that an earlier fetch left in idle_, or a new one.
// While a pull is in idle_, its messages are given back to the server.
Puller::Waiting Puller::leave_pull(std::string subject, const std::shared_ptr<Bell>& bell,
                                   std::vector<Message>& messages) {
  PullInboxes& inboxes = zone_.mux->pulls();
  Waiting pull{.subject = std::move(subject)};
  {
    const std::lock_guard lock(mutex_);
    auto& idle = idle_[pull.subject];
    if (!idle.empty()) {
      pull.pending = std::move(idle.back());
      idle.pop_back();
    }
  }
  if (pull.pending && pull.pending->sent_at + kPullAnswered < steady_clock::now()) {
    inboxes.give_up(*pull.pending);
    pull.pending.reset();
  }
  if (pull.pending) {
    inboxes.attend(*pull.pending, bell);
    if (inboxes.take(*pull.pending, messages)) pull.pending.reset();
  }
  if (!pull.pending)
    pull.pending = inboxes.pull(
        {.subject = pull.subject,
         .data = "{\"batch\":1,\"expires\":" + std::to_string(kPullExpires.count()) + "000000}"},
        1, bell);
  return pull;
}

bool Puller::take(std::span<const Waiting> pulls, std::vector<Message>& messages, bool& refused) {
  bool ended = refused;
  for (const Waiting& pull : pulls)
    if (zone_.mux->pulls().take(*pull.pending, messages)) {
      ended = true;
      const int status = zone_.mux->pulls().status_of(*pull.pending);
      refused = refused || (status != 0 && status != 408);
    }
  return ended;
}

bool Puller::wait_on(std::span<const Waiting> pulls, const KnownQueue& queue, const Fetch& request,
                     Bell& bell, std::uint64_t rings, Deadline deadline,
                     std::vector<Message>& messages) {
  const auto look_every = redelivery_.look_every();
  bool refused = pulls.empty();
  while (messages.empty()) {
    const bool ended = take(pulls, messages, refused);
    if (!messages.empty() || ended || steady_clock::now() >= deadline ||
        request.stop.stop_requested() || redelivery_.is_due(queue.consumer(), zone_.clock) ||
        bell.rings() != rings)
      break;
    auto until = deadline;
    // If the node that holds the pull died, the server does not end the pull.
    for (const Waiting& pull : pulls)
      until = std::min(until, pull.pending->sent_at + kPullAnswered);
    if (look_every) until = std::min(until, steady_clock::now() + *look_every);
    bell.wait_until(rings, until, request.stop);
    if (steady_clock::now() >= until && until < deadline && !look_every) break;
  }
  return refused;
}

void Puller::put_back(std::vector<Waiting> pulls, std::vector<Message>& messages) {
  for (Waiting& pull : pulls) {
    zone_.mux->pulls().attend(*pull.pending, nullptr);
    if (zone_.mux->pulls().take(*pull.pending, messages)) continue;
    const std::lock_guard lock(mutex_);
    idle_[pull.subject].push_back(std::move(pull.pending));
  }
}

Result<std::vector<PulledMessage>> Puller::wait(const KnownQueue& queue, const Fetch& request,
                                                const std::shared_ptr<Bell>& bell,
                                                std::uint64_t rings, Deadline deadline) {
  std::vector<Waiting> pulls;
  std::vector<Message> messages;
  for (const bool wakes : {true, false}) {
    if (wakes && request.again == 0) continue;
    Waiting pull = leave_pull(pull_subject(zone_.subjects, queue, wakes), bell, messages);
    if (pull.pending) pulls.push_back(std::move(pull));
  }
  const bool refused = wait_on(pulls, queue, request, *bell, rings, deadline, messages);
  put_back(std::move(pulls), messages);
  if (refused && messages.empty())
    bell->wait_until(bell->rings(), std::min(deadline, steady_clock::now() + kAfterRefusal),
                     request.stop);
  return pulled(queue, messages);
}

}  // namespace once::store::nats
