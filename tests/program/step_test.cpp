// `once step` inside a program: what is asked of the worker, run, recorded, printed and passed on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>

#include "program/steps.h"

namespace once::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using Kind = FakeSteps::Kind;

constexpr std::size_t kMebibyte = 1 << 20;

class Step : public ::testing::Test {
 protected:
  // What the program wrote to standard output; it exits 0.
  std::string output(const std::string& script) {
    attempt_.steps = &steps_;
    const auto report = run(stepping(script), attempt_);
    EXPECT_EQ(report.outcome.kind(), Outcome::Kind::completed) << report.outcome.why();
    return std::string(report.outcome.result().text());
  }
  // The exit status of one step, after all it wrote to standard output and error.
  std::string ending(const std::string& arguments) {
    return output("step " + arguments + " 2>&1; echo \"exit $?\"");
  }

  const Marks marks_;
  FakeSteps steps_;
  Attempt attempt_;
};

TEST_F(Step, is_run_and_recorded_with_its_output) {
  EXPECT_EQ(output("step push -- sh -c 'echo out; echo error >&2' 2> $MARKS/said; echo $?"),
            "out\n0\n");
  EXPECT_EQ(contents(marks_.path() / "said"), "error\n");
  EXPECT_THAT(steps_.calls(), ElementsAre("begin push", "end push"));
  EXPECT_EQ(steps_.result("push"), "out\n");
}

TEST_F(Step, tells_its_policy) {
  output(
      "step a --in-doubt retry -- true; step b --in-doubt hold -- true; "
      "step c --in-doubt probe --probe false -- true; step d --probe false -- true");
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a retry", "end a", "begin b hold", "end b",
                                          "begin c probe", "end c", "begin d probe", "end d"));
}

TEST_F(Step, has_the_programs_input_and_environment_and_a_key_of_its_own) {
  attempt_.task.id = "order 1";
  attempt_.task.body = *Body::json("17");
  const auto seen = output(
      "step push -- sh -c 'cat; echo; echo $ONCE_ID; echo $ONCE_STEP_NAME; echo "
      "$ONCE_IDEMPOTENCY_KEY'; echo $ONCE_IDEMPOTENCY_KEY");
  const auto task_attempt = task_attempt_of(attempt_);
  EXPECT_EQ(seen, "17\norder 1\npush\n" + engine::idempotency_key(task_attempt, "push") + "\n" +
                      engine::idempotency_key(task_attempt) + "\n");
}

TEST_F(Step, sets_each_variable_once) {
  EXPECT_EQ(output("ONCE_STEP_NAME=outer step a -- sh -c 'step() { $STEP \"$@\"; }; "
                   "step b -- env' | grep -c -E '^ONCE_(STEP_NAME|IDEMPOTENCY_KEY)='"),
            "2");
}

TEST_F(Step, is_remembered_to_the_byte) {
  for (const auto& result :
       {Body::bytes(std::string("\0a\377\n\n", 5)), Body::bytes(""), *Body::json(" {\"a\":1}\n"),
        Body::bytes(std::string(kMebibyte, 'x'))}) {
    steps_.answer(Kind::remembered, result);
    output("step a -- touch $MARKS/ran > $MARKS/out 2>&1 || echo failed >> $MARKS/out");
    EXPECT_EQ(contents(marks_.path() / "out"), result.text());
  }
  EXPECT_FALSE(std::filesystem::exists(marks_.path() / "ran"));
}

TEST_F(Step, of_which_an_older_once_kept_a_part_fails_and_writes_nothing_of_it) {
  steps_.answer(Kind::remembered, Body::bytes("abc"), true);
  const std::string end = ending("a -- true");
  EXPECT_THAT(end, StartsWith("once: the step 'a' is done, but an older Once kept only the first"));
  EXPECT_THAT(end, ::testing::EndsWith("exit 125\n"));
}

TEST_F(Step, may_write_nothing_or_any_bytes) {
  EXPECT_EQ(output("step a -- true; step b -- printf 'a\\000\\377b' | od -An -tx1"),
            " 61 00 ff 62\n");
  EXPECT_EQ(steps_.result("a"), "");
  EXPECT_EQ(steps_.result("b"), std::string("a\0\377b", 4));
}

TEST_F(Step, passes_on_more_than_can_be_kept_and_tells_how_much_it_was) {
  EXPECT_EQ(output("step a -- head -c 3145728 /dev/zero | wc -c"), "3145728");
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a", "end a 3145728"));
  EXPECT_EQ(steps_.result("a"), "");
}

TEST_F(Step, of_many_mebibytes_is_recorded_and_remembered_whole) {
  attempt_.max_result = 16 << 20;
  output("step a -- sh -c \"head -c 16777216 /dev/zero | tr '\\0' y\" > /dev/null");
  EXPECT_EQ(steps_.result("a"), std::string(16 << 20, 'y'));
  steps_.answer(Kind::remembered, Body::bytes(std::string(16 << 20, 'z')));
  EXPECT_EQ(output("step a -- false | tr -d z | wc -c; step b -- false | wc -c"), "0\n16777216\n");
}

TEST_F(Step, of_exactly_the_limit_is_whole) {
  EXPECT_EQ(output("step a -- head -c 1048576 /dev/zero | wc -c"), "1048576");
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a", "end a"));
  EXPECT_EQ(steps_.result("a").size(), kMebibyte);
}

TEST_F(Step, passes_its_output_on_as_it_comes) {
  // The second line is written when the first has been read.
  EXPECT_EQ(output("step a -- sh -c 'echo 1; while [ ! -e $MARKS/read ]; do sleep 0.01; done; echo "
                   "2' | { read line; touch $MARKS/read; cat; }"),
            "2");
}

TEST_F(Step, is_recorded_when_nobody_reads_its_output) {
  EXPECT_EQ(output("step a -- head -c 1000000 /dev/zero | true; echo done"), "done\n");
  EXPECT_EQ(steps_.result("a").size(), 1000000U);
}

TEST_F(Step, ends_with_its_command_and_not_with_what_that_left_running) {
  EXPECT_EQ(
      output("step a -- sh -c 'sleep 1000 & echo 1'; step b -- sh -c 'echo 2; yes & :' | head -1"),
      "1\n2\n");
}

struct Row {
  const char* script;
  int status;
  const char* call;  // after the begin; none: the step stays begun
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.script; }

class StepExitStatus : public Step, public ::testing::WithParamInterface<Row> {};

TEST_P(StepExitStatus, is_passed_on) {
  EXPECT_THAT(ending(std::string("a -- sh -c '") + GetParam().script + "'"),
              EndsWith("exit " + std::to_string(GetParam().status) + "\n"));
  if (GetParam().call == nullptr)
    EXPECT_THAT(steps_.calls(), ElementsAre("begin a"));
  else
    EXPECT_THAT(steps_.calls(), ElementsAre("begin a", GetParam().call));
}

INSTANTIATE_TEST_SUITE_P(
    step, StepExitStatus,
    ::testing::Values(Row{"exit 0", 0, "end a"}, Row{"exit 1", 1, "fail a"},
                      Row{"exit 65", 65, "fail a"}, Row{"exit 73", 73, "fail a"},
                      Row{"exit 74", 74, nullptr}, Row{"exit 75", 75, "fail a"},
                      Row{"exit 125", 125, "fail a"}, Row{"exit 128", 128, "fail a"},
                      Row{"exit 129", 129, nullptr}, Row{"exit 192", 192, nullptr},
                      Row{"exit 193", 193, "fail a"}, Row{"exit 255", 255, "fail a"},
                      Row{"kill -KILL $$", 137, nullptr}, Row{"kill -TERM $$", 143, nullptr}));

TEST_F(Step, without_a_verdict_says_so) {
  EXPECT_THAT(ending("a -- sh -c 'kill -KILL $$'"),
              HasSubstr("(killed by SIGKILL): it is in doubt"));
  EXPECT_THAT(ending("b -- sh -c 'exit 74'"), HasSubstr("(exit 74): it is in doubt"));
}

// --- What cannot be run ---------------------------------------------------------------------

TEST_F(Step, whose_command_is_not_there_asks_nothing) {
  EXPECT_THAT(ending("a -- no-such-command-anywhere"), EndsWith("exit 127\n"));
  EXPECT_THAT(ending("a -- $MARKS/missing"), EndsWith("exit 127\n"));
  EXPECT_THAT(ending("a -- ''"), EndsWith("exit 127\n"));
  EXPECT_THAT(ending("a -- /"), EndsWith("exit 126\n"));
  std::ofstream(marks_.path() / "plain") << "text";
  EXPECT_THAT(ending("a -- $MARKS/plain"), EndsWith("exit 126\n"));
  EXPECT_THAT(steps_.calls(), IsEmpty());
}

TEST_F(Step, whose_command_cannot_be_started_after_all_did_not_happen) {
  std::ofstream(marks_.path() / "bad") << "#!/no/such/interpreter\n";
  ::chmod((marks_.path() / "bad").c_str(), 0755);
  EXPECT_THAT(ending("a -- $MARKS/bad"), EndsWith("exit 127\n"));
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a", "fail a"));
}

TEST_F(Step, that_is_mistyped_asks_nothing) {
  EXPECT_THAT(ending("a --in-doubt probe -- true"), HasSubstr("needs a probe"));
  EXPECT_THAT(ending("a --in-doubt steps -- true"), EndsWith("exit 125\n"));
  EXPECT_THAT(ending("a --in-doubt hold --probe true -- true"), EndsWith("exit 125\n"));
  EXPECT_THAT(ending("a --"), EndsWith("exit 125\n"));
  EXPECT_THAT(steps_.calls(), IsEmpty());
}

TEST_F(Step, names_are_text_of_1_to_128_bytes) {
  const std::string longest(128, 'n');
  for (const std::string& name :
       {std::string("\"\""), longest + "n", std::string("\"$(printf 'a\\tb')\""),
        std::string("\"$(printf 'a\\377')\"")})
    EXPECT_THAT(ending(name + " -- true"),
                ::testing::AllOf(HasSubstr("the step's name"), EndsWith("exit 125\n")));
  EXPECT_THAT(steps_.calls(), IsEmpty());
  EXPECT_EQ(ending(longest + " -- true"), "exit 0\n");
  EXPECT_EQ(ending("'\u00fc b' -- true"), "exit 0\n");
}

TEST_F(Step, outside_of_a_program_is_refused) {
  EXPECT_THAT(ending("a -- true; unset ONCE_SOCKET; step b -- true"),
              ::testing::AllOf(HasSubstr("ONCE_SOCKET is not set"), EndsWith("exit 125\n")));
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a", "end a"));
}

TEST_F(Step, asked_of_a_worker_that_is_gone_is_refused) {
  EXPECT_EQ(output("export ONCE_SOCKET=$MARKS/none; step a -- touch $MARKS/ran 2>&1; echo $?"),
            "once: the worker is gone: nothing was run\n125\n");
  // A socket that nobody listens at any more.
  EXPECT_EQ(output("ln $ONCE_SOCKET $MARKS/left; echo 1"), "1");
  EXPECT_EQ(output("export ONCE_SOCKET=$MARKS/left; step a -- touch $MARKS/ran 2>&1; echo $?"),
            "once: the worker is gone: nothing was run\n125\n");
  EXPECT_FALSE(std::filesystem::exists(marks_.path() / "ran"));
}

TEST_F(Step, that_the_worker_refuses_is_not_run) {
  steps_.answer(Kind::over);
  EXPECT_EQ(ending("a -- touch $MARKS/ran"), "once: the task was taken over\nexit 125\n");
  steps_.answer(Kind::refused);
  EXPECT_EQ(ending("a -- touch $MARKS/ran"), "once: used before\nexit 125\n");
  EXPECT_FALSE(std::filesystem::exists(marks_.path() / "ran"));
}

TEST_F(Step, that_cannot_be_recorded_has_run_and_says_so) {
  steps_.refuse_to_record();
  EXPECT_EQ(ending("a -- echo 1"),
            "1\nonce: the step 'a' ran and was not recorded: the task was taken over\nexit 125\n");
  EXPECT_THAT(ending("b -- sh -c 'exit 3'"),
              ::testing::AllOf(HasSubstr("did not happen, and that was not recorded: the task was"),
                               EndsWith("exit 3\n")));
}

// --- Probes ---------------------------------------------------------------------------------

TEST_F(Step, that_was_cut_off_is_done_when_its_probe_says_that_it_happened) {
  steps_.answer(Kind::ask);
  EXPECT_EQ(ending("a --probe 'printf found' -- touch $MARKS/ran"), "foundexit 0\n");
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a probe", "end a"));
  EXPECT_EQ(steps_.result("a"), "found");
  EXPECT_FALSE(std::filesystem::exists(marks_.path() / "ran"));
}

TEST_F(Step, that_was_cut_off_is_run_when_its_probe_says_that_it_did_not_happen) {
  steps_.answer(Kind::ask);
  EXPECT_EQ(ending("a --probe 'echo nothing; exit 1' -- echo ran"), "ran\nexit 0\n");
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a probe", "begin a probe asked", "end a"));
}

TEST_F(Step, that_was_cut_off_is_held_when_nobody_knows) {
  steps_.answer(Kind::ask);
  for (const char* probe :
       {"--probe 'exit 2'", "--probe 'kill -KILL $$'", "--probe no-such-thing", ""})
    EXPECT_THAT(ending(std::string("a ") + probe + " -- touch $MARKS/ran"),
                EndsWith("once: the task is held\nexit 125\n"));
  EXPECT_THAT(steps_.calls(),
              ElementsAre("begin a probe", "hold a: its probe does not know: exit 2",
                          "begin a probe", "hold a: its probe does not know: killed by SIGKILL",
                          "begin a probe", "hold a: its probe does not know: exit 127", "begin a",
                          "hold a: the step was cut off, and it has no probe"));
  EXPECT_FALSE(std::filesystem::exists(marks_.path() / "ran"));
}

TEST_F(Step, probe_has_the_steps_environment_and_leaves_it_its_input) {
  steps_.answer(Kind::ask);
  attempt_.task.body = *Body::json("17");
  EXPECT_EQ(
      output("step a --probe 'cat; echo $ONCE_STEP_NAME $ONCE_IDEMPOTENCY_KEY >&2; exit 1' -- "
             "cat 2> $MARKS/said"),
      "17");
  EXPECT_EQ(contents(marks_.path() / "said"),
            "a " + engine::idempotency_key(task_attempt_of(attempt_), "a") + "\n");
}

TEST_F(Step, whose_probe_was_asked_to_stop_is_not_held) {
  steps_.answer(Kind::ask);
  EXPECT_THAT(output("$STEP a --probe 'echo $$ > $MARKS/probe; exec sleep 1000' -- true & "
                     "while [ ! -s $MARKS/probe ]; do sleep 0.01; done; kill -TERM $!; "
                     "wait $!; echo \"exit $?\""),
              "exit 143\n");
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a probe"));
}

// --- Several at once ------------------------------------------------------------------------

TEST_F(Step, runs_beside_others) {
  EXPECT_EQ(
      output("for i in 1 2 3 4 5 6 7 8; do step $i -- sh -c \"touch $MARKS/$i; while [ \\$(ls "
             "$MARKS | wc -l) -lt 8 ]; do sleep 0.01; done; echo $i\" > /dev/null & done; wait; "
             "echo done"),
      "done\n");
  for (int i = 1; i <= 8; ++i)
    EXPECT_EQ(steps_.result(std::to_string(i)), std::to_string(i) + "\n");
}

TEST_F(Step, is_refused_while_one_of_its_name_runs) {
  EXPECT_THAT(
      output("step a -- sh -c 'touch $MARKS/a; while [ ! -e $MARKS/go ]; do sleep 0.01; done' "
             "& while [ ! -e $MARKS/a ]; do sleep 0.01; done; step a -- true 2>&1; echo $?; "
             "touch $MARKS/go; wait"),
      ::testing::AllOf(HasSubstr("'a' is running in this attempt already"), EndsWith("\n125\n")));
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a", "end a"));
}

TEST_F(Step, may_hold_steps) {
  EXPECT_EQ(output("step a -- sh -c '$STEP b -- echo 1'"), "1");
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a", "begin b", "end b", "end a"));
}

// --- Where it is cut off --------------------------------------------------------------------

constexpr const char* kLongStep = "$STEP a -- sh -c 'echo $$ > $MARKS/command; exec sleep 1000'";

TEST_F(Step, that_is_killed_takes_its_command_along_and_stays_begun) {
  EXPECT_EQ(output(std::string(kLongStep) +
                   " & while [ ! -s $MARKS/command ]; do sleep 0.01; done; kill -KILL $!; wait $!; "
                   "echo $?"),
            "137");
  EXPECT_TRUE(eventually([&] { return !alive(marks_.await_pid("command")); }));
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a"));
}

TEST_F(Step, that_outlives_its_program_is_ended_and_stays_begun) {
  EXPECT_EQ(output(std::string(kLongStep) +
                   " & while [ ! -s $MARKS/command ]; do sleep 0.01; done; echo done"),
            "done\n");
  EXPECT_FALSE(alive(marks_.await_pid("command")));
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a"));
}

TEST_F(Step, passes_signals_on) {
  for (const std::string name : {"TERM", "INT"})
    EXPECT_EQ(output("rm -f $MARKS/step; (while [ ! -s $MARKS/step ]; do sleep 0.01; done; kill -" +
                     name + " $(cat $MARKS/step)) & step a -- sh -c 'trap \"exit 3\" " + name +
                     "; echo $PPID > $MARKS/step; while :; do sleep 0.01; done'; echo $?"),
              "3");
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a", "fail a", "begin a", "fail a"));
}

TEST_F(Step, does_not_repeat_what_the_whole_group_was_told) {
  attempt_.steps = &steps_;
  attempt_.grace = Duration{300};
  Running running(
      stepping("trap : TERM; step a -- sh -c 'trap \"echo x >> $MARKS/told\" TERM; echo "
               "1 > $MARKS/ready; while :; do sleep 0.01; done'"),
      attempt_);
  marks_.await_pid("ready");
  running.stop();
  EXPECT_EQ(running.report().outcome.kind(), Outcome::Kind::unknown);
  EXPECT_EQ(contents(marks_.path() / "told"), "x\n");
}

// The begin waits for the store while something happens to the step.
class StepThatBegins : public Step {
 protected:
  void SetUp() override {
    steps_.block("begin");
    attempt_.steps = &steps_;
  }
  // The program, once the worker is at it.
  std::unique_ptr<Running> program(const std::string& script) {
    auto running = std::make_unique<Running>(stepping(script), attempt_);
    EXPECT_TRUE(eventually([&] { return steps_.is_blocked(); }));
    return running;
  }
};

TEST_F(StepThatBegins, and_is_asked_to_stop_did_not_happen) {
  auto running = program("$STEP a -- touch $MARKS/ran & echo $! > $MARKS/step; wait $!; echo $?");
  ::kill(marks_.await_pid("step"), SIGTERM);
  steps_.unblock();
  EXPECT_EQ(running->report().outcome.result(), *Body::json("143"));
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a", "fail a"));
  EXPECT_FALSE(std::filesystem::exists(marks_.path() / "ran"));
}

TEST_F(StepThatBegins, and_is_killed_did_not_happen) {
  auto running = program(
      "$STEP a -- touch $MARKS/ran & echo $! > $MARKS/step; wait $!; echo $? > $MARKS/exit; "
      "while [ ! -e $MARKS/go ]; do sleep 0.01; done");
  const auto step = marks_.await_pid("step");
  ::kill(step, SIGKILL);
  EXPECT_EQ(marks_.await_pid("exit"), 137);
  steps_.unblock();
  EXPECT_TRUE(eventually([&] { return steps_.calls().size() == 2; }));
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a", "fail a"));
  std::ofstream(marks_.path() / "go") << 1;
  running->report();
  EXPECT_FALSE(std::filesystem::exists(marks_.path() / "ran"));
}

TEST_F(StepThatBegins, keeps_no_heartbeat_from_the_supervisor) {
  attempt_.lease = Duration{1000};
  auto running = program("step a -- echo 1");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually(
      [&] { return std::chrono::steady_clock::now() - begin > std::chrono::milliseconds{1500}; }));
  steps_.unblock();
  EXPECT_EQ(running->report().outcome.result(), *Body::json("1"));
}

// --- Where the socket lies ------------------------------------------------------------------

class StepFolder : public Step {
 protected:
  void SetUp() override {
    const char* const before = ::getenv("TMPDIR");
    if (before != nullptr) before_ = before;
    directory_ = std::filesystem::current_path();
  }
  void TearDown() override {
    before_ ? ::setenv("TMPDIR", before_->c_str(), 1) : ::unsetenv("TMPDIR");
    std::filesystem::current_path(directory_);
  }

  std::optional<std::string> before_;
  std::filesystem::path directory_;
};

TEST_F(StepFolder, socket_is_private) {
  EXPECT_EQ(
      output("stat -c %a $ONCE_SOCKET; [ ${ONCE_SOCKET%/*} = ${ONCE_RESULT%/*} ] && echo there"),
      "600\nthere\n");
}

TEST_F(StepFolder, may_have_a_path_that_no_socket_can_have) {
  auto deep = marks_.path();
  for (int i = 0; i < 4; ++i) deep /= std::string(60, 'd');
  std::filesystem::create_directories(deep);
  ::setenv("TMPDIR", deep.c_str(), 1);
  EXPECT_THAT(output("step a -- echo $ONCE_SOCKET"), StartsWith(deep.string() + "/once-"));
  EXPECT_THAT(steps_.calls(), ElementsAre("begin a", "end a"));
  EXPECT_TRUE(std::filesystem::is_empty(deep));
}

TEST_F(StepFolder, may_be_relative) {
  std::filesystem::current_path(marks_.path());
  ::setenv("TMPDIR", ".", 1);
  EXPECT_EQ(output("cd /; step a -- echo 1"), "1");
}

TEST_F(Step, leaves_no_descriptors_behind) {
  output("step a -- true");
  const auto before = open_descriptors(::getpid());
  for (int i = 0; i < 3; ++i) output("step a -- true & step b -- true; wait; echo 1");
  EXPECT_EQ(open_descriptors(::getpid()), before);
}

}  // namespace
}  // namespace once::testing
