#include "shapes/status_json.h"

#include <algorithm>

#include "shapes/json_line.h"

namespace once::cli {
namespace {

void add_age(JsonLine& line, std::string_view name, const std::optional<Duration>& age) {
  if (age) {
    line.number(name, static_cast<std::uint64_t>(std::max<Duration::rep>(age->count(), 0)) / 1000);
  } else {
    line.null(name);
  }
}

}  // namespace

std::uint64_t count_of(const QueueStatus& status, State state) {
  const auto found = status.tasks.find(state);
  return found == status.tasks.end() ? 0 : found->second;
}

std::string status_json(const QueueStatus& queue) {
  JsonLine line;
  line.text("queue", queue.queue.name).text_or_null("topic", queue.queue.topic);
  for (State state : kStatusStates) line.number(to_string(state), count_of(queue, state));
  line.number("workers", queue.workers);
  add_age(line, "oldest_waiting_s", queue.oldest_waiting);
  add_age(line, "oldest_in_doubt_s", queue.oldest_in_doubt);
  return line.boolean("paused", queue.queue.paused).str();
}

std::string zone_status_json(const Status& status) {
  std::vector<std::string> queues;
  for (const QueueStatus& queue : status.queues) queues.push_back(status_json(queue));
  return JsonLine{}.json("queues", json_array(queues)).number("unrouted", status.unrouted).str();
}

}  // namespace once::cli
