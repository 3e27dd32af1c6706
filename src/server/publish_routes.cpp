// POST /v1/topics/{topic} and POST /v1/tasks:batch.
#include <fmt/format.h>

#include <algorithm>

#include "server/access.h"
#include "server/api.h"
#include "server/fields.h"
#include "server/problem.h"
#include "shapes/batch_line.h"
#include "shapes/error_json.h"
#include "shapes/task_json.h"
#include "shapes/values.h"

namespace once::server {
namespace {

constexpr Duration kLongestPublish{600'000};  // the store fails earlier by itself
constexpr std::size_t kBatch = 1000;          // tasks per call of the store

Error not_published(const std::string& message) {
  return invalid_input(message + "; nothing was published");
}

// Once writes headers of this prefix itself. Clients may send Once-Try.
Result<void> check_headers(const Request& request) {
  constexpr std::string_view kOwn = "Once-";
  for (const Header& header : request.headers) {
    const bool own =
        header.name.size() >= kOwn.size() &&
        equal_ignoring_case(std::string_view(header.name).substr(0, kOwn.size()), kOwn);
    if (own && !equal_ignoring_case(header.name, "Once-Try"))
      return not_published(fmt::format("a publisher may not send the header {}", header.name));
  }
  return {};
}

Result<std::string> id_of(const Call& call) {
  const auto query = call.query("id");
  auto header = call.request().header("Idempotency-Key");
  if (!query && !header) return std::string();
  // The header may be a quoted string, as the IETF draft says.
  if (header && header->size() >= 2 && header->front() == '"' && header->back() == '"')
    header = header->substr(1, header->size() - 2);
  if (query && header && *query != *header)
    return not_published("Idempotency-Key and \"id\" are different");
  const std::string id = query ? *query : std::string(*header);
  if (id.empty())
    return not_published("the id is empty; leave it out to have the id made from the content");
  return id;
}

Result<void> read_times(const Call& call, Task& task) {
  const Time now = cli::now();
  auto delay = duration_query(call, "delay");
  if (!delay) return delay.error();
  const auto at = call.query("at");
  const auto expires = call.query("expires");
  if (*delay && at) return not_published("\"delay\" and \"at\" are both there");
  if (*delay) task.not_before = now + **delay;
  if (at) {
    task.not_before = cli::parse_time(*at);
    if (!task.not_before)
      return not_published(
          fmt::format("\"at\" takes a time such as 2024-05-01T09:30:00Z, not \"{}\"", *at));
  }
  if (expires) {
    task.expires = cli::parse_coming(*expires, now);
    if (!task.expires)
      return not_published(fmt::format(
          "\"expires\" takes a duration such as 1h, or a time such as 2024-05-01T09:30:00Z, not "
          "\"{}\"",
          *expires));
  }
  return {};
}

Result<Body> body_of(const Request& request, const std::string& type) {
  if (type.empty() && request.body.empty()) return Body();
  if (type != "application/json") return Body::bytes(request.body);
  auto body = Body::json(request.body);
  if (body) return body;
  return not_published(fmt::format("the body is no JSON: {}", body.error().message));
}

Response receipt_response(const Result<Receipt>& receipt) {
  if (!receipt) return problem(receipt.error());
  cli::JsonLine line;
  Response response =
      json_response(cli::add_receipt(line, *receipt).str(), receipt->duplicate ? 200 : 201);
  if (receipt->duplicate) response.headers.push_back({"Once-Duplicate", "true"});
  return response;
}

// The store answers, also after the client left.
class Publishing : public Wait {};

Reply publish(Zone& zone, const Call& call) {
  const std::string type = media_type(call.request());
  // This is what curl sends for -d if nobody says otherwise. It is never what the client means.
  if (type == "application/x-www-form-urlencoded")
    return unsupported_media_type(type, "application/json, or application/octet-stream for bytes");
  if (auto allowed = check_headers(call.request()); !allowed) return allowed.error();
  Task task{.topic = call.path("topic")};
  auto id = id_of(call);
  if (!id) return id.error();
  task.id = std::move(*id);
  auto body = body_of(call.request(), type);
  if (!body) return body.error();
  task.body = std::move(*body);
  if (auto times = read_times(call, task); !times) return times.error();
  // No thread waits for the commit, so that one commit can take the tasks of all connections.
  return Parked{.limit = kLongestPublish,
                .ends_with_token = false,
                .begin = [&zone, task = std::move(task)](AnswerWith answer) {
                  const auto sent = zone.publish_async(task, [answer](Result<Receipt> receipt) {
                    answer(receipt_response(receipt));
                  });
                  if (!sent) answer(problem(sent.error()));
                  return std::make_unique<Publishing>();
                }};
}

struct BatchLine {
  std::uint64_t number{};
  Result<Receipt> receipt;
};

// The lines up to kBatch tasks. Takes them off the front of `text`.
std::vector<BatchLine> publish_lines(Zone& zone, const AccessToken* caller, std::string_view& text,
                                     std::uint64_t& number) {
  std::vector<BatchLine> lines;
  std::vector<Task> tasks;
  std::vector<std::size_t> places;  // of the tasks in `lines`
  while (!text.empty() && tasks.size() < kBatch) {
    const std::size_t newline = text.find('\n');
    const std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == text.npos ? text.size() : newline + 1);
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    auto task = cli::task_from(line);
    if (!task) {
      lines.push_back({number, task.error()});
      continue;
    }
    if (auto may = may_use_topic(caller, task->topic); !may) {
      lines.push_back({number, may.error()});
      continue;
    }
    places.push_back(lines.size());
    lines.push_back({number, Receipt{}});
    tasks.push_back(std::move(*task));
  }
  if (tasks.empty()) return lines;
  auto receipts = zone.publish_batch(std::move(tasks));
  for (std::size_t i = 0; i < receipts.size(); ++i)
    lines[places[i]].receipt = std::move(receipts[i]);
  return lines;
}

Reply publish_batch(Zone& zone, const Call& call) {
  const std::string type = media_type(call.request());
  if (type != "application/x-ndjson" && type != "application/ndjson" && type != "application/jsonl")
    return unsupported_media_type(type, "application/x-ndjson");
  if (auto allowed = check_headers(call.request()); !allowed) return allowed.error();
  std::string answers;
  std::string_view rest = call.request().body;
  std::uint64_t number = 0;
  while (!rest.empty()) {
    for (const BatchLine& each : publish_lines(zone, call.request().caller.get(), rest, number)) {
      cli::JsonLine line;
      line.number("line", each.number);
      if (each.receipt) {
        cli::add_receipt(line, *each.receipt);
      } else {
        cli::add_error(line, each.receipt.error(), each.receipt.error().message);
      }
      answers += line.str() + '\n';
    }
  }
  return Response{.type = "application/x-ndjson", .body = std::move(answers)};
}

}  // namespace

std::vector<Route> publish_routes(Zone& zone) {
  return {
      {"POST",
       "/v1/topics/{topic}",
       {"id", "delay", "at", "expires"},
       [&zone](const Call& call) { return publish(zone, call); }},
      {"POST",
       "/v1/tasks:batch",
       {},
       [&zone](const Call& call) { return publish_batch(zone, call); }},
  };
}

}  // namespace once::server
