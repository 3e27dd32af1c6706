// POST /v1/tasks:act: what people do to all tasks that a filter finds, a bounded number per request.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "server/api.h"
#include "server/fields.h"
#include "server/problem.h"
#include "server/task_cursor.h"
#include "shapes/error_json.h"
#include "shapes/json_line.h"
#include "shapes/task_json.h"
#include "shapes/values.h"

namespace once::server {
namespace {

using cli::JsonLine;

constexpr std::uint64_t kMostActs = 1000;  // of one request; each is a commit of its own

struct BulkAct {
  std::string_view name{};
  std::string_view outcome{};
  std::vector<State> states{};
};

const BulkAct* bulk_act(std::string_view name) {
  static const std::array kActs{
      BulkAct{"cancel",
              "cancelled",
              {State::scheduled, State::waiting, State::running, State::retrying, State::in_doubt}},
      BulkAct{"retry", "retried", {State::dead, State::in_doubt}},
      BulkAct{"complete", "completed", {State::in_doubt}},
      BulkAct{"drop", "dropped", {State::dead, State::in_doubt}}};
  const auto* const found = std::find_if(kActs.begin(), kActs.end(),
                                         [&](const BulkAct& each) { return each.name == name; });
  return found == kActs.end() ? nullptr : found;
}

// A place in the tasks of all states: the state, then the place in the list of that state.
struct BulkPlace {
  std::size_t state{};  // index into `states`
  std::optional<ListItem> after{};
};

struct Bulk {
  const BulkAct* act{};
  std::vector<State> states{};
  ListFilter filter{};
  BulkPlace place{};
  By by{};
  ActOptions options{};
  Body result{};
  bool dry_run = false;
};

Result<void> read_filter(const Fields& fields, Bulk& bulk) {
  bool narrow = false;
  for (const auto& [name, to] :
       {std::pair("queue", &bulk.filter.queue), std::pair("topic", &bulk.filter.topic),
        std::pair("error", &bulk.filter.error)}) {
    auto text = fields.text(name);
    if (!text) return text.error();
    *to = text->value_or("");
    narrow = narrow || !to->empty();
  }
  for (const auto& [name, to] :
       {std::pair("since", &bulk.filter.since), std::pair("older_than", &bulk.filter.until)}) {
    const auto text = fields.text(name);
    if (!text) return text.error();
    if (!*text) continue;
    *to = cli::parse_past(**text, cli::now());
    if (!*to)
      return invalid_input(
          fmt::format("\"{}\" takes a time or 2h for so long ago; nothing was done", name));
    narrow = true;
  }
  const auto all = fields.flag("all");
  if (!all) return all.error();
  if (narrow || *all) return {};
  return invalid_input(
      "a filter is missing: \"queue\", \"topic\", \"error\", \"since\" or \"older_than\"; "
      "\"all\":true means every task; nothing was done");
}

Result<void> read_states(const Fields& fields, Bulk& bulk) {
  bulk.states = bulk.act->states;
  const auto name = fields.text("state");
  if (!name) return name.error();
  if (!*name) return {};
  const auto state = state_from(**name);
  if (!state || std::find(bulk.states.begin(), bulk.states.end(), *state) == bulk.states.end()) {
    std::vector<std::string_view> known;
    for (const State each : bulk.states) known.push_back(to_string(each));
    return invalid_input(fmt::format("{} takes tasks in the state {}, not \"{}\"; nothing was done",
                                     bulk.act->name, fmt::join(known, ", "), **name));
  }
  bulk.states = {*state};
  return {};
}

Result<void> read_place(const Fields& fields, Bulk& bulk) {
  const auto cursor = fields.text("after");
  if (!cursor) return cursor.error();
  if (!*cursor) return {};
  const std::size_t dot = (*cursor)->find('.');
  const auto state = state_from(std::string_view(**cursor).substr(0, dot));
  const auto found = std::find(bulk.states.begin(), bulk.states.end(), state);
  bulk.place.after = dot == std::string::npos ? std::nullopt : item_at((*cursor)->substr(dot + 1));
  if (found == bulk.states.end() || !bulk.place.after)
    return invalid_input(
        "\"after\" takes the \"after\" of an earlier response to this request; nothing was done");
  bulk.place.state = static_cast<std::size_t>(found - bulk.states.begin());
  return {};
}

Result<Bulk> bulk_of(const Call& call) {
  const auto fields = Fields::read(
      call.request(), {"act", "queue", "topic", "state", "error", "since", "older_than", "all",
                       "who", "why", "result", "dry_run", "limit", "after"});
  if (!fields) return fields.error();
  Bulk bulk;
  const auto act = fields->text("act");
  if (!act) return act.error();
  bulk.act = bulk_act(act->value_or(""));
  if (bulk.act == nullptr)
    return invalid_input("\"act\" takes cancel, retry, complete or drop; nothing was done");
  for (auto* read : {read_filter, read_states, read_place}) {
    if (auto done = read(*fields, bulk); !done) return done.error();
  }
  auto by = fields->by(call.request());
  if (!by) return by.error();
  bulk.by = std::move(*by);
  auto result = fields->body("result");
  if (!result) return result.error();
  if (fields->has("result") && bulk.act->name != "complete")
    return invalid_input("only complete takes a \"result\"; nothing was done");
  bulk.result = std::move(*result);
  const auto dry_run = fields->flag("dry_run");
  if (!dry_run) return dry_run.error();
  bulk.dry_run = *dry_run;
  const auto limit = fields->number("limit");
  if (!limit) return limit.error();
  if (limit->value_or(1) < 1 || limit->value_or(1) > kMostActs)
    return invalid_input(
        fmt::format("\"limit\" takes a whole number from 1 to {}; nothing was done", kMostActs));
  bulk.filter.limit = static_cast<std::size_t>(limit->value_or(bulk.filter.limit));
  bulk.options.idempotency_key = std::string(call.request().header("Idempotency-Key").value_or(""));
  return bulk;
}

// Returns the outcome.
Result<std::string> apply(Zone& zone, const Bulk& bulk, const ListItem& item) {
  Tasks tasks = zone.tasks();
  std::string outcome(bulk.act->outcome);
  if (bulk.dry_run) return outcome;
  Result<void> done;
  if (bulk.act->name == "cancel") {
    const auto state = tasks.cancel(item.id, item.queue, bulk.by, bulk.options);
    if (!state) return state.error();
    if (*state == State::running) return std::string("asked_to_stop");
  } else if (bulk.act->name == "retry") {
    done = tasks.retry(item.id, item.queue, bulk.by, bulk.options);
  } else if (bulk.act->name == "complete") {
    done = tasks.complete(item.id, item.queue, bulk.result, bulk.by, bulk.options);
  } else {
    done = tasks.drop(item.id, item.queue, bulk.by, bulk.options);
  }
  if (!done) return done.error();
  return outcome;
}

std::string acted_json(const Bulk& bulk, const ListItem& item, const Result<std::string>& outcome) {
  if (outcome) return cli::action_json(item.id, item.queue, *outcome, bulk.dry_run);
  JsonLine line;
  line.text("id", item.id).text("queue", item.queue);
  const Error& error = outcome.error();
  return cli::add_error(line, error, error.message).str();
}

// A task that leaves its state stays before the cursor, so the next request does not meet it again.
Reply act_by_filter(Zone& zone, const Call& call) {
  if (auto refused = not_json(call.request())) return std::move(*refused);
  auto bulk = bulk_of(call);
  if (!bulk) return bulk.error();
  std::vector<std::string> answers;
  const std::size_t wanted = bulk->filter.limit;
  std::string after;
  for (; bulk->place.state < bulk->states.size() && after.empty(); ++bulk->place.state) {
    bulk->filter.state = bulk->states[bulk->place.state];
    bulk->filter.limit = wanted - answers.size() + 1;  // one more tells whether that was all
    const auto items =
        zone.tasks().list(bulk->filter, bulk->place.after ? &*bulk->place.after : nullptr);
    if (!items) return items.error();
    std::optional<ListItem> last = std::move(bulk->place.after);
    bulk->place.after.reset();
    for (const ListItem& item : *items) {
      if (answers.size() == wanted) {
        const std::string_view state = to_string(*bulk->filter.state);
        after = fmt::format("{}.{}", state, cursor_of(last ? *last : ListItem{}));
        break;
      }
      answers.push_back(acted_json(*bulk, item, apply(zone, *bulk, item)));
      last = item;
    }
  }
  return json_response(
      JsonLine{}.json("tasks", cli::json_array(answers)).text_or_null("after", after).str());
}

}  // namespace

std::vector<Route> act_routes(Zone& zone) {
  return {
      {"POST",
       "/v1/tasks:act",
       {},
       [&zone](const Call& call) { return act_by_filter(zone, call); }},
  };
}

}  // namespace once::server
