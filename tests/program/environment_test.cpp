// What a program is told about its task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <optional>

#include "exec/program_environment.h"
#include "json/json.h"
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
  EXPECT_THAT(seen["ONCE_CLAIM"], ::testing::MatchesRegex("[0-9a-f]{64}[.]99"));
  EXPECT_EQ(seen["ONCE_STORE"], store_url());
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
  EXPECT_EQ(engine::idempotency_key(task_attempt_of(attempt), "inner").size(), 64U);
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

TEST(TaskFile, holds_bytes_that_are_text_as_a_string) {
  for (const std::string text : {"", "foo", "two\nlines \u00fc"}) {
    Attempt attempt;
    attempt.task.body = Body::bytes(text);
    const auto line = encoding::parse_json(output("cat $ONCE_TASK_FILE", attempt));
    ASSERT_TRUE(line);
    EXPECT_EQ(line->member("body")->string(), text);
    EXPECT_NE(line->member("text"), nullptr);
    EXPECT_EQ(line->member("raw"), nullptr);
  }
}

TEST(TaskFile, holds_other_bytes_in_base64) {
  const std::map<std::string, std::string> cases = {
      {"\xff", "/w=="}, {"\xff\xfe", "//4="}, {"\xff\xfe\xfd?", "//79Pw=="}};
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

// A folder for folders of attempts.
class AbandonedFolder : public ::testing::Test {
 protected:
  AbandonedFolder() {
    if (const char* const before = ::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", root_.path().c_str(), 1);
  }
  ~AbandonedFolder() override {
    before_ ? ::setenv("TMPDIR", before_->c_str(), 1) : ::unsetenv("TMPDIR");
  }
  std::filesystem::path folder(const char* name) {
    const auto path = root_ / name;
    std::filesystem::create_directory(path);
    std::ofstream(path / "task.json") << "{}";
    std::ofstream(path / ".lock") << "";
    return path;
  }

  TempFolder root_{};
  std::optional<std::string> before_{};
};

TEST_F(AbandonedFolder, is_cleared) {
  const auto left = folder("once-attempt-abcdef");
  std::filesystem::create_directory(left / "more");
  engine::AttemptFolder::clear_abandoned();
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_F(AbandonedFolder, is_one_without_a_lock_only_if_it_is_empty) {
  std::filesystem::create_directory(root_ / "once-attempt-empty");
  std::filesystem::remove(folder("once-attempt-strange") / ".lock");
  engine::AttemptFolder::clear_abandoned();
  EXPECT_FALSE(std::filesystem::exists(root_ / "once-attempt-empty"));
  EXPECT_TRUE(std::filesystem::exists(root_ / "once-attempt-strange" / "task.json"));
}

TEST_F(AbandonedFolder, is_none_that_a_worker_or_its_supervisor_owns) {
  const Attempt attempt;
  const auto owned = engine::AttemptFolder::make(task_attempt_of(attempt));
  ASSERT_TRUE(owned);
  engine::AttemptFolder::clear_abandoned();
  EXPECT_TRUE(std::filesystem::exists(owned->task_file()));
}

TEST_F(AbandonedFolder, is_no_link_and_nothing_of_another_name) {
  const auto target = folder("target");
  const auto older = folder("once-abcdef");
  std::filesystem::create_directory_symlink(target, root_ / "once-attempt-abcdef");
  std::ofstream(root_ / "once-attempt-file") << "1";
  engine::AttemptFolder::clear_abandoned();
  EXPECT_TRUE(std::filesystem::exists(target / "task.json"));
  EXPECT_TRUE(std::filesystem::is_symlink(root_ / "once-attempt-abcdef"));
  EXPECT_TRUE(std::filesystem::exists(older / "task.json"));
  EXPECT_TRUE(std::filesystem::exists(root_ / "once-attempt-file"));
}

TEST_F(AbandonedFolder, is_none_of_another_user) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's folder";
  const auto others = folder("once-attempt-abcdef");
  ASSERT_EQ(::chown(others.c_str(), 4711, 4711), 0);
  engine::AttemptFolder::clear_abandoned();
  EXPECT_TRUE(std::filesystem::exists(others / "task.json"));
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
