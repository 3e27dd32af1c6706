// Paths, acts, parameters and methods.
#include "server/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace once::server {
namespace {

using testing::HasSubstr;

Route route(std::string method, std::string pattern, std::vector<std::string> queries = {}) {
  const bool has_id = pattern.find("{id}") != std::string::npos;
  return {method, pattern, std::move(queries),
          [method, pattern, has_id](const Call& call) -> Reply {
            return Response{.body = method + ' ' + pattern + (has_id ? ' ' + call.path("id") : "") +
                                    call.query("q").value_or("")};
          }};
}

const Router& router() {
  static const Router all({route("GET", "/tasks"), route("GET", "/tasks/{id}", {"q"}),
                           route("PUT", "/tasks/{id}"), route("POST", "/tasks/{id}:cancel"),
                           route("POST", "/tasks:batch"), route("GET", "/tasks/{id}/result")});
  return all;
}

Response ask(std::string method, std::string target) {
  return std::get<Response>(
      router().answer(Request{.method = std::move(method), .target = std::move(target)}));
}

TEST(Router, FindsARouteByMethodAndPath) {
  EXPECT_EQ(ask("GET", "/tasks").body, "GET /tasks");
  EXPECT_EQ(ask("GET", "/tasks/a").body, "GET /tasks/{id} a");
  EXPECT_EQ(ask("HEAD", "/tasks/a").body, "GET /tasks/{id} a");
  EXPECT_EQ(ask("PUT", "/tasks/a").body, "PUT /tasks/{id} a");
  EXPECT_EQ(ask("GET", "/tasks/a/result").body, "GET /tasks/{id}/result a");
}

TEST(Router, TakesTheActAfterTheLastColon) {
  EXPECT_EQ(ask("POST", "/tasks/a:cancel").body, "POST /tasks/{id}:cancel a");
  EXPECT_EQ(ask("POST", "/tasks/a:b:cancel").body, "POST /tasks/{id}:cancel a:b");
  EXPECT_EQ(ask("POST", "/tasks:batch").body, "POST /tasks:batch");
  EXPECT_EQ(ask("GET", "/tasks/a:b/result").body, "GET /tasks/{id}/result a:b");
  EXPECT_EQ(ask("POST", "/tasks/a:explode").status, 404);
  EXPECT_THAT(ask("GET", "/tasks/a:b").body, HasSubstr("%3A"));
}

TEST(Router, DecodesParametersAfterItSplitThePath) {
  EXPECT_EQ(ask("GET", "/tasks/a%3Ab%2Fc%25+d").body, "GET /tasks/{id} a:b/c%+d");
  EXPECT_EQ(ask("POST", "/tasks/a%3Acancel:cancel").body, "POST /tasks/{id}:cancel a:cancel");
  for (const char* broken : {"/tasks/%", "/tasks/%1", "/tasks/%g0", "/tasks/a?q=%"})
    EXPECT_EQ(ask("GET", broken).status, 400) << broken;
}

TEST(Router, ReadsTheQuery) {
  EXPECT_EQ(ask("GET", "/tasks/a?q=b+c%2B").body, "GET /tasks/{id} ab c+");
  EXPECT_EQ(ask("GET", "/tasks/a?q").body, "GET /tasks/{id} a");
  EXPECT_EQ(ask("GET", "/tasks/a?q=1&q=2").status, 400);
  EXPECT_EQ(ask("GET", "/tasks/a?x=1").status, 400);
  EXPECT_EQ(ask("GET", "/tasks?q=1").status, 400);
}

TEST(Router, RefusesOtherPathsAndMethods) {
  for (const char* path : {"/", "/tasks/", "/tasks//result", "/tasks/a/b", "/Tasks"})
    EXPECT_EQ(ask("GET", path).status, 404) << path;
  EXPECT_EQ(ask("GET", "http://host/tasks").status, 400);
  const Response refused = ask("DELETE", "/tasks/a");
  EXPECT_EQ(refused.status, 405);
  ASSERT_EQ(refused.headers.size(), 1u);
  EXPECT_EQ(refused.headers[0].name, "Allow");
  EXPECT_EQ(refused.headers[0].value, "GET, HEAD, PUT");
}

TEST(Router, TurnsAnErrorIntoAProblem) {
  const Router failing({{"GET", "/", {}, [](const Call&) -> Reply {
                           return Error{.code = Code::wrong_state, .message = "no"};
                         }}});
  const auto response = std::get<Response>(failing.answer(Request{.method = "GET", .target = "/"}));
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(response.type, "application/problem+json");
}

}  // namespace
}  // namespace once::server
