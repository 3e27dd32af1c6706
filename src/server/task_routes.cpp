// The tasks: inspect, list, wait for the result, and what people do to a task.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/access.h"
#include "server/api.h"
#include "server/fields.h"
#include "server/problem.h"
#include "server/task_cursor.h"
#include "server/watch.h"
#include "shapes/queue_definition.h"
#include "shapes/task_json.h"
#include "shapes/values.h"

namespace once::server {
namespace {

using cli::JsonLine;

constexpr std::size_t kMostItems = 1000;
constexpr Duration kLongestWait{300'000};

Error not_found(std::string message) {
  return {.code = Code::not_found, .message = std::move(message)};
}

Reply inspect(Zone& zone, const Call& call) {
  auto task = zone.tasks().inspect(call.path("id"));
  if (!task) return task.error();
  return json_response(cli::task_json(*task));
}

// --- Lists

Result<ListFilter> filter_of(const Call& call) {
  ListFilter filter{.queue = call.query("queue").value_or(""),
                    .topic = call.query("topic").value_or("")};
  if (const auto state = call.query("state")) {
    filter.state = state_from(*state);
    if (!filter.state)
      return invalid_input(fmt::format(
          "\"state\" takes scheduled, waiting, running, retrying, in_doubt, completed, dead, "
          "cancelled or duplicate, not \"{}\"",
          *state));
  }
  filter.error = call.query("error").value_or("");
  const auto since = past_query(call, "since");
  if (!since) return since.error();
  filter.since = *since;
  const auto until = past_query(call, "older_than");
  if (!until) return until.error();
  filter.until = *until;
  const auto limit = number_query(call, "limit", filter.limit, 1, kMostItems);
  if (!limit) return limit.error();
  filter.limit = static_cast<std::size_t>(*limit);
  return filter;
}

Reply list(Zone& zone, const Call& call) {
  auto filter = filter_of(call);
  if (!filter) return filter.error();
  std::optional<ListItem> after;
  if (const auto cursor = call.query("after")) {
    after = item_at(*cursor);
    if (!after)
      return invalid_input("\"after\" takes the \"after\" of an earlier response to this request");
  }
  const std::size_t wanted = filter->limit++;  // one more tells whether that was all
  auto items = zone.tasks().list(*filter, after ? &*after : nullptr);
  if (!items) return items.error();
  const bool more = items->size() > wanted;
  if (more) items->resize(wanted);
  std::vector<std::string> tasks;
  for (const ListItem& item : *items)
    tasks.push_back(cli::item_json(item, cli::schedule_of(zone, item)));
  return json_response(JsonLine{}
                           .json("tasks", cli::json_array(tasks))
                           .text_or_null("after", more ? cursor_of(items->back()) : "")
                           .str());
}

// --- Waiting

bool is_settled(State state) {
  return state == State::in_doubt || state == State::completed || state == State::dead ||
         state == State::cancelled || state == State::duplicate;
}

// How the task stands: whether nothing is left to wait for, and the result of each settled queue.
struct Standing {
  bool settled = false;
  std::vector<std::string> results{};
};

// A ledger-only queue may know the id as a key of its own. That key is another matter.
Result<std::vector<QueueView>> waited_queues(const Zone& zone, const TaskView& task,
                                             const std::optional<std::string>& queue) {
  const auto queues = zone.queues().list();
  if (!queues) return queues.error();
  std::vector<QueueView> waited;
  for (const QueueView& view : task.queues) {
    const auto definition = cli::find_queue(*queues, view.queue);
    const bool wanted = queue ? view.queue == *queue : definition && !definition->ledger;
    if (wanted) waited.push_back(view);
  }
  if (queue && waited.empty())
    return not_found(fmt::format("queue {} does not hold {}", *queue, task.entry.id));
  return waited;
}

Result<Standing> standing_of(const Zone& zone, const std::string& id,
                             const std::optional<std::string>& queue) {
  if (queue) {  // one record tells it, without the task's body and its other queues
    const auto outcome = zone.tasks().wait(id, *queue, Duration{0});
    if (!outcome && outcome.error().code == Code::timed_out) return Standing{};
    if (!outcome) return outcome.error();
  }
  auto task = zone.tasks().inspect(id);
  if (!task) return task.error();
  auto queues = waited_queues(zone, *task, queue);
  if (!queues) return queues.error();
  if (queues->empty() && (!cli::in_log(*task) || !task->entry.body))
    return not_found(
        fmt::format("{} has no result; its records have expired, or it is only a key", id));
  Standing standing{.settled = !queues->empty()};
  for (const QueueView& view : *queues) {
    if (!is_settled(view.state)) {
      standing.settled = false;
      continue;
    }
    auto outcome = zone.tasks().wait(id, view.queue, Duration{0});
    if (!outcome && outcome.error().code == Code::timed_out) {
      standing.settled = false;  // a person retried it after inspect()
    } else if (!outcome) {
      return outcome.error();
    } else {
      standing.results.push_back(cli::result_json(id, view.queue, to_string(view.state), *outcome));
    }
  }
  return standing;
}

Reply wait_for_result(Zone& zone, Watch& watch, const Call& call) {
  const auto limit = duration_query(call, "wait");
  if (!limit) return limit.error();
  if (limit->value_or(Duration{0}) > kLongestWait)
    return invalid_input(
        fmt::format("\"wait\" takes at most {}", cli::format_duration(kLongestWait)));
  const auto look = [&zone, id = call.path("id"),
                     queue = call.query("queue")](bool last) -> std::optional<Response> {
    const auto standing = standing_of(zone, id, queue);
    if (!standing) return problem(standing.error());
    if (!standing->settled && !last) return {};
    return json_response(JsonLine{}
                             .text("id", id)
                             .boolean("settled", standing->settled)
                             .json("results", cli::json_array(standing->results))
                             .str(),
                         standing->settled ? 200 : 202);
  };
  const Duration wait = limit->value_or(Duration{0});
  if (auto response = look(wait <= Duration{0})) return std::move(*response);
  return watch.parked(wait, look);
}

// --- What people do

struct Action {
  std::string id{};
  std::string queue{};
  By by{};
  ActOptions options{};
  Body result{};
  std::optional<std::string> step{};
};

// The queue of an action. A task in several queues needs the name of one of them.
Result<std::string> queue_of(const Zone& zone, const std::string& id,
                             const std::optional<std::string>& given) {
  if (given) return *given;
  auto task = zone.tasks().inspect(id);
  if (!task) return task.error();
  if (task->queues.empty()) {
    return Error{.code = Code::wrong_state,
                 .message = fmt::format("{} is in no queue; nothing was done", id)};
  }
  if (task->queues.size() == 1) return task->queues.front().queue;
  std::vector<std::string> names;
  for (const QueueView& view : task->queues) names.push_back(view.queue);
  return invalid_input(fmt::format("{} is in the queues {}; \"queue\" must name one of them", id,
                                   fmt::join(names, ", ")));
}

// What makes the act safe to repeat: the key, and the claims of the task that the client saw.
Result<ActOptions> act_options(const Request& request, const Fields& fields) {
  ActOptions options{.idempotency_key =
                         std::string(request.header("Idempotency-Key").value_or(""))};
  const auto claims = fields.number("claims");
  if (!claims) return claims.error();
  if (*claims && **claims > UINT32_MAX)
    return invalid_input("\"claims\" takes the \"claims\" of the task; nothing was done");
  if (*claims) options.claims = static_cast<std::uint32_t>(**claims);
  return options;
}

Result<Action> read_action(const Zone& zone, const Call& call, std::vector<std::string> known) {
  auto fields = Fields::read(call.request(), known);
  if (!fields) return fields.error();
  Action action{.id = call.path("id")};
  auto queue = fields->text("queue");
  if (!queue) return queue.error();
  auto step = fields->text("step");
  if (!step) return step.error();
  action.step = std::move(*step);
  auto by = fields->by(call.request());
  if (!by) return by.error();
  action.by = std::move(*by);
  auto result = fields->body("result");
  if (!result) return result.error();
  action.result = std::move(*result);
  auto options = act_options(call.request(), *fields);
  if (!options) return options.error();
  action.options = std::move(*options);
  auto found = queue_of(zone, action.id, *queue);
  if (!found) return found.error();
  action.queue = std::move(*found);
  return action;
}

using Act = std::function<Result<std::string>(Zone&, const Action&)>;

Result<std::string> cancel(Zone& zone, const Action& action) {
  const auto state = zone.tasks().cancel(action.id, action.queue, action.by, action.options);
  if (!state) return state.error();
  return std::string(*state == State::running ? "asked_to_stop" : "cancelled");
}

Result<std::string> retry(Zone& zone, const Action& action) {
  if (auto done = zone.tasks().retry(action.id, action.queue, action.by, action.options); !done)
    return done.error();
  return std::string("retried");
}

Result<std::string> drop(Zone& zone, const Action& action) {
  if (auto done = zone.tasks().drop(action.id, action.queue, action.by, action.options); !done)
    return done.error();
  return std::string("dropped");
}

Result<std::string> complete(Zone& zone, const Action& action) {
  Tasks tasks = zone.tasks();
  auto done = action.step ? tasks.complete_step(action.id, action.queue, *action.step,
                                                action.result, action.by, action.options)
                          : tasks.complete(action.id, action.queue, action.result, action.by,
                                           action.options);
  if (!done) return done.error();
  return std::string("completed");
}

Route action_route(Zone& zone, const std::string& verb, std::vector<std::string> more, Act act) {
  std::vector<std::string> known{"queue", "who", "why", "claims"};
  known.insert(known.end(), more.begin(), more.end());
  return {"POST",
          "/v1/tasks/{id}:" + verb,
          {},
          [&zone, known, act = std::move(act)](const Call& call) -> Reply {
            if (auto refused = not_json(call.request())) return std::move(*refused);
            const auto action = read_action(zone, call, known);
            if (!action) return action.error();
            const auto outcome = act(zone, *action);
            if (!outcome) return outcome.error();
            return json_response(cli::action_json(action->id, action->queue, *outcome));
          }};
}

}  // namespace

std::vector<Route> task_routes(Zone& zone) {
  auto watch = std::make_shared<Watch>();  // shared by copies of the handler
  return {
      {"GET",
       "/v1/tasks",
       {"queue", "state", "topic", "error", "since", "older_than", "after", "limit"},
       [&zone](const Call& call) { return list(zone, call); }},
      {"GET", "/v1/tasks/{id}", {}, [&zone](const Call& call) { return inspect(zone, call); }},
      {"GET",
       "/v1/tasks/{id}/result",
       {"queue", "wait"},
       [&zone, watch](const Call& call) { return wait_for_result(zone, *watch, call); }},
      action_route(zone, "cancel", {}, cancel),
      action_route(zone, "retry", {}, retry),
      action_route(zone, "complete", {"result", "step"}, complete),
      action_route(zone, "drop", {}, drop),
  };
}

}  // namespace once::server
