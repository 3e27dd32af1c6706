#include "store/nats/feed/acknowledgements.h"

#include <algorithm>

namespace once::store::nats {

std::vector<Outgoing> Acknowledgements::to_send(std::vector<Answering> answers) {
  std::vector<Outgoing> messages;
  for (Answering& each : answers) {
    const std::string reply = each.message.reply;
    if (each.again && redelivery_.put_off(each.consumer, each.message, *each.again, zone_.clock))
      continue;
    redelivery_.answered(reply);
    messages.push_back({.subject = reply, .data = each.again ? nak(*each.again) : "+ACK"});
  }
  return messages;
}

Result<void> Acknowledgements::send(std::vector<Answering> answers) {
  const auto messages = to_send(std::move(answers));
  for (const RequestMux::Answer& each : zone_.mux->ask(messages, zone_.client.patience()))
    if (!each.denied.empty()) return not_permitted(each.denied);
  return {};
}

void Acknowledgements::send_and_go_on(std::vector<Answering> answers) {
  zone_.mux->tell(to_send(std::move(answers)));
}

Result<void> Acknowledgements::settle(std::span<const Settlement> items) {
  std::vector<Answering> answers;
  for (const Settlement& item : items)
    for (Reply& reply : replies_of(item.handle))
      answers.push_back({.message = {.reply = std::move(reply.subject)}, .again = item.again});
  return send(std::move(answers));
}

void Acknowledgements::answer_swap(const KnownQueue& queue, const Swap& item, const Stored& stored,
                                   std::vector<Answering>& answers) {
  const auto again = core::look_again(stored.record);
  const bool its_own =
      item.at.kind == Address::Kind::entry || stored.record.sequence == item.at.sequence;
  for (Reply& reply : replies_of(item.handle)) {
    if (reply.order && (its_own || !again))
      spend_order(queue, item.at.sequence, reply.subject, again);
    else
      answers.push_back({.message = {.reply = std::move(reply.subject)}, .again = again});
  }
}

void Acknowledgements::spend_order(const KnownQueue& queue, Sequence sequence,
                                   const std::string& reply, std::optional<Duration> again) {
  const auto delivery = ack_subject(reply);
  if (!delivery) return;
  const std::string subject = zone_.subjects.wake(queue, sequence);
  const auto wake = zone_.client.last(zone_.subjects.wake_stream(), subject);
  // If the wake cannot be read, the order is delivered again. Its nonce is in the story, so it is
  // not applied twice.
  if (!wake) return;
  const bool another =
      *wake && (*wake)->sequence != delivery->sequence && (*wake)->header("Once-Order") != nullptr;
  redelivery_.answered(reply);
  if (another) return;
  if (again) {
    Outgoing look = wake_message(subject, {.sequence = sequence, .after = zone_.now() + *again},
                                 *wake ? (*wake)->sequence : 0);
    zone_.clock.stamp(look.headers);
    static_cast<void>(zone_.client.publish(look));
  } else if (*wake) {
    static_cast<void>(zone_.client.remove(zone_.subjects.wake_stream(), (*wake)->sequence));
    redelivery_.wake_removed(queue.consumer(), sequence);
  }
}

std::vector<Answering> Acknowledgements::given_back(const std::string& consumer,
                                                    std::vector<PulledMessage> messages) {
  std::vector<Answering> answers;
  for (PulledMessage& message : messages)
    answers.push_back({.consumer = consumer, .message = std::move(message), .again = Duration{0}});
  return answers;
}

}  // namespace once::store::nats
