#include "store/nats/queues/members.h"

#include <condition_variable>
#include <thread>

namespace once::store::nats {
namespace {

constexpr std::chrono::seconds kRenewEvery{5};
constexpr const char* kMemberLives = "15s";
constexpr const char* kGone = "1s";

// A number that nobody uses and a record that expires do no harm, so a write without an answer is
// not in doubt.
Error not_joined(const PublishResult& published) {
  if (published.kind != PublishResult::Kind::unknown) return failure_of(published);
  return {.code = Code::store_unavailable,
          .message = "the NATS server did not confirm that it stored this worker's presence (" +
                     published.text + "); nothing was claimed",
          .retryable = true};
}

class NatsMembership final : public Membership {
 public:
  NatsMembership(std::shared_ptr<ZoneConnection> zone, std::shared_ptr<JoinedQueues> joined,
                 Member number, std::string subject, std::string worker)
      : zone_(std::move(zone)),
        joined_(std::move(joined)),
        number_(number),
        message_{.subject = std::move(subject),
                 .data = std::move(worker),
                 .headers = {{"Nats-TTL", kMemberLives}}},
        renewing_([this](const std::stop_token& stop) { renew(stop); }) {}
  ~NatsMembership() override {
    renewing_.request_stop();
    renewing_.join();
    // Overwritten, not deleted: who may delete here could delete the queues.
    message_.headers = {{"Nats-TTL", kGone}, {kLeft, "1"}};
    static_cast<void>(zone_->client.publish(message_));
    joined_->left(number_);
  }
  NatsMembership(const NatsMembership&) = delete;
  NatsMembership& operator=(const NatsMembership&) = delete;

  Member number() const override { return number_; }
  int inheritable_fd() const override { return -1; }

 private:
  void renew(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any asleep;
    std::unique_lock lock(mutex);
    while (!asleep.wait_for(lock, stop, kRenewEvery, [&] { return stop.stop_requested(); }))
      static_cast<void>(zone_->client.publish(message_));
  }

  std::shared_ptr<ZoneConnection> zone_;  // shared with the store, which may go first
  std::shared_ptr<JoinedQueues> joined_;  // the same
  Member number_;
  Outgoing message_;
  std::jthread renewing_;
};

}  // namespace

void JoinedQueues::joined(Member member, std::string consumer) {
  const std::lock_guard lock(mutex_);
  consumers_[member] = std::move(consumer);
}

void JoinedQueues::left(Member member) {
  const std::lock_guard lock(mutex_);
  consumers_.erase(member);
}

bool JoinedQueues::may_fetch(Member member, const KnownQueue& queue) const {
  const std::lock_guard lock(mutex_);
  const auto found = consumers_.find(member);
  return found == consumers_.end() || found->second == queue.consumer();
}

Result<void> Members::may_fetch(Member member, const KnownQueue& queue) const {
  if (joined_->may_fetch(member, queue)) return {};
  return no_queue(queue.definition.name);
}

Result<std::unique_ptr<Membership>> Members::join(std::string_view name, std::string_view worker) {
  const auto queue = registry_.must_know(name);
  if (!queue) return queue.error();
  const PublishResult counted = zone_->client.publish(
      {.subject = zone_->subjects.members(), .headers = {{"Nats-Incr", "+1"}}});
  if (counted.kind != PublishResult::Kind::stored) return not_joined(counted);
  const Member number{std::strtoull(counted.value.c_str(), nullptr, 10)};
  const std::string subject = zone_->subjects.worker_root(*queue) + counted.value;
  const PublishResult here = zone_->client.publish(
      {.subject = subject, .data = std::string(worker), .headers = {{"Nats-TTL", kMemberLives}}});
  if (here.kind != PublishResult::Kind::stored) return not_joined(here);
  if (auto restored = consumers_.restore(*queue); !restored) return restored.error();
  joined_->joined(number, queue->consumer());
  watch_.note_worker();
  return std::unique_ptr<Membership>(
      std::make_unique<NatsMembership>(zone_, joined_, number, subject, std::string(worker)));
}

// A server that was killed may keep records long after their time: what counts is their age, by the
// clock of the server that stamped them.
Result<std::uint64_t> Members::workers(const KnownQueue& queue) const {
  const std::string stream = zone_->subjects.meta_stream();
  const auto joined = zone_->client.all(stream, zone_->subjects.worker_root(queue) + "*");
  if (!joined) return joined.error();
  if (joined->empty()) return 0;
  const auto info = zone_->client.call("STREAM.INFO." + stream, "");
  if (!info) return info.error();
  if (info->error != 0) return refused("the stream " + stream, *info);
  const auto time = time_from(text_of(info->json, "ts"));
  std::uint64_t alive = 0;
  for (const StreamMessage& worker : *joined) {
    const std::string* lives = worker.header("Nats-TTL");
    const std::chrono::seconds ttl{
        std::strtoll(lives ? lives->c_str() : kMemberLives, nullptr, 10)};
    if (!worker.header(kLeft) && (!time || *time < worker.time + ttl)) ++alive;
  }
  return alive;
}

}  // namespace once::store::nats
