// The queues: GET, PUT, PATCH and DELETE /v1/queues/{queue}, :pause and :resume.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/api.h"
#include "server/fields.h"
#include "server/problem.h"
#include "shapes/queue_fields.h"
#include "shapes/task_json.h"

namespace once::server {
namespace {

using cli::JsonLine;

Reply list_queues(Zone& zone) {
  auto queues = zone.queues().list();
  if (!queues) return queues.error();
  std::vector<std::string> values;
  for (const Queue& queue : *queues) {
    JsonLine line;
    values.push_back(add_fields(line, queue).str());
  }
  return json_response(JsonLine{}.json("queues", cli::json_array(values)).str());
}

Reply show_queue(Zone& zone, const Call& call) {
  const std::string& name = call.path("queue");
  auto queues = zone.queues().list();
  if (!queues) return queues.error();
  const auto queue = cli::find_queue(*queues, name);
  if (!queue)
    return Error{.code = Code::not_found,
                 .message = fmt::format("there is no queue '{}'", name),
                 .reason = Reason::no_queue,
                 .facts = {{"queue", name}}};
  JsonLine line;
  return json_response(add_fields(line, *queue).str());
}

// The fields that the client sent. `fixed` also allows those that a queue keeps for its life.
Result<cli::QueueOptions> read_options(const Request& request, bool fixed) {
  std::vector<std::string> known;
  for (const cli::QueueField& field : cli::queue_fields()) {
    if (fixed || !field.fixed) known.emplace_back(field.name);
  }
  const auto fields = Fields::read(request, known);
  if (!fields) return fields.error();
  cli::QueueOptions options;
  for (const auto& [name, value] : fields->json().items()) {
    const auto mistake = cli::read_queue_field(*cli::find_queue_field(name), value, options);
    if (mistake) return invalid_input(fmt::format("\"{}\" {}", name, *mistake));
  }
  return options;
}

Error in_words_of_fields(Error error) {
  error.message = cli::option_as_field(std::move(error.message));
  return error;
}

bool is_json(const Request& request) {
  return request.body.empty() || media_type(request) == "application/json";
}

Reply put_queue(Zone& zone, const Call& call) {
  if (!is_json(call.request()))
    return unsupported_media_type(media_type(call.request()), "application/json");
  const auto options = read_options(call.request(), true);
  if (!options) return options.error();
  if (!options->delivers() && !options->ledger)
    return invalid_input("a queue needs \"topic\", \"stream\" or \"ledger\"; nothing was added");
  if (options->stream && !options->key)
    return invalid_input("a queue with \"stream\" needs \"key\"; nothing was added");
  auto queue = cli::queue_from(call.path("queue"), *options);
  if (!queue) return in_words_of_fields(queue.error());
  auto added = cli::add_queue(zone, std::move(*queue), options->from);
  if (!added) return in_words_of_fields(added.error());
  JsonLine line;
  add_fields(line, added->queue).boolean("added", !added->existed).number("found", added->found);
  return json_response(line.str(), added->existed ? 200 : 201);
}

Reply patch_queue(Zone& zone, const Call& call) {
  if (!is_json(call.request()))
    return unsupported_media_type(media_type(call.request()), "application/json");
  const auto options = read_options(call.request(), false);
  if (!options) return options.error();
  Queue before;
  Result<void> applied;
  const auto after = zone.queues().change(call.path("queue"), [&](Queue& queue) {
    before = queue;
    applied = cli::apply(*options, queue);
  });
  if (!applied) return in_words_of_fields(applied.error());
  if (!after) return after.error();
  JsonLine line;
  return json_response(add_fields(line, *after).boolean("changed", !(*after == before)).str());
}

Reply delete_queue(Zone& zone, const Call& call) {
  const std::string& name = call.path("queue");
  const auto force = switch_query(call, "force");
  if (!force) return force.error();
  if (auto done = zone.queues().remove(name, {.force = *force}); !done) return done.error();
  return json_response(JsonLine{}.text("queue", name).boolean("removed", true).str());
}

Reply pause_queue(Zone& zone, const Call& call, bool paused) {
  const std::string& name = call.path("queue");
  const auto changed = paused ? zone.queues().pause(name) : zone.queues().resume(name);
  if (!changed) return changed.error();
  return json_response(JsonLine{}.text("queue", name).boolean("paused", paused).str());
}

}  // namespace

std::vector<Route> queue_routes(Zone& zone) {
  const std::string one = "/v1/queues/{queue}";
  return {
      {"GET", "/v1/queues", {}, [&zone](const Call&) { return list_queues(zone); }},
      {"GET", one, {}, [&zone](const Call& call) { return show_queue(zone, call); }},
      {"PUT", one, {}, [&zone](const Call& call) { return put_queue(zone, call); }},
      {"PATCH", one, {}, [&zone](const Call& call) { return patch_queue(zone, call); }},
      {"DELETE", one, {"force"}, [&zone](const Call& call) { return delete_queue(zone, call); }},
      {"POST",
       one + ":pause",
       {},
       [&zone](const Call& call) { return pause_queue(zone, call, true); }},
      {"POST",
       one + ":resume",
       {},
       [&zone](const Call& call) { return pause_queue(zone, call, false); }},
  };
}

}  // namespace once::server
