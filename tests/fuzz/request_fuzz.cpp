// Bytes of a client through the parser of the server, its router and every handler, on a zone in memory.
// For libFuzzer: clang++ -fsanitize=fuzzer,address,undefined.
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>

#include "once/zone.h"
#include "server/api.h"

namespace {

namespace http = boost::beast::http;
using once::server::Request;
using once::server::Response;

// The zone grows with each request, so it is made anew from time to time.
constexpr int kRequestsPerZone = 500;

// A zone that has something to find: queues of each kind, a task in each of them, and a workflow.
struct Served {
  once::Zone zone = once::Zone::open("memory:").value();
  once::server::Api api{zone, {}, {}};

  Served() {
    zone.queues().add({.name = "q", .topic = "t"}).value();
    zone.queues().add({.name = "ledger", .ledger = true}).value();
    zone.publish({.topic = "t", .id = "a", .body = once::Body::json("{}").value()}).value();
    zone.flows()
        .add(
            R"({"name":"review","idempotency_key":"paper","steps":[{"id":"read","approval":"?"}]})")
        .value();
    zone.flows().start("review", once::Body::json(R"({"paper":1})").value()).value();
  }
};

Served& served() {
  static std::unique_ptr<Served> current;
  static int requests = 0;
  if (!current || ++requests % kRequestsPerZone == 0) {
    current.reset();
    current = std::make_unique<Served>();
  }
  return *current;
}

[[noreturn]] void complain(const char* what, const Response& response) {
  std::fprintf(stderr, "%s: %d %s\n", what, response.status, response.body.c_str());
  std::abort();
}

void check(const Response& response) {
  if (response.status < 200 || response.status > 599) complain("no status", response);
  if (response.status == 500) complain("a handler failed", response);
  const bool json =
      response.type == "application/json" || response.type == "application/problem+json";
  if (json && !nlohmann::json::accept(response.body)) complain("no JSON", response);
  if ((response.status >= 400) != (response.type == "application/problem+json"))
    complain("a failure is a problem document, and nothing else is", response);
  for (const once::server::Header& header : response.headers)
    if (header.value.find_first_of("\r\n") != std::string::npos)
      complain("a split header", response);
}

// Returns nullopt if the bytes are no request. The limits are those of the server. A body that is shorter
// than its Content-Length is taken as it is, so that changed bodies reach the handlers.
std::optional<Request> request_from(std::string_view bytes) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(32 << 10);
  parser.body_limit(16 << 20);
  parser.eager(true);
  boost::system::error_code failed;
  std::size_t used = 0;
  while (!failed && !parser.is_done() && used < bytes.size()) {
    const std::size_t more =
        parser.put(boost::asio::buffer(bytes.data() + used, bytes.size() - used), failed);
    if (more == 0) break;
    used += more;
  }
  if ((failed && failed != http::error::need_more) || !parser.is_header_done()) return {};
  Request request{.method = std::string(parser.get().method_string()),
                  .target = std::string(parser.get().target())};
  for (const auto& field : parser.get())
    request.headers.push_back({std::string(field.name_string()), std::string(field.value())});
  request.body = parser.get().body();
  return request;
}

// The answer of a long poll whose time is up. The poll may have been answered before.
Response last_of(const once::server::Parked& parked) {
  auto answer = std::make_shared<std::promise<Response>>();  // shared with a late second answer
  auto answered = std::make_shared<std::atomic_flag>();
  const auto wait = parked.begin([answer, answered](Response response) {
    if (!answered->test_and_set()) answer->set_value(std::move(response));
  });
  wait->finish();
  auto future = answer->get_future();
  if (future.wait_for(std::chrono::seconds(10)) != std::future_status::ready)
    complain("a long poll without an end", {});
  return future.get();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto request = request_from({reinterpret_cast<const char*>(data), size});
  if (!request) return 0;
  once::server::Api& api = served().api;
  if (const auto at_once = api.answer_at_once(*request)) {
    check(*at_once);
    return 0;
  }
  auto answer = api.answer(*request);
  if (const auto* response = std::get_if<Response>(&answer)) {
    check(*response);
  } else if (const auto* parked = std::get_if<once::server::Parked>(&answer)) {
    check(last_of(*parked));
  } else {
    std::get<once::server::Streamed>(answer).begin([](const std::string&) {}).reset();
  }
  return 0;
}
