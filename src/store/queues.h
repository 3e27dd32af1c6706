// The queues of a zone, and the workers that have joined them.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "once/task.h"

namespace once::store {

using core::Member;

// A worker's presence in a queue. As long as the worker or a program that inherited its lock runs,
// the store knows that the worker's claims are held. A store without such a lock uses only leases.
class Membership {
 public:
  virtual ~Membership() = default;
  virtual Member number() const = 0;
  virtual int inheritable_fd() const = 0;  // the lock that programs inherit; -1 if there is none
};

// The error of add_queue() for a queue on a stream of others, in a store that has no streams.
inline Error has_no_streams(const Queue& queue) {
  return {
      .code = Code::invalid_input,
      .message = "queue '" + queue.name + "': the stream '" + queue.stream +
                 "' can only be taken by a zone on NATS JetStream; nothing was added. Open such "
                 "a zone, or leave out the stream.",
      .reason = Reason::stream_needs_nats,
      .facts = {{"queue", queue.name}, {"stream", queue.stream}}};
}

class Queues {
 public:
  virtual ~Queues() = default;
  struct QueueAdded {
    bool added = false;  // false: the name is taken by `existing`, which did not change
    Queue existing{};
    std::uint64_t found{};  // tasks of the log that it matches
  };
  virtual Result<QueueAdded> add_queue(const Queue& queue) = 0;
  // Replaces the definition of the queue of that name if it is `expected`. Returns false if it is
  // another one. The caller ensures that topic, key, from, stream and ledger do not change. Waiting
  // fetches see the change at once. The same call again finishes a change that was cut off.
  virtual Result<bool> set_queue(const Queue& queue, const Queue& expected) = 0;
  virtual Result<std::vector<Queue>> queues() = 0;
  virtual Result<void> remove_queue(std::string_view name) = 0;

  virtual Result<std::unique_ptr<Membership>> join(std::string_view queue,
                                                   std::string_view worker) = 0;
};

}  // namespace once::store
