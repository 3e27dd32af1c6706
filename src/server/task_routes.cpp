// The tasks: inspect, list, wait for the result, and what people do to a task.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/access.h"
#include "server/api.h"
#include "server/fields.h"
#include "server/problem.h"
#include "server/watch.h"
#include "shapes/queue_definition.h"
#include "shapes/task_json.h"
#include "shapes/values.h"
#include "tooling/text.h"

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

// The place after an item, as text that is safe in a URL.
std::string cursor_of(const ListItem& item) {
  std::string text = base64(fmt::format("{}\n{}\n{}", item.queue, item.sequence, item.key));
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  text.erase(text.find_last_not_of('=') + 1);
  return text;
}

std::optional<ListItem> item_at(std::string cursor) {
  std::replace(cursor.begin(), cursor.end(), '-', '+');
  std::replace(cursor.begin(), cursor.end(), '_', '/');
  cursor.append((4 - cursor.size() % 4) % 4, '=');
  const auto text = from_base64(cursor);
  if (!text) return {};
  const std::size_t first = text->find('\n');
  const std::size_t second = first == text->npos ? first : text->find('\n', first + 1);
  if (second == text->npos) return {};
  const auto sequence =
      cli::parse_number(std::string_view(*text).substr(first + 1, second - first - 1));
  if (!sequence) return {};
  return ListItem{
      .queue = text->substr(0, first), .key = text->substr(second + 1), .sequence = *sequence};
}

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

Result<Action> read_action(const Zone& zone, const Call& call, std::vector<std::string> known) {
  auto fields = Fields::read(call.request(), known);
  if (!fields) return fields.error();
  Action action{.id = call.path("id")};
  std::optional<std::string> queue;
  std::optional<std::string> who;
  std::optional<std::string> why;
  for (const auto& [name, to] : {std::pair("queue", &queue), std::pair("who", &who),
                                 std::pair("why", &why), std::pair("step", &action.step)}) {
    auto text = fields->text(name);
    if (!text) return text.error();
    *to = std::move(*text);
  }
  auto decides = who_of(call.request(), who);
  if (!decides) return decides.error();
  if (decides->empty())
    return invalid_input("\"who\" must name the person who decides; nothing was done");
  action.by = {.who = std::move(*decides), .why = why.value_or("")};
  if (fields->has("result")) {
    auto result = Body::json(fields->json()["result"].dump());
    if (!result) return result.error();
    action.result = std::move(*result);
  }
  auto found = queue_of(zone, action.id, queue);
  if (!found) return found.error();
  action.queue = std::move(*found);
  return action;
}

using Act = std::function<Result<std::string>(Zone&, const Action&)>;

Result<std::string> cancel(Zone& zone, const Action& action) {
  const auto state = zone.tasks().cancel(action.id, action.queue, action.by);
  if (!state) return state.error();
  return std::string(*state == State::running ? "asked_to_stop" : "cancelled");
}

Result<std::string> retry(Zone& zone, const Action& action) {
  if (auto done = zone.tasks().retry(action.id, action.queue, action.by); !done)
    return done.error();
  return std::string("retried");
}

Result<std::string> drop(Zone& zone, const Action& action) {
  if (auto done = zone.tasks().drop(action.id, action.queue, action.by); !done) return done.error();
  return std::string("dropped");
}

Result<std::string> complete(Zone& zone, const Action& action) {
  Tasks tasks = zone.tasks();
  auto done = action.step ? tasks.complete_step(action.id, action.queue, *action.step,
                                                action.result, action.by)
                          : tasks.complete(action.id, action.queue, action.result, action.by);
  if (!done) return done.error();
  return std::string("completed");
}

Route action_route(Zone& zone, const std::string& verb, std::vector<std::string> more, Act act) {
  std::vector<std::string> known{"queue", "who", "why"};
  known.insert(known.end(), more.begin(), more.end());
  return {"POST",
          "/v1/tasks/{id}:" + verb,
          {},
          [&zone, known, act = std::move(act)](const Call& call) -> Reply {
            const std::string type = media_type(call.request());
            if (!call.request().body.empty() && type != "application/json")
              return unsupported_media_type(type, "application/json");
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
       {"queue", "state", "topic", "after", "limit"},
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
