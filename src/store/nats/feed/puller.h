// Pulls messages from a queue's two consumers: one for its entries, one for its wakes. begin() and
// gather() get the messages that are there now. wait() leaves a pull at the server until a message
// arrives. PullInboxes sends the pulls. Any thread may call it.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "store/nats/feed/acknowledgements.h"
#include "store/nats/queues/queue_consumers.h"
#include "store/nats/watch.h"

namespace once::store::nats {

class Puller {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  Puller(ZoneConnection& zone, QueueConsumers& consumers, Watch& watch,
         Acknowledgements& acknowledgements, Redelivery& redelivery)
      : zone_(zone),
        consumers_(consumers),
        watch_(watch),
        acknowledgements_(acknowledgements),
        redelivery_(redelivery) {}

  // A pull that was sent.
  struct Pull {
    std::shared_ptr<Bell> bell{};            // shared with PullInboxes
    std::shared_ptr<PendingPull> pending{};  // shared with PullInboxes; null if it was not sent
    std::size_t limit{};
    bool wakes = false;
  };
  struct Pulls {
    std::string consumer{};
    Pull wakes{};
    Pull fresh{};
  };
  // Sends two pulls for messages that are there now.
  Pulls begin(const KnownQueue& queue, const Fetch& request);
  // Gives all messages of the pulls back to the server.
  void abandon(const Pulls& pulls);
  // Waits for the pulls and returns their messages, for at most request.limit entries. Gives the
  // other messages back.
  Result<std::vector<PulledMessage>> gather(const KnownQueue& queue, Pulls pulls,
                                            const Fetch& request);
  // Waits for the first message until the deadline, a stop, or more rings than `rings`.
  Result<std::vector<PulledMessage>> wait(const KnownQueue& queue, const Fetch& request,
                                          const std::shared_ptr<Bell>& bell, std::uint64_t rings,
                                          Deadline deadline);
  // Whether the stream has a message that the consumer does not know yet. The server tells a
  // consumer of a message shortly after it has answered the publisher.
  bool behind(const KnownQueue& queue, bool wakes) const;
  // Whether the consumer of the wakes has something to deliver.
  bool has_wakes(const KnownQueue& queue) const;

 private:
  // A pull that waits at the server.
  struct Waiting {
    std::string subject{};
    std::shared_ptr<PendingPull> pending{};
  };
  Pull begin_one(const KnownQueue& queue, bool wakes, std::size_t limit);
  Result<std::vector<PulledMessage>> end_one(const KnownQueue& queue, const Pull& pull);
  std::vector<Message> messages_of(const Pull& pull);
  Waiting leave_pull(std::string subject, const std::shared_ptr<Bell>& bell,
                     std::vector<Message>& messages);
  // Returns true if the server refused a pull.
  bool wait_on(std::span<const Waiting> pulls, const KnownQueue& queue, const Fetch& request,
               Bell& bell, std::uint64_t rings, Deadline deadline, std::vector<Message>& messages);
  // Takes the messages that have arrived. Returns true if a pull has ended. Sets `refused` if the
  // server refused it.
  bool take(std::span<const Waiting> pulls, std::vector<Message>& messages, bool& refused);
  void put_back(std::vector<Waiting> pulls, std::vector<Message>& messages);
  std::vector<PulledMessage> pulled(const KnownQueue& queue, std::span<const Message> messages);
  Result<void> restore(const KnownQueue& queue);

  ZoneConnection& zone_;
  QueueConsumers& consumers_;
  Watch& watch_;
  Acknowledgements& acknowledgements_;
  Redelivery& redelivery_;
  std::atomic<std::size_t> task_size_{512 << 10};  // the largest recent task; at first a guess
  std::mutex mutex_;
  // By the consumer's subject.
  std::map<std::string, std::vector<std::shared_ptr<PendingPull>>> idle_;
};

}  // namespace once::store::nats
