// Which commands can be run, and what is said about those that cannot.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "program/harness.h"

namespace once::testing {
namespace {

using ::testing::HasSubstr;

Program program(Command command, std::string supervisor) {
  return {.command = std::move(command), .grace = Duration{1}, .supervisor = std::move(supervisor)};
}

class CommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::getenv("PATH");
    directory_ = std::filesystem::current_path();
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    std::filesystem::current_path(directory_);
  }
  std::string file(const std::string& name, const std::string& text, mode_t mode) {
    const auto path = folder_ / name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  std::string refusal(const std::string& command) {
    const auto resolved = engine::resolve_command(command);
    EXPECT_FALSE(resolved);
    if (resolved) return {};
    EXPECT_EQ(resolved.error().code, Code::invalid_input);
    EXPECT_THAT(resolved.error().message, HasSubstr("'" + command + "'"));
    const auto handler = engine::program_handler(program({command}, self()));
    EXPECT_FALSE(handler);
    return resolved.error().message;
  }

  TempFolder folder_;
  std::string path_;
  std::filesystem::path directory_;
};

TEST_F(CommandTest, that_cannot_be_run_is_refused_before_anything_runs) {
  EXPECT_THAT(refusal(folder_ / "missing"), HasSubstr("No such file"));
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("directory"));
  EXPECT_THAT(refusal(file("plain", "text", 0644)), HasSubstr("Permission denied"));
  EXPECT_THAT(refusal(file("plain", "text", 0644) + "/below"), HasSubstr("Not a directory"));
  EXPECT_THAT(refusal("no-such-command-anywhere"), HasSubstr("PATH"));
  EXPECT_THAT(refusal(""), HasSubstr("empty"));
  EXPECT_FALSE(engine::program_handler(program({}, self())));
}

TEST_F(CommandTest, needs_a_supervisor) {
  const auto handler = engine::program_handler(program({"true"}, folder_ / "missing"));
  ASSERT_FALSE(handler);
  EXPECT_THAT(handler.error().message, HasSubstr("missing"));
}

TEST_F(CommandTest, is_looked_up_in_path_past_what_cannot_be_run) {
  std::filesystem::create_directories(folder_ / "a/tool");  // a directory of that name
  std::filesystem::create_directories(folder_ / "b");
  std::filesystem::create_directories(folder_ / "c");
  file("b/tool", "", 0644);
  file("c/tool", "#!/bin/sh\necho 3\n", 0755);
  const auto root = folder_.path().string();
  ::setenv("PATH", (root + "/none:" + root + "/a:" + root + "/b:" + path_).c_str(), 1);
  EXPECT_THAT(refusal("tool"), HasSubstr("Permission denied"));
  ::setenv("PATH", (root + "/a:" + root + "/b:" + root + "/c:" + path_).c_str(), 1);
  EXPECT_EQ(engine::resolve_command("tool").value(), root + "/c/tool");
  EXPECT_EQ(run({"tool"}).outcome.result(), *Body::json("3"));
}

TEST_F(CommandTest, may_be_relative_and_keeps_its_name) {
  file("show", "#!/bin/sh\necho \"$0\"\n", 0755);
  std::filesystem::current_path(folder_.path());
  EXPECT_EQ(run({"./show"}).outcome.result(), Body::bytes("./show\n"));
  ::setenv("PATH", (":" + path_).c_str(), 1);  // an empty element is the current folder
  EXPECT_EQ(engine::resolve_command("show").value(), "./show");
  EXPECT_EQ(run({"sh", "-c", "echo $0"}).outcome.result(), Body::bytes("sh\n"));
}

TEST_F(CommandTest, may_be_a_script_without_an_interpreter) {
  EXPECT_EQ(run({file("script", "echo $1\n", 0755), "7"}).outcome.result(), *Body::json("7"));
}

TEST_F(CommandTest, gets_its_arguments_as_they_are) {
  EXPECT_EQ(run({"printf", "%s|", "", "a b", "$HOME", "--", "--supervisor"}).outcome.result(),
            Body::bytes("|a b|$HOME|--|--supervisor|"));
}

// What passed the check and cannot be executed all the same.
TEST_F(CommandTest, that_cannot_be_executed_never_started) {
  const auto report = run({file("bad", "#!/no/such/interpreter\n", 0755)});
  ASSERT_TRUE(report.never_started);
  EXPECT_EQ(report.never_started->code, Code::invalid_input);
  EXPECT_THAT(report.never_started->message, HasSubstr("bad"));
  EXPECT_THAT(report.never_started->message, HasSubstr("No such file"));
}

TEST_F(CommandTest, that_vanished_after_the_check_never_started) {
  const auto path = file("tool", "#!/bin/sh\n", 0755);
  const auto handler = engine::program_handler(program({path}, self()));
  ASSERT_TRUE(handler);
  const Task task;
  EXPECT_FALSE((*handler)(engine::TaskAttempt{task}).never_started);
  std::filesystem::remove(path);
  EXPECT_TRUE((*handler)(engine::TaskAttempt{task}).never_started);
}

TEST_F(CommandTest, whose_supervisor_is_none_never_started) {
  const auto handler = engine::program_handler(program({"true"}, "true"));
  ASSERT_TRUE(handler);
  const Task task;
  const auto report = (*handler)(engine::TaskAttempt{task});
  ASSERT_TRUE(report.never_started);
  EXPECT_THAT(report.never_started->message, HasSubstr("supervisor_main"));
}

TEST_F(CommandTest, supervisor_is_not_for_people) {
  EXPECT_THAT(run({self(), "--supervisor"}).outcome.why(), HasSubstr("exit 2: once: --supervisor"));
}

// A new version is installed over the old one while the worker runs.
TEST_F(CommandTest, keeps_the_supervisor_that_it_began_with) {
  const auto supervisor = folder_ / "supervisor";
  std::filesystem::copy_file(self(), supervisor);
  const auto handler = engine::program_handler(program({"true"}, supervisor));
  ASSERT_TRUE(handler);
  std::filesystem::remove(supervisor);
  const Task task;
  const auto report = (*handler)(engine::TaskAttempt{task});
  EXPECT_FALSE(report.never_started);
  EXPECT_EQ(report.outcome.kind(), Outcome::Kind::completed);
}

TEST_F(CommandTest, runs_when_the_worker_has_no_standard_descriptors) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int fd = 0; fd < 3; ++fd) ::close(fd);
    Attempt attempt;
    attempt.task.body = *Body::json("17");
    const auto report = run({"cat"}, attempt);
    ::_exit(report.outcome.result() == attempt.task.body ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace once::testing
