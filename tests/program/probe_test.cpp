// What a probe's end says about the attempt that it was asked about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/harness.h"

namespace once::testing {
namespace {

using ::testing::HasSubstr;
using Kind = Outcome::Kind;

engine::Report ask(const std::string& probe, const Attempt& attempt = {}) {
  return run(probe_of(probe, attempt.grace).value(), attempt);
}

struct Row {
  const char* script;
  Kind kind;
  const char* why;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.script; }

class ProbeAnswer : public ::testing::TestWithParam<Row> {};

TEST_P(ProbeAnswer, follows_from_the_end) {
  const auto report = ask(std::string("echo reason >&2; ") + GetParam().script);
  EXPECT_EQ(report.outcome.kind(), GetParam().kind);
  EXPECT_FALSE(report.never_started);
  EXPECT_EQ(report.outcome.why(), GetParam().why);
}

INSTANTIATE_TEST_SUITE_P(probe, ProbeAnswer,
                         ::testing::Values(Row{"exit 0", Kind::completed, ""},
                                           Row{"exit 1", Kind::failed, "exit 1: reason"},
                                           Row{"exit 2", Kind::unknown, "exit 2: reason"},
                                           Row{"exit 65", Kind::unknown, "exit 65: reason"},
                                           Row{"exit 74", Kind::unknown, "exit 74: reason"},
                                           Row{"exit 127", Kind::unknown, "exit 127: reason"},
                                           Row{"exit 137", Kind::unknown, "exit 137: reason"},
                                           Row{"kill -KILL $$", Kind::unknown,
                                               "killed by SIGKILL: reason"}));

TEST(Probe, gives_the_result) {
  EXPECT_EQ(ask("echo '{\"a\":1}'").outcome.result(), *Body::json("{\"a\":1}"));
  EXPECT_EQ(ask("echo 1; echo 2 > $ONCE_RESULT").outcome.result(), *Body::json("2"));
  EXPECT_EQ(ask("printf found").outcome.result(), Body::bytes("found"));
  EXPECT_EQ(ask("head -c 2000000 /dev/zero").oversize, 2'000'000U);
}

TEST(Probe, has_the_tasks_input_and_environment_but_no_steps) {
  Attempt attempt;
  attempt.task.id = "order-1";
  attempt.task.body = *Body::json("17");
  attempt.in_doubt = true;
  EXPECT_EQ(
      ask("cat; echo \" $ONCE_ID $ONCE_IN_DOUBT ${ONCE_SOCKET-none}\"", attempt).outcome.result(),
      Body::bytes("17 order-1 1 none\n"));
}

TEST(Probe, that_is_ended_from_outside_has_not_answered) {
  for (const char* exit : {"0", "1"}) {
    const Marks marks;
    std::stop_source stop;
    Attempt attempt;
    attempt.stop = stop.get_token();
    const std::jthread later([&] {
      marks.await_pid("probe");
      stop.request_stop();
    });
    const auto report = ask(std::string("trap 'exit ") + exit +
                                "' TERM; echo $$ > $MARKS/probe; while :; do sleep 0.01; done",
                            attempt);
    EXPECT_EQ(report.outcome.kind(), Kind::unknown);
    EXPECT_THAT(report.outcome.why(), HasSubstr("after it was asked to stop"));
  }
}

TEST(Probe, that_is_not_asked_any_more_has_not_answered) {
  std::stop_source stop;
  stop.request_stop();
  Attempt attempt;
  attempt.stop = stop.get_token();
  EXPECT_EQ(ask("exit 1", attempt).outcome.kind(), Kind::unknown);
}

TEST(Probe, that_cannot_be_started_has_not_answered) {
  const auto handler =
      engine::program_probe({.command = {"false"}, .probe = "exit 1", .supervisor = "true"});
  ASSERT_TRUE(handler);
  const auto report = run(*handler);
  EXPECT_EQ(report.outcome.kind(), Kind::unknown);
  EXPECT_THAT(report.outcome.why(), HasSubstr("supervisor_main"));
  EXPECT_FALSE(report.never_started);
}

TEST(Probe, is_needed) { EXPECT_FALSE(probe_of("")); }

}  // namespace
}  // namespace once::testing
