#include "store/nats/queues/queue_consumers.h"

namespace once::store::nats {
namespace {}  // namespace

std::vector<Plan> QueueConsumers::plans(const KnownQueue& queue) const {
  const Subjects& subjects = zone_.subjects;
  const Duration wait = redelivery_.ack_wait(queue.definition);
  const std::string common =
      "{\"durable_name\":" + json_string(queue.consumer()) +
      ",\"ack_policy\":\"explicit\",\"ack_wait\":" + std::to_string(wait.count()) +
      "000000,\"max_deliver\":-1,\"max_ack_pending\":-1,\"max_waiting\":4096,";
  const std::string begin = queue.definition.from && *queue.definition.from > 0
                                ? "\"deliver_policy\":\"by_start_sequence\",\"opt_start_seq\":" +
                                      std::to_string(*queue.definition.from)
                                : std::string("\"deliver_policy\":\"all\"");
  return {{subjects.wake_stream(), common + "\"deliver_policy\":\"all\",\"filter_subject\":" +
                                       json_string(subjects.wakes(queue)) + "}"},
          {subjects.source_stream(queue), common + begin + ",\"filter_subject\":" +
                                              json_string(subjects.source_filter(queue)) + "}"}};
}

Result<std::uint64_t> QueueConsumers::make(const KnownQueue& queue) {
  std::uint64_t waiting = 0;
  if (queue.definition.ledger) return waiting;
  if (queue.foreign()) {
    if (auto same = foreign_.check_the_same(queue); !same) return same.error();
    if (auto copies = ensure_copy_stream(zone_.client, zone_.subjects); !copies)
      return copies.error();
  }
  for (const Plan& plan : plans(queue)) {
    const auto made = zone_.client.make_consumer(plan.name, queue.consumer(), plan.config);
    if (!made) return made.error();
    waiting = number_of(made->json, "num_pending").value_or(0);
  }
  return waiting;
}

// Only what is not as it should be is made: that may need a right which others have not. A leader that
// is away looks to a pull like a consumer that is not there, so it is asked which it is. New ones
// deliver everything again, and the ledger decides.
Result<void> QueueConsumers::restore(const KnownQueue& queue) {
  if (queue.definition.ledger) return {};
  for (const Plan& plan : plans(queue)) {
    const auto info = zone_.client.call("CONSUMER.INFO." + plan.name + "." + queue.consumer(), "");
    if (!info) return info.error();
    const bool missing = info->error == kNoConsumer || info->error == kNoStream;
    if (!missing && info->error != 0) return refused("looking at " + queue.consumer(), *info);
    const auto wanted = encoding::parse_json(plan.config);
    if (!missing && wanted && !difference(*wanted, info->json.member("config"))) continue;
    const auto made = make(queue);
    if (!made) return made.error();
    return {};
  }
  return {};
}

Result<void> QueueConsumers::remove(const KnownQueue& queue) {
  for (const std::string& stream :
       {zone_.subjects.source_stream(queue), zone_.subjects.wake_stream()})
    if (auto gone = zone_.client.call("CONSUMER.DELETE." + stream + "." + queue.consumer(), "");
        !gone)
      return gone.error();
  return {};
}

Result<ConsumerState> QueueConsumers::state(const KnownQueue& queue) const {
  const auto info = zone_.client.call(
      "CONSUMER.INFO." + zone_.subjects.source_stream(queue) + "." + queue.consumer(), "");
  if (!info) return info.error();
  const auto wanted = encoding::parse_json(plans(queue).back().config);
  const auto position = [&](const char* which) {
    const encoding::Json* place = info->json.member(which);
    return place ? number_of(*place, "stream_seq").value_or(0) : 0;
  };
  return ConsumerState{
      .delivered = position("delivered"),
      .floor = position("ack_floor"),
      .unanswered = number_of(info->json, "num_ack_pending").value_or(0),
      .pending = number_of(info->json, "num_pending").value_or(0),
      .as_made = wanted && info->error == 0 && !difference(*wanted, info->json.member("config"))};
}

}  // namespace once::store::nats
