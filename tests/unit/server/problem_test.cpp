// The status and the fields of each error.
#include "server/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace once::server {
namespace {

std::string retry_after(const Response& response) {
  for (const Header& header : response.headers) {
    if (header.name == "Retry-After") return header.value;
  }
  return "";
}

TEST(Problem, HasAStatusForEachCode) {
  const std::pair<Code, int> expected[] = {
      {Code::conflicting_duplicate, 422},
      {Code::invalid_input, 400},
      {Code::too_large, 413},
      {Code::queue_mismatch, 409},
      {Code::not_found, 404},
      {Code::wrong_state, 409},
      {Code::fenced, 409},
      {Code::failed, 500},
      {Code::store_unavailable, 503},
      {Code::store_unusable, 500},
      {Code::outcome_unknown, 503},
      {Code::timed_out, 504},
      {Code::overloaded, 429},
  };
  for (const auto& [code, status] : expected) {
    const Response response = problem({.code = code, .message = "m"});
    EXPECT_EQ(response.status, status) << to_string(code);
    const auto document = nlohmann::json::parse(response.body);
    EXPECT_EQ(document["status"], status);
    EXPECT_EQ(document["code"], to_string(code));
    EXPECT_EQ(document["title"], phrase(status));
    EXPECT_NE(document["title"], "Unknown");
  }
}

TEST(Problem, TellsThatACallMayHaveSucceeded) {
  const Response response =
      problem({.code = Code::outcome_unknown, .message = "m", .retryable = true, .in_doubt = true});
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(retry_after(response), "1");
  const auto document = nlohmann::json::parse(response.body);
  EXPECT_EQ(document["in_doubt"], true);
  EXPECT_EQ(document["retryable"], true);
  // A failure in doubt is never a plain failure.
  EXPECT_EQ(problem({.code = Code::failed, .message = "m", .in_doubt = true}).status, 503);
}

TEST(Problem, SaysWhenToTryAgain) {
  EXPECT_EQ(retry_after(problem({.code = Code::store_unavailable, .retryable = true})), "1");
  EXPECT_EQ(retry_after(problem({.code = Code::overloaded, .retryable = true})), "1");
  EXPECT_EQ(retry_after(problem({.code = Code::not_found})), "");
}

TEST(Problem, HasReasonAndConflict) {
  Error error{.code = Code::conflicting_duplicate, .message = "m"};
  error.conflict = std::make_shared<const Conflict>(Conflict{.id = "a",
                                                             .sequence = 7,
                                                             .digest = "sha256:1",
                                                             .given_digest = "sha256:2",
                                                             .differs = {{"$.amount"}}});
  const auto document = nlohmann::json::parse(problem(error).body);
  EXPECT_EQ(document["differs"], nlohmann::json::array({"$.amount"}));
  EXPECT_EQ(document["digest"], "sha256:1");
  EXPECT_EQ(document["given_digest"], "sha256:2");
  const Error full{.code = Code::invalid_input,
                   .message = "m",
                   .reason = Reason::queue_not_empty,
                   .facts = {{"queue", "q"}}};
  EXPECT_EQ(problem(full).status, 409);
  EXPECT_EQ(nlohmann::json::parse(problem(full).body)["facts"]["queue"], "q");
}

}  // namespace
}  // namespace once::server
