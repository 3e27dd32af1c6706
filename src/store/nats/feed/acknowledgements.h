// Answers deliveries by +ACK, or by -NAK with a delay. The server keeps the delay exactly, and a
// later NAK replaces it. So a NAK also sets when the server delivers a running task again, at the
// end of its lease.
//
// Acknowledgements are not fenced: the last answer decides when the entry is delivered again. It
// decides nothing else. The ledger decides whether a task runs. Any thread may call it.
#pragma once

#include <span>

#include "store/nats/feed/redelivery.h"

namespace once::store::nats {

struct Answering {
  std::string consumer{};
  PulledMessage message{};          // only its reply, if the message is not at hand
  std::optional<Duration> again{};  // the delay of a NAK; nullopt: ACK
};

class Acknowledgements {
 public:
  Acknowledgements(ZoneConnection& zone, Redelivery& redelivery)
      : zone_(zone), redelivery_(redelivery) {}

  // Waits until the server has the answers. An error means that the server forbids them. If an
  // answer is lost, the server delivers the message again after the lease.
  Result<void> send(std::vector<Answering> answers);
  // Does not wait for the server. The records are durable, so a lost answer does no harm.
  void send_and_go_on(std::vector<Answering> answers);
  Result<void> settle(std::span<const Settlement> items);
  // Adds the answers to the deliveries in the swap's handle. The swap's record is durable now, and
  // look_again() of that record gives the answer.
  void answer_swap(const KnownQueue& queue, const Swap& item, const Stored& stored,
                   std::vector<Answering>& answers);
  // The answers that make the server deliver all of the messages again at once.
  static std::vector<Answering> given_back(const std::string& consumer,
                                           std::vector<PulledMessage> messages);

 private:
  std::vector<Outgoing> to_send(std::vector<Answering> answers);
  // A claim has applied an order. Replaces its wake by one without the order, or removes it.
  void spend_order(const KnownQueue& queue, Sequence sequence, const std::string& reply,
                   std::optional<Duration> again);

  ZoneConnection& zone_;
  Redelivery& redelivery_;
};

}  // namespace once::store::nats
