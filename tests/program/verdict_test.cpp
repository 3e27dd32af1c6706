// What a program's end says about its attempt, and what becomes of what it wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "core/record.h"
#include "program/harness.h"

namespace once::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Kind = Outcome::Kind;

constexpr std::size_t kMebibyte = 1 << 20;

struct Row {
  const char* script;
  Kind kind;
  const char* why;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.script; }

class Verdict : public ::testing::TestWithParam<Row> {};

TEST_P(Verdict, follows_from_the_end) {
  const auto report = run(shell(std::string("echo reason >&2; ") + GetParam().script));
  EXPECT_EQ(report.outcome.kind(), GetParam().kind);
  EXPECT_FALSE(report.never_started);
  if (GetParam().kind == Kind::completed)
    EXPECT_EQ(report.outcome.why(), "");
  else
    EXPECT_EQ(report.outcome.why(), std::string(GetParam().why) + ": reason");
}

INSTANTIATE_TEST_SUITE_P(
    program, Verdict,
    ::testing::Values(
        Row{"exit 0", Kind::completed, ""}, Row{"exit 1", Kind::failed, "exit 1"},
        Row{"exit 2", Kind::failed, "exit 2"}, Row{"exit 64", Kind::failed, "exit 64"},
        Row{"exit 65", Kind::dead, "exit 65"}, Row{"exit 66", Kind::failed, "exit 66"},
        Row{"exit 73", Kind::failed, "exit 73"}, Row{"exit 74", Kind::unknown, "exit 74"},
        Row{"exit 75", Kind::failed, "exit 75"}, Row{"exit 127", Kind::failed, "exit 127"},
        Row{"exit 128", Kind::failed, "exit 128"}, Row{"exit 129", Kind::unknown, "exit 129"},
        Row{"exit 192", Kind::unknown, "exit 192"}, Row{"exit 193", Kind::failed, "exit 193"},
        Row{"exit 255", Kind::failed, "exit 255"},
        Row{"kill -KILL $$", Kind::unknown, "killed by SIGKILL"},
        Row{"kill -SEGV $$", Kind::unknown, "killed by SIGSEGV"},
        Row{"kill -TERM $$", Kind::unknown, "killed by SIGTERM"}));

TEST(Verdict, without_a_word_on_standard_error_is_the_bare_end) {
  EXPECT_EQ(run({"false"}).outcome.why(), "exit 1");
}

TEST(Verdict, holds_the_end_of_a_long_standard_error) {
  const auto why =
      run(shell("i=0; while [ $i -lt 3000 ]; do echo line-$i; i=$((i+1)); done >&2; exit 3"))
          .outcome.why();
  EXPECT_THAT(why, StartsWith("exit 3: "));
  EXPECT_THAT(why, EndsWith("\nline-2998\nline-2999"));
  EXPECT_LE(why.size(), core::kErrorKept);
  EXPECT_GT(why.size(), core::kErrorKept - 16);
}

TEST(Verdict, is_text_whatever_standard_error_was) {
  EXPECT_EQ(run(shell("printf 'gr\\374n' >&2; exit 3")).outcome.why(), "exit 3: gr\uFFFDn");
  // 2,100 characters of two bytes each: the cut falls into the middle of one.
  const auto why = run(shell("printf 'x' >&2; i=0; while [ $i -lt 2100 ]; do printf '\\303\\274'; "
                             "i=$((i+1)); done >&2; exit 3"))
                       .outcome.why();
  EXPECT_THAT(why, StartsWith("exit 3: \u00fc"));
  EXPECT_THAT(why, Not(HasSubstr("\uFFFD")));
}

TEST(Verdict, does_not_change_for_standard_error_without_an_end) {
  EXPECT_EQ(run(shell("head -c 20000000 /dev/zero | tr '\\0' e >&2; exit 0")).outcome.kind(),
            Kind::completed);
}

Body result(const std::string& script, Attempt attempt = {}) {
  const auto report = run(shell(script), attempt);
  EXPECT_EQ(report.outcome.kind(), Kind::completed) << report.outcome.why();
  EXPECT_EQ(report.oversize, 0U);
  return report.outcome.result();
}

TEST(ProgramResult, is_json_when_it_parses) {
  EXPECT_EQ(result("echo '{\"paid\": 3}'"), *Body::json("{\"paid\": 3}"));
  EXPECT_EQ(result("printf ' 7\\n\\n'"), *Body::json("7"));
}

TEST(ProgramResult, is_bytes_as_they_came_when_it_does_not_parse) {
  EXPECT_EQ(result("echo done"), Body::bytes("done\n"));
  EXPECT_EQ(result("printf 'a\\000\\377b'"), Body::bytes(std::string("a\0\377b", 4)));
  EXPECT_EQ(result("printf '\\n'"), Body::bytes("\n"));
}

TEST(ProgramResult, is_null_when_nothing_was_written) { EXPECT_EQ(result(":"), Body{}); }

TEST(ProgramResult, file_comes_before_standard_output) {
  EXPECT_EQ(result("echo 1; echo 2 > $ONCE_RESULT"), *Body::json("2"));
  EXPECT_EQ(result("echo 1; : > $ONCE_RESULT"), Body{});
}

TEST(ProgramResult, that_is_no_file_is_not_taken) {
  EXPECT_EQ(result("echo 1; mkdir $ONCE_RESULT"), *Body::json("1"));
  EXPECT_EQ(result("echo 1; mkfifo $ONCE_RESULT"), *Body::json("1"));
}

TEST(ProgramResult, of_exactly_the_limit_is_whole) {
  EXPECT_EQ(result("head -c 1048576 /dev/zero | tr '\\0' x").text().size(), kMebibyte);
  EXPECT_EQ(result("head -c 1048576 /dev/zero | tr '\\0' x > $ONCE_RESULT").text().size(),
            kMebibyte);
}

TEST(ProgramResult, above_the_limit_is_not_there_and_its_size_is_told) {
  for (const char* to : {"", " > $ONCE_RESULT"}) {
    const auto report = run(shell(std::string("head -c 10485760 /dev/zero | tr '\\0' x") + to));
    EXPECT_EQ(report.outcome.kind(), Kind::completed);
    EXPECT_EQ(report.oversize, 10U << 20);
    EXPECT_EQ(report.outcome.result(), Body());
  }
}

TEST(ProgramResult, obeys_the_limit_of_its_queue) {
  Attempt attempt;
  attempt.max_result = 3 << 20;
  EXPECT_EQ(result("head -c 3145728 /dev/zero | tr '\\0' x", attempt).text().size(), 3U << 20);
  EXPECT_EQ(run(shell("head -c 3145729 /dev/zero"), attempt).oversize, (3U << 20) + 1);
}

TEST(ProgramInput, is_the_body) {
  Attempt attempt;
  attempt.task.body = *Body::json("{\"n\": [1, 2]}");
  EXPECT_EQ(result("cat", attempt), attempt.task.body);
  EXPECT_EQ(result("cat /dev/stdin", attempt), attempt.task.body);
  attempt.task.body = Body::bytes(std::string("\0\1\377", 3));
  EXPECT_EQ(result("cat", attempt), attempt.task.body);
  attempt.task.body = Body::bytes("");
  EXPECT_EQ(result("cat", attempt), Body{});
}

TEST(ProgramInput, may_be_left_unread) {
  Attempt attempt;
  attempt.task.body = Body::bytes(std::string(kMebibyte, 'b'));
  EXPECT_EQ(run({"true"}, attempt).outcome.kind(), Kind::completed);
  EXPECT_EQ(run(shell("exec <&-; exit 3"), attempt).outcome.why(), "exit 3");
}

TEST(ProgramInput, and_output_of_a_mebibyte_flow_at_once) {
  Attempt attempt;
  attempt.task.body = Body::bytes(std::string(kMebibyte, 'b'));
  EXPECT_EQ(result("tee /dev/stderr", attempt), attempt.task.body);
}

TEST(ProgramStart, is_with_default_signals_in_a_group_of_its_own) {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto status =
      result("grep -E '^Sig(Blk|Ign)' /proc/self/status; cut -d' ' -f1,5 /proc/$$/stat");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const std::string text(status.text());
  const auto mask = [&](const std::string& name) {
    return std::stoull(text.substr(text.find(name) + name.size()), nullptr, 16);
  };
  EXPECT_EQ(mask("SigBlk:"), 0U);
  EXPECT_EQ(mask("SigIgn:") & 0x7fff'ffff, 0U);  // above are those that belong to the C library
  const auto ids = text.substr(text.find("\n", text.find("SigIgn")) + 1);
  EXPECT_EQ(ids.substr(0, ids.find(' ')) + "\n", ids.substr(ids.find(' ') + 1));
}

}  // namespace
}  // namespace once::testing
