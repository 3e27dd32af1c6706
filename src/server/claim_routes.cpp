// Workers over HTTP: offers, starts, renewals, durable steps and settlements. once/consumer.h says what
// each of them promises when a request or a response is lost.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/api.h"
#include "server/consumers.h"
#include "server/fields.h"
#include "server/problem.h"
#include "shapes/claim_json.h"
#include "shapes/values.h"

namespace once::server {
namespace {

using cli::JsonLine;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostClaims = 1000;  // of one request
constexpr std::uint64_t kMostStarts = 100;   // of one request, because its answer has the bodies
constexpr std::size_t kWorkerName = 200;     // bytes
constexpr Duration kLongestPoll{300'000};

Result<Fields> fields_of(const Call& call, const std::vector<std::string>& known) {
  const std::string type = media_type(call.request());
  if (!call.request().body.empty() && type != "application/json")
    return invalid_input("the body must be application/json");
  return Fields::read(call.request(), known);
}

Result<std::uint64_t> number_field(const Json& json, const std::string& name,
                                   std::uint64_t otherwise, std::uint64_t least,
                                   std::uint64_t most) {
  if (!json.contains(name)) return otherwise;
  const Json& value = json[name];
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least ||
      value.get<std::uint64_t>() > most)
    return invalid_input(
        fmt::format("\"{}\" takes a whole number from {} to {}", name, least, most));
  return value.get<std::uint64_t>();
}

Result<bool> switch_field(const Json& json, const std::string& name) {
  if (!json.contains(name)) return false;
  if (!json[name].is_boolean())
    return invalid_input(fmt::format("\"{}\" takes true or false", name));
  return json[name].get<bool>();
}

Result<std::string> text_field(const Json& json, const std::string& name) {
  if (!json.contains(name)) return std::string();
  if (!json[name].is_string()) return invalid_input(fmt::format("\"{}\" takes a string", name));
  return json[name].get<std::string>();
}

Result<std::optional<Duration>> duration_field(const Json& json, const std::string& name) {
  auto text = text_field(json, name);
  if (!text) return text.error();
  if (text->empty() && !json.contains(name)) return std::optional<Duration>{};
  const auto duration = cli::parse_duration(*text);
  if (!duration)
    return invalid_input(fmt::format("\"{}\" takes a duration such as 30s or 1h30m", name));
  return duration;
}

Result<Body> body_field(const Json& json, const std::string& name) {
  if (!json.contains(name)) return Body{};
  return Body::json(json[name].dump());
}

// --- Offers

struct Poll {
  std::string queue{};
  OfferFor to{};
  std::uint64_t most = 1;
  Duration wait{};
};

Result<OfferFor> worker_of(const Json& json) {
  auto worker = text_field(json, "worker");
  if (!worker) return worker.error();
  if (worker->empty() || worker->size() > kWorkerName)
    return invalid_input(fmt::format(
        "\"worker\" must name the worker, with at most {} bytes; nothing was done", kWorkerName));
  const auto can_probe = switch_field(json, "can_probe");
  if (!can_probe) return can_probe.error();
  const auto start = switch_field(json, "start");
  if (!start) return start.error();
  return OfferFor{.worker = std::move(*worker), .can_probe = *can_probe, .start = *start};
}

Result<Poll> poll_of(const Call& call) {
  auto fields = fields_of(call, {"worker", "max", "wait", "can_probe", "start"});
  if (!fields) return fields.error();
  Poll poll{.queue = call.path("queue")};
  auto to = worker_of(fields->json());
  if (!to) return to.error();
  poll.to = std::move(*to);
  const auto most =
      number_field(fields->json(), "max", 1, 1, poll.to.start ? kMostStarts : kMostClaims);
  if (!most) return most.error();
  poll.most = *most;
  const auto wait = duration_field(fields->json(), "wait");
  if (!wait) return wait.error();
  poll.wait = wait->value_or(Duration{0});
  if (poll.wait > kLongestPoll)
    return invalid_input(
        fmt::format("\"wait\" takes at most {}", cli::format_duration(kLongestPoll)));
  return poll;
}

Response offers_response(const std::vector<Offer>& offers) {
  std::vector<std::string> claims;
  for (const Offer& offer : offers) claims.push_back(cli::offer_json(offer));
  return json_response(JsonLine{}.json("claims", cli::json_array(claims)).str());
}

Reply offer(Consumers& consumers, const Call& call) {
  auto poll = poll_of(call);
  if (!poll) return poll.error();
  auto line = consumers.line(call.request().caller.get(), poll->queue);
  if (!line) return line.error();
  if (poll->wait > Duration{0})
    return Parked{.limit = poll->wait,
                  .begin = [line = std::move(*line), poll = std::move(*poll)](AnswerWith answer) {
                    return line->join(poll.to, poll.most, std::move(answer));
                  }};
  const auto offers = (*line)->consumer()->offer(poll->most, {}, {}, poll->to);
  if (offers) return offers_response(*offers);
  if (offers.error().code == Code::not_found) consumers.forget(poll->queue);
  return offers.error();
}

// --- Claims, many at once

Result<std::vector<std::string>> claims_of(const Json& json, std::uint64_t most) {
  const Json& given = json.contains("claims") ? json["claims"] : Json();
  if (!given.is_array() || given.empty() || given.size() > most)
    return invalid_input(
        fmt::format("\"claims\" takes an array of 1 to {} claims; nothing was done", most));
  std::vector<std::string> claims;
  for (const Json& claim : given) {
    if (!claim.is_string()) return invalid_input("\"claims\" takes an array of strings");
    claims.push_back(claim.get<std::string>());
  }
  return claims;
}

// Calls `act` once per queue with the places of its claims, and puts the answers in the order of the
// claims.
template <class Answer, class Act>
std::vector<Result<Answer>> by_queue(Consumers& consumers, const Call& call,
                                     const std::vector<std::string>& claims, Act act) {
  std::vector<Result<Answer>> answers;
  std::map<std::string, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const auto queue = Consumer::queue_of(claims[i]);
    answers.emplace_back(queue ? Error{} : queue.error());
    if (queue) places[*queue].push_back(i);
  }
  for (const auto& [queue, of_queue] : places) {
    auto consumer = consumers.of(call.request().caller.get(), queue);
    std::vector<Result<Answer>> answered;
    if (consumer) answered = act(**consumer, of_queue);
    for (std::size_t k = 0; k < of_queue.size(); ++k)
      answers[of_queue[k]] = consumer ? std::move(answered[k]) : Result<Answer>(consumer.error());
  }
  return answers;
}

std::vector<std::string> at(const std::vector<std::string>& claims,
                            const std::vector<std::size_t>& places) {
  std::vector<std::string> some;
  for (const std::size_t place : places) some.push_back(claims[place]);
  return some;
}

template <class Answer, class Shape>
std::string answers_json(const std::vector<std::string>& claims,
                         const std::vector<Result<Answer>>& answers, Shape shape) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < claims.size(); ++i)
    lines.push_back(answers[i] ? shape(claims[i], *answers[i])
                               : cli::claim_error_json(claims[i], answers[i].error()));
  return cli::json_array(lines);
}

Reply start(Consumers& consumers, const Call& call) {
  const auto fields = fields_of(call, {"claims"});
  if (!fields) return fields.error();
  const auto claims = claims_of(fields->json(), kMostStarts);
  if (!claims) return claims.error();
  const auto started = by_queue<StartedTask>(
      consumers, call, *claims, [&](Consumer& consumer, const std::vector<std::size_t>& places) {
        return consumer.start(at(*claims, places));
      });
  return json_response(
      JsonLine{}
          .json("claims", answers_json(*claims, started,
                                       [](const std::string&, const StartedTask& task) {
                                         return cli::started_json(task);
                                       }))
          .str());
}

Reply renew(Consumers& consumers, const Call& call) {
  const auto fields = fields_of(call, {"claims"});
  if (!fields) return fields.error();
  const auto claims = claims_of(fields->json(), kMostClaims);
  if (!claims) return claims.error();
  const auto renewed = by_queue<RenewResult>(
      consumers, call, *claims, [&](Consumer& consumer, const std::vector<std::size_t>& places) {
        return consumer.renew(at(*claims, places));
      });
  return json_response(
      JsonLine{}.json("claims", answers_json(*claims, renewed, cli::renewed_json)).str());
}

// --- Settlements

// The fields of one settlement besides its claim. `result` is for completed and happened.
const std::vector<std::string> kVerdictFields{"outcome", "result", "why", "retry_in"};

Result<Settlement> settlement_of(const std::string& claim, const Json& json) {
  auto outcome = text_field(json, "outcome");
  if (!outcome) return outcome.error();
  auto why = text_field(json, "why");
  if (!why) return why.error();
  auto result = body_field(json, "result");
  if (!result) return result.error();
  const auto retry_in = duration_field(json, "retry_in");
  if (!retry_in) return retry_in.error();
  Settlement made{.claim = claim};
  if (*outcome == "completed" || *outcome == "happened") {
    made.outcome = Outcome::completed(std::move(*result));
    if (*outcome == "happened") made.probe = Settlement::Probe::happened;
  } else if (*outcome == "failed") {
    made.outcome = Outcome::failed(std::move(*why), *retry_in);
  } else if (*outcome == "dead") {
    made.outcome = Outcome::dead(std::move(*why));
  } else if (*outcome == "unknown" || *outcome == "released") {
    made.outcome = Outcome::unknown(std::move(*why));
    made.release = *outcome == "released";
  } else if (*outcome == "did_not_happen" || *outcome == "probe_unknown") {
    made.outcome = Outcome::unknown(std::move(*why));
    made.probe = *outcome == "did_not_happen" ? Settlement::Probe::did_not_happen
                                              : Settlement::Probe::unknown;
  } else {
    return invalid_input(
        "\"outcome\" takes completed, failed, dead, unknown, released, happened, did_not_happen or "
        "probe_unknown; nothing was recorded");
  }
  return made;
}

Result<std::vector<Settlement>> settlements_of(const Json& json) {
  const Json& given = json.contains("claims") ? json["claims"] : Json();
  if (!given.is_array() || given.empty() || given.size() > kMostClaims)
    return invalid_input(fmt::format(
        "\"claims\" takes an array of 1 to {} settlements; nothing was recorded", kMostClaims));
  std::vector<Settlement> settlements;
  for (const Json& each : given) {
    if (!each.is_object()) return invalid_input("a settlement is a JSON object");
    for (const auto& [name, value] : each.items())
      if (name != "claim" &&
          std::find(kVerdictFields.begin(), kVerdictFields.end(), name) == kVerdictFields.end())
        return invalid_input(fmt::format("a settlement has no field \"{}\"", name));
    auto claim = text_field(each, "claim");
    if (!claim) return claim.error();
    auto settlement = settlement_of(*claim, each);
    if (!settlement) return settlement.error();
    settlements.push_back(std::move(*settlement));
  }
  return settlements;
}

// All settlements of a queue are one commit. The offers come from the queue of the first claim.
Reply settle(Consumers& consumers, const Call& call) {
  const auto fields = fields_of(call, {"claims", "next", "worker", "can_probe", "start"});
  if (!fields) return fields.error();
  const Json& json = fields->json();
  auto settlements = settlements_of(json);
  if (!settlements) return settlements.error();
  const auto next = number_field(json, "next", 0, 0, kMostClaims);
  if (!next) return next.error();
  std::optional<OfferFor> to;
  if (*next > 0) {
    auto worker = worker_of(json);
    if (!worker) return worker.error();
    to = std::move(*worker);
    if (to->start && *next > kMostStarts)
      return invalid_input(fmt::format("\"next\" takes at most {} with \"start\"", kMostStarts));
  }
  std::vector<std::string> claims;
  for (const Settlement& each : *settlements) claims.push_back(each.claim);
  const auto first = Consumer::queue_of(claims.front());
  if (!first) return first.error();
  std::vector<std::string> offers;
  const auto settled = by_queue<State>(
      consumers, call, claims, [&](Consumer& house, const std::vector<std::size_t>& places) {
        std::vector<Settlement> mine;
        for (const std::size_t place : places) mine.push_back((*settlements)[place]);
        const bool first_queue = *first == Consumer::queue_of(mine.front().claim).value();
        Settled done = house.settle(std::move(mine), first_queue ? *next : 0, to);
        for (const Offer& each : done.next) offers.push_back(cli::offer_json(each));
        return std::move(done.states);
      });
  return json_response(JsonLine{}
                           .json("claims", answers_json(claims, settled, cli::settled_json))
                           .json("next", cli::json_array(offers))
                           .str());
}

// --- One claim

Result<std::shared_ptr<Consumer>> consumer_of(Consumers& consumers, const Call& call) {
  const auto queue = Consumer::queue_of(call.path("claim"));
  if (!queue) return queue.error();
  return consumers.of(call.request().caller.get(), *queue);
}

Reply settle_one(Consumers& consumers, const Call& call, const std::string& outcome) {
  const auto fields = fields_of(call, {"result", "why", "retry_in"});
  if (!fields) return fields.error();
  Json json = fields->json();
  json["outcome"] = outcome;
  auto settlement = settlement_of(call.path("claim"), json);
  if (!settlement) return settlement.error();
  const auto consumer = consumer_of(consumers, call);
  if (!consumer) return consumer.error();
  const auto state = (*consumer)->settle({std::move(*settlement)}).states.front();
  if (!state) return state.error();
  return json_response(cli::settled_json(call.path("claim"), *state));
}

Reply begin_step(Consumers& consumers, const Call& call) {
  const auto fields = fields_of(call, {"call", "in_doubt", "asked"});
  if (!fields) return fields.error();
  StepOptions options;
  auto id = text_field(fields->json(), "call");
  if (!id) return id.error();
  options.call = std::move(*id);
  const auto asked = switch_field(fields->json(), "asked");
  if (!asked) return asked.error();
  options.asked = *asked;
  const auto policy = text_field(fields->json(), "in_doubt");
  if (!policy) return policy.error();
  if (!policy->empty()) {
    options.policy = in_doubt_from(*policy);
    if (!options.policy || *options.policy == InDoubt::steps)
      return invalid_input("\"in_doubt\" of a step takes retry, hold or probe; nothing was run");
  }
  const auto consumer = consumer_of(consumers, call);
  if (!consumer) return consumer.error();
  const auto begun =
      (*consumer)->begin_step(call.path("claim"), call.path("step"), std::move(options));
  if (!begun) return begun.error();
  return json_response(cli::step_start_json(*begun));
}

enum class StepEnd { end, fail, hold };

Reply end_step(Consumers& consumers, const Call& call, StepEnd how) {
  const auto fields = fields_of(call, {how == StepEnd::end ? "result" : "why", "call"});
  if (!fields) return fields.error();
  auto id = text_field(fields->json(), "call");
  if (!id) return id.error();
  auto why = text_field(fields->json(), "why");
  if (!why) return why.error();
  auto result = body_field(fields->json(), "result");
  if (!result) return result.error();
  const auto consumer = consumer_of(consumers, call);
  if (!consumer) return consumer.error();
  const std::string& claim = call.path("claim");
  const std::string& step = call.path("step");
  Consumer& holder = **consumer;
  const auto done =
      how == StepEnd::end    ? holder.end_step(claim, step, std::move(*result), std::move(*id))
      : how == StepEnd::fail ? holder.fail_step(claim, step, std::move(*why), std::move(*id))
                             : holder.hold_step(claim, step, std::move(*why), std::move(*id));
  if (!done) return done.error();
  return json_response(R"({"recorded":true})");
}

}  // namespace

std::vector<Route> claim_routes(Zone& zone) {
  // Shared by copies of the handlers.
  auto all = std::make_shared<Consumers>(zone, offers_response);
  std::vector<Route> routes{
      {"POST",
       "/v1/queues/{queue}/claims",
       {},
       [all](const Call& call) { return offer(*all, call); }},
      {"POST", "/v1/claims:start", {}, [all](const Call& call) { return start(*all, call); }},
      {"POST", "/v1/claims:renew", {}, [all](const Call& call) { return renew(*all, call); }},
      {"POST", "/v1/claims:settle", {}, [all](const Call& call) { return settle(*all, call); }},
      {"POST",
       "/v1/claims/{claim}/steps/{step}:begin",
       {},
       [all](const Call& call) { return begin_step(*all, call); }},
  };
  for (const auto& [act, how] : {std::pair("end", StepEnd::end), std::pair("fail", StepEnd::fail),
                                 std::pair("hold", StepEnd::hold)})
    routes.push_back({"POST",
                      fmt::format("/v1/claims/{{claim}}/steps/{{step}}:{}", act),
                      {},
                      [all, how = how](const Call& call) { return end_step(*all, call, how); }});
  for (const auto& [act, outcome] :
       {std::pair("complete", "completed"), std::pair("fail", "failed"), std::pair("dead", "dead"),
        std::pair("unknown", "unknown"), std::pair("release", "released")})
    routes.push_back({"POST",
                      fmt::format("/v1/claims/{{claim}}:{}", act),
                      {},
                      [all, outcome = std::string(outcome)](const Call& call) {
                        return settle_one(*all, call, outcome);
                      }});
  return routes;
}

}  // namespace once::server
