// What a program is told about its task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <map>

#include "encoding/json.h"
#include "program/harness.h"

namespace once::testing {
namespace {

using ::testing::StartsWith;

std::string output(const std::string& script, const Attempt& attempt = {}) {
  const auto report = run(shell(script), attempt);
  EXPECT_EQ(report.outcome.kind(), Outcome::Kind::completed) << report.outcome.why();
  return std::string(report.outcome.result().text());
}

// The environment as the program sees it; a variable that is set twice fails the test.
std::map<std::string, std::string> environment(const Attempt& attempt = {}) {
  std::map<std::string, std::string> variables;
  const auto text = output("tr '\\0' '\\001' < /proc/self/environ", attempt);
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find('\1', at);
    const auto variable = text.substr(at, end - at);
    const auto split = variable.find('=');
    EXPECT_TRUE(variables.emplace(variable.substr(0, split), variable.substr(split + 1)).second)
        << variable;
    at = end + 1;
  }
  return variables;
}

Attempt example() {
  Attempt attempt;
  attempt.task.id = "order 17/\u00fc='\"";
  attempt.task.topic = "orders.paid";
  attempt.sequence = 4711;
  attempt.token = 99;
  attempt.attempt = 3;
  attempt.in_doubt = true;
  attempt.deadline = Time{Duration{1'700'000'060'007}};
  return attempt;
}

TEST(ProgramEnvironment, describes_the_attempt) {
  auto seen = environment(example());
  EXPECT_EQ(seen["ONCE_ID"], "order 17/\u00fc='\"");
  EXPECT_EQ(seen["ONCE_KEY"], "order 17/\u00fc='\"");
  EXPECT_EQ(seen["ONCE_TOPIC"], "orders.paid");
  EXPECT_EQ(seen["ONCE_QUEUE"], "orders");
  EXPECT_EQ(seen["ONCE_SEQUENCE"], "4711");
  EXPECT_EQ(seen["ONCE_TOKEN"], "99");
  EXPECT_EQ(seen["ONCE_ATTEMPT"], "3");
  EXPECT_EQ(seen["ONCE_IN_DOUBT"], "1");
  EXPECT_EQ(seen["ONCE_DEADLINE"], "2023-11-14T22:14:20.007Z");
  EXPECT_EQ(seen["ONCE_IDEMPOTENCY_KEY"].size(), 64U);
  EXPECT_EQ(seen["ONCE_STORE"], "sqlite:/tasks/once.db");
  EXPECT_EQ(seen["ONCE_BIN"], self());
}

TEST(ProgramEnvironment, names_the_run_and_the_step_of_a_workflow) {
  auto attempt = example();
  attempt.run = "payment-1";
  attempt.step = "charge";
  auto seen = environment(attempt);
  EXPECT_EQ(seen["ONCE_RUN"], "payment-1");
  EXPECT_EQ(seen["ONCE_STEP"], "charge");
  EXPECT_EQ(seen["ONCE_IDEMPOTENCY_KEY"], "payment-1.charge");
  EXPECT_EQ(engine::idempotency_key(assignment_of(attempt), "inner").size(), 64U);
  EXPECT_FALSE(environment(example()).contains("ONCE_RUN"));
}

TEST(ProgramEnvironment, is_the_workers_without_other_tasks_and_secrets) {
  ::setenv("ONCE_NATS_PASSWORD", "secret", 1);
  ::setenv("ONCE_ID", "outer", 1);
  ::setenv("ONCE_DEADLINE", "outer", 1);
  ::setenv("ONCE_SOCKET", "outer", 1);
  ::setenv("ONCE_RUN", "outer", 1);
  ::setenv("ONCE_STEP_NAME", "outer", 1);
  ::setenv("ONCE_COLOUR", "blue", 1);
  auto seen = environment();
  for (const char* name : {"ONCE_NATS_PASSWORD", "ONCE_ID", "ONCE_DEADLINE", "ONCE_SOCKET",
                           "ONCE_RUN", "ONCE_STEP_NAME", "ONCE_COLOUR"})
    ::unsetenv(name);
  EXPECT_FALSE(seen.contains("ONCE_NATS_PASSWORD"));
  EXPECT_EQ(seen["ONCE_ID"], "");
  EXPECT_FALSE(seen.contains("ONCE_DEADLINE"));
  EXPECT_FALSE(seen.contains("ONCE_SOCKET"));
  EXPECT_FALSE(seen.contains("ONCE_RUN"));
  EXPECT_FALSE(seen.contains("ONCE_STEP_NAME"));
  EXPECT_EQ(seen["ONCE_COLOUR"], "blue");
  EXPECT_EQ(seen["ONCE_IN_DOUBT"], "0");
  EXPECT_EQ(seen["PATH"], ::getenv("PATH"));
}

TEST(TaskFile, holds_the_line_of_the_log) {
  auto attempt = example();
  attempt.task.body = *Body::json("{\n \"n\": 1.50\r\n}");
  attempt.task.headers = {{"A", "1"}, {"B", "x\"y"}};
  const auto line = output("cat $ONCE_TASK_FILE >&2; cat $ONCE_TASK_FILE", attempt);
  EXPECT_EQ(
      line,
      "{\"sequence\":4711,\"id\":\"order 17/\u00fc='\\\"\",\"topic\":\"orders.paid\",\"body\":{"
      "  \"n\": 1.50  },\"headers\":{\"A\":\"1\",\"B\":\"x\\\"y\"},\"published_at\":"
      "\"2023-11-14T22:13:20.123Z\",\"digest\":\"sha256:" +
          std::string(64, '0') + "\"}");
}

TEST(TaskFile, holds_raw_bodies_in_base64) {
  const std::map<std::string, std::string> cases = {
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"\xff\xfe\xfd?", "//79Pw=="}};
  for (const auto& [bytes, base64] : cases) {
    Attempt attempt;
    attempt.task.body = Body::bytes(bytes);
    const auto line = encoding::parse_json(output("cat $ONCE_TASK_FILE", attempt));
    ASSERT_TRUE(line);
    EXPECT_EQ(line->member("raw")->string(), base64);
    EXPECT_EQ(line->member("body"), nullptr);
  }
}

TEST(AttemptFolder, is_private_and_goes_with_the_attempt) {
  const auto text = output(
      "folder=${ONCE_RESULT%/*}; stat -c %a $folder; ls $folder; echo $folder; touch $folder/more");
  EXPECT_THAT(text, StartsWith("700\ntask.json\n/"));
  const auto folder = text.substr(text.find('/'), text.size() - text.find('/') - 1);
  EXPECT_FALSE(std::filesystem::exists(folder)) << folder;
}

TEST(AttemptFolder, that_cannot_be_made_is_a_program_that_never_started) {
  const char* const before = ::getenv("TMPDIR");
  const std::string saved = before != nullptr ? before : "";
  ::setenv("TMPDIR", "/no/such/folder", 1);
  const auto report = run({"true"});
  before != nullptr ? ::setenv("TMPDIR", saved.c_str(), 1) : ::unsetenv("TMPDIR");
  ASSERT_TRUE(report.never_started);
  EXPECT_TRUE(report.never_started->retryable);
  EXPECT_THAT(report.never_started->message, ::testing::HasSubstr("/no/such/folder"));
}

}  // namespace
}  // namespace once::testing
