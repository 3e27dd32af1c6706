// How programs are ended: asked to stop, left-over descendants, the death of the worker or supervisor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>

#include "exec/supervisor_process.h"
#include "program/harness.h"

namespace once::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Kind = Outcome::Kind;

constexpr const char* kSleep = "exec sleep 1000";

bool all_gone(const std::vector<pid_t>& pids) {
  return eventually([&] {
    for (const pid_t pid : pids)
      if (alive(pid)) return false;
    return true;
  });
}

// --- Asked to stop --------------------------------------------------------------------------

TEST(Stop, is_sigterm_to_the_group) {
  const Marks marks;
  Running running(shell("sleep 1000 & echo $! > $MARKS/child; echo $$ > $MARKS/program; wait"), {});
  const auto program = marks.await_pid("program");
  const auto child = marks.await_pid("child");
  running.stop();
  const auto report = running.report();
  EXPECT_EQ(report.outcome.kind(), Kind::unknown);
  EXPECT_THAT(report.outcome.why(), HasSubstr("killed by SIGTERM after it was asked to stop"));
  EXPECT_FALSE(alive(program));
  EXPECT_FALSE(alive(child));
}

TEST(Stop, lets_the_program_have_its_say) {
  const Marks marks;
  Running running(shell("trap 'echo stopped >&2; exit 3' TERM; echo $$ > $MARKS/program; "
                        "while :; do sleep 0.01; done"),
                  {});
  marks.await_pid("program");
  running.stop();
  const auto report = running.report();
  EXPECT_EQ(report.outcome.kind(), Kind::failed);
  // Some shells also say what became of the sleep.
  EXPECT_THAT(report.outcome.why(), StartsWith("exit 3 after it was asked to stop: "));
  EXPECT_THAT(report.outcome.why(), EndsWith("stopped"));
}

TEST(Stop, is_sigkill_after_the_grace) {
  const Marks marks;
  Attempt attempt;
  attempt.grace = Duration{50};
  Running running(shell("trap '' TERM; echo $$ > $MARKS/program; while :; do sleep 0.01; done"),
                  attempt);
  const auto program = marks.await_pid("program");
  running.stop();
  const auto report = running.report();
  EXPECT_EQ(report.outcome.kind(), Kind::unknown);
  EXPECT_THAT(report.outcome.why(), HasSubstr("killed by SIGKILL because it went on for 50 ms"));
  EXPECT_FALSE(alive(program));
}

TEST(Stop, reaches_a_program_that_is_suspended) {
  const Marks marks;
  Running running(shell("echo $$ > $MARKS/program; kill -STOP $$"), {});
  marks.await_pid("program");
  running.stop();
  EXPECT_EQ(running.report().outcome.kind(), Kind::unknown);
}

// The shell dies of the SIGTERM at once, what it had started cleans up and takes its time.
TEST(Stop, gives_the_grace_to_the_whole_group) {
  const Marks marks;
  Running running(shell("sh -c 'trap \"sleep 0.2; echo 1 > $MARKS/cleaned; exit\" TERM; "
                        "echo $$ > $MARKS/child; while :; do sleep 0.01; done'; :"),
                  {});
  marks.await_pid("child");
  running.stop();
  EXPECT_EQ(running.report().outcome.kind(), Kind::unknown);
  EXPECT_EQ(marks.pid("cleaned"), 1);
}

TEST(Stop, does_not_wait_for_what_left_the_group) {
  const Marks marks;
  Attempt attempt;
  attempt.grace = Duration{600'000};
  Running running(shell("setsid sh -c 'echo $$ > $MARKS/escaped; exec sleep 1000' & wait"),
                  attempt);
  const auto escaped = marks.await_pid("escaped");
  running.stop();
  EXPECT_EQ(running.report().outcome.kind(), Kind::unknown);
  EXPECT_FALSE(alive(escaped));
}

TEST(Stop, before_the_start_starts_nothing) {
  const Marks marks;
  std::stop_source stop;
  stop.request_stop();
  Attempt attempt;
  attempt.stop = stop.get_token();
  const auto report = run(shell("echo 1 > $MARKS/ran"), attempt);
  EXPECT_EQ(report.outcome.kind(), Kind::failed);
  EXPECT_FALSE(report.never_started);
  EXPECT_FALSE(marks.pid("ran"));
}

// --- Left behind ----------------------------------------------------------------------------

TEST(LeftBehind, descendants_end_with_the_program) {
  const Marks marks;
  const auto report = run(shell(
      // in the group; in a group of its own session; orphaned twice over; deaf to SIGTERM
      "sleep 1000 & echo $! > $MARKS/1\n"
      "setsid sh -c 'echo $$ > $MARKS/2; exec sleep 1000' &\n"
      "(setsid sh -c 'sleep 1000 & echo $! > $MARKS/3; exit' &)\n"
      "setsid sh -c 'trap \"\" TERM HUP; sh -c \"sleep 1000; :\" & echo $! > $MARKS/4; wait' &\n"
      "while [ $(cat $MARKS/* | wc -l) -lt 4 ]; do sleep 0.01; done; echo 5"));
  EXPECT_EQ(report.outcome.kind(), Kind::completed);
  EXPECT_EQ(report.outcome.result(), *Body::json("5"));
  ASSERT_EQ(marks.pids().size(), 4U);
  for (const pid_t pid : marks.pids()) EXPECT_FALSE(alive(pid));
}

TEST(LeftBehind, chains_of_orphans_end_with_the_program) {
  const Marks marks;
  const auto report =
      run(shell("chain() { echo $1 > $MARKS/last; setsid sh -c '. $MARKS/chain' & }\n"
                "printf 'n=$(cat $MARKS/last); echo $((n+1)) > $MARKS/next; mv $MARKS/next "
                "$MARKS/last; setsid sh $MARKS/chain &\\n' > $MARKS/chain\n"
                "chain 0; while [ $(cat $MARKS/last) -lt 5 ]; do sleep 0.01; done"));
  EXPECT_EQ(report.outcome.kind(), Kind::completed);
  // Each link starts the next and exits: the chain stands still only when it was really ended.
  const auto last = marks.pid("last");
  ASSERT_TRUE(last);
  for (int look = 0; look < 20; ++look) run({"true"});
  EXPECT_EQ(marks.pid("last"), last);
}

// --- The worker dies or hangs ---------------------------------------------------------------

TEST(WorkerKilled, takes_programs_and_descendants_along_and_frees_the_lock) {
  const Marks marks;
  WorkerProcess worker(marks, 1, Duration{600'000},
                       shell("trap '' TERM HUP; echo $$ > $MARKS/1; echo $PPID > $MARKS/2\n"
                             "sleep 1000 & echo $! > $MARKS/3\n"
                             "(setsid sh -c 'echo $$ > $MARKS/4; exec sleep 1000' &)\n"
                             "echo ${ONCE_RESULT%/*} > $MARKS/folder; echo 1 > $ONCE_RESULT\n"
                             "while :; do wait; done"));
  ASSERT_TRUE(marks.await_count(4));
  ASSERT_TRUE(eventually([&] { return !contents(marks.path() / "folder").empty(); }));
  const auto pids = marks.pids();
  EXPECT_FALSE(lock_is_free(marks));
  worker.signal(SIGKILL);
  worker.wait();
  EXPECT_TRUE(eventually([&] { return lock_is_free(marks); }));
  for (const pid_t pid : pids) EXPECT_TRUE(pid == marks.pid("2") || !alive(pid));
  EXPECT_TRUE(all_gone(pids));
  auto folder = contents(marks.path() / "folder");
  folder.pop_back();
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(folder); }));
}

TEST(WorkerKilled, while_a_program_is_in_its_grace_ends_it_at_once) {
  const Marks marks;
  WorkerProcess worker(marks, 1, Duration{600'000},
                       shell("trap '' TERM; echo $$ > $MARKS/1; while :; do sleep 0.01; done"));
  const auto program = marks.await_pid("1");
  ::kill(parent_of(program), SIGTERM);  // a supervisor does not listen to that
  ::kill(parent_of(program), SIGINT);
  ::kill(parent_of(program), SIGHUP);
  EXPECT_TRUE(alive(program));
  worker.signal(SIGKILL);
  EXPECT_TRUE(all_gone({program}));
}

TEST(WorkerSuspended, for_a_lease_loses_its_program) {
  const Marks marks;
  WorkerProcess worker(marks, 1, Duration{300},
                       shell(std::string("echo $$ > $MARKS/1; ") + kSleep));
  const auto program = marks.await_pid("1");
  // Heartbeats keep it for several leases.
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually(
      [&] { return std::chrono::steady_clock::now() - begin > std::chrono::milliseconds{1000}; }));
  EXPECT_TRUE(alive(program));
  worker.signal(SIGSTOP);
  EXPECT_TRUE(all_gone({program}));
  worker.signal(SIGCONT);
  EXPECT_TRUE(eventually([&] {
    return contents(marks.path() / "report.0") ==
           "killed by SIGKILL by its supervisor, which heard nothing from the worker for half a "
           "lease.";
  })) << contents(marks.path() / "report.0");
}

TEST(SupervisorKilled, takes_the_program_along) {
  const Marks marks;
  Running running(shell("sleep 1000 & echo $! > $MARKS/child; echo $$ > $MARKS/program; wait"), {});
  const auto program = marks.await_pid("program");
  const auto child = marks.await_pid("child");
  ::kill(parent_of(program), SIGKILL);
  const auto report = running.report();
  EXPECT_EQ(report.outcome.kind(), Kind::unknown);
  EXPECT_THAT(report.outcome.why(), HasSubstr("supervisor died"));
  EXPECT_FALSE(alive(program));
  EXPECT_FALSE(alive(child));
}

TEST(SupervisorKilled, takes_along_what_left_its_session) {
  const Marks marks;
  Running running(shell("(setsid sh -c 'echo $$ > $MARKS/daemon; exec sleep 1000' <&- >&- 2>&- &)\n"
                        "echo $$ > $MARKS/program; exec sleep 1000"),
                  {});
  const auto daemon = marks.await_pid("daemon");
  ::kill(parent_of(marks.await_pid("program")), SIGKILL);
  EXPECT_EQ(running.report().outcome.kind(), Kind::unknown);
  EXPECT_FALSE(alive(daemon));
}

// Stops its parent with ptrace(), which no SIGCONT undoes, and leaves a mark.
constexpr const char* kTracer = R"(
import ctypes, os, signal
seize, interrupt, any_kind, parent = 0x4206, 0x4207, 0x40000000, os.getppid()
ptrace = ctypes.CDLL(None).ptrace
traced = ptrace(seize, parent, None, None) == 0 and ptrace(interrupt, parent, None, None) == 0
if traced:
    os.waitpid(parent, any_kind)
with open(os.environ["MARKS"] + ("/program" if traced else "/denied"), "w") as mark:
    mark.write(str(os.getpid()) + "\n")
while traced:
    signal.pause()
)";

// The daemon has no environment that would tell whose it is: only the supervisor's tree has it.
TEST(SupervisorSuspended, is_killed_with_its_program_when_it_does_not_stop_in_time) {
  const Marks marks;
  std::ofstream(marks.path() / "tracer") << kTracer;
  Attempt attempt;
  attempt.grace = Duration{50};
  Running running(
      shell("(setsid env -i sh -c \"echo \\$\\$ > $MARKS/daemon; exec sleep 1000\" &)\n"
            "while ! [ -s $MARKS/daemon ]; do sleep 0.01; done; exec python3 $MARKS/tracer"),
      attempt);
  ASSERT_TRUE(eventually([&] { return marks.pid("program") || marks.pid("denied"); }));
  if (marks.pid("denied")) GTEST_SKIP() << "this user may not trace a parent";
  const auto program = *marks.pid("program");
  const auto daemon = marks.await_pid("daemon");
  const auto supervisor = parent_of(program);
  running.stop();
  EXPECT_TRUE(all_gone({program, supervisor}));
  ::kill(program, SIGKILL);  // else a supervisor that was not killed would wait for ever
  const auto report = running.report();
  EXPECT_EQ(report.outcome.kind(), Kind::unknown);
  EXPECT_THAT(report.outcome.why(), HasSubstr("because it went on for 50 ms"));
  EXPECT_FALSE(alive(daemon));
}

TEST(EarlierClaim, leaves_nothing_that_runs_beside_the_next_attempt) {
  const Marks marks;
  Attempt first;
  first.task.id = "taken-over";
  first.token = 7;
  const auto later = [&](std::uint64_t token, const char* id) {
    Attempt attempt = first;
    attempt.task.id = id;
    attempt.token = token;
    attempt.attempt = 2;
    EXPECT_EQ(run({"true"}, attempt).outcome.kind(), Kind::completed);
  };
  Running running(shell(std::string("echo $$ > $MARKS/program; ") + kSleep), first);
  const auto program = marks.await_pid("program");
  later(8, "another");
  later(6, "taken-over");  // an older claim, which wakes up late
  EXPECT_TRUE(alive(program));
  later(8, "taken-over");
  EXPECT_FALSE(alive(program));
  running.stop();  // else a program that was not ended would run on
  EXPECT_EQ(running.report().outcome.kind(), Kind::unknown);
}

// A handler that is asked for attempt after attempt, and the supervisor of each as the program sees it.
class Reused : public ::testing::Test {
 protected:
  std::string supervisor_of_next_attempt() {
    const auto report = run(*handler_);
    EXPECT_EQ(report.outcome.kind(), Kind::completed) << report.outcome.why();
    return std::string(report.outcome.result().text());
  }
  Result<engine::Handler> handler_ = handler_of(shell("echo $PPID"));
};

TEST_F(Reused, supervisors_run_one_attempt_after_the_other) {
  const auto first = supervisor_of_next_attempt();
  EXPECT_EQ(supervisor_of_next_attempt(), first);
}

TEST_F(Reused, supervisors_that_died_meanwhile_are_replaced) {
  const auto first = std::stoi(supervisor_of_next_attempt());
  ::kill(first, SIGKILL);
  ASSERT_TRUE(all_gone({first}));
  EXPECT_NE(std::stoi(supervisor_of_next_attempt()), first);
}

TEST_F(Reused, supervisors_end_with_their_handler) {
  const auto supervisor = std::stoi(supervisor_of_next_attempt());
  EXPECT_TRUE(alive(supervisor));
  handler_ = Error{};
  EXPECT_FALSE(alive(supervisor));
}

// The end of a supervisor, which a thread of its own waits for.
class EndOfASupervisor : public ::testing::Test {
 protected:
  ~EndOfASupervisor() override {
    if (!ended_) ::kill(pid_, SIGKILL);  // the thread must not wait for ever
  }
  template <class End>
  void end_by(End end) {
    thread_ = std::jthread([this, end] {
      end();
      ended_ = true;
    });
  }

  // LeakSanitizer does not get along with a process that others suspend.
  const std::unique_ptr<engine::SupervisorPool> pool_ =
      engine::SupervisorPool::open(self(), {"ASAN_OPTIONS=detect_leaks=0"}, false).value();
  std::optional<engine::SupervisorProcess> supervisor_ = pool_->take().value();
  const pid_t pid_ = supervisor_->pid();
  std::atomic<bool> ended_ = false;
  std::jthread thread_{};
};

TEST_F(EndOfASupervisor, comes_though_somebody_suspends_it_again_and_again) {
  ::kill(pid_, SIGSTOP);
  end_by([this] { supervisor_.reset(); });
  for (int i = 0; i < 10'000 && !ended_; ++i) ::kill(pid_, SIGSTOP);
  EXPECT_TRUE(eventually([&] { return ended_.load(); }));
}

TEST_F(EndOfASupervisor, comes_though_it_could_not_be_given_its_job) {
  EXPECT_FALSE(supervisor_->send_job({-1}));
  end_by([this] { supervisor_->end_orphans(); });
  EXPECT_TRUE(eventually([&] { return ended_.load(); }));
}

TEST(IdleSupervisors, end_with_the_worker) {
  const Marks marks;
  // The second program runs in a second supervisor; the first supervisor is idle by then.
  WorkerProcess worker(
      marks, 2, Duration{600'000},
      shell("echo $PPID > $MARKS/$ONCE_ID; [ $ONCE_ID = task-0 ] || exec sleep 1000"));
  const auto idle = marks.await_pid("task-0");
  const auto busy = marks.await_pid("task-1");
  worker.signal(SIGKILL);
  worker.wait();
  EXPECT_TRUE(all_gone({idle, busy}));
  EXPECT_TRUE(lock_is_free(marks));
}

TEST(SupervisorAndWorkerKilled, take_the_program_along) {
  const Marks marks;
  WorkerProcess worker(marks, 1, Duration{600'000},
                       shell(std::string("echo $$ > $MARKS/1; ") + kSleep));
  const auto program = marks.await_pid("1");
  const auto supervisor = parent_of(program);
  worker.signal(SIGSTOP);  // so that it cannot see to it
  ::kill(supervisor, SIGKILL);
  EXPECT_TRUE(all_gone({program}));
  worker.signal(SIGKILL);
  worker.wait();
  EXPECT_TRUE(eventually([&] { return lock_is_free(marks); }));
}

// --- Many at once ---------------------------------------------------------------------------

TEST(ManyPrograms, share_no_descriptors_and_all_end_with_the_worker) {
  const Marks marks;
  constexpr std::size_t kCount = 32;
  WorkerProcess worker(marks, kCount, Duration{600'000},
                       shell(std::string("echo $$ > $MARKS/$ONCE_ID; ") + kSleep));
  ASSERT_TRUE(marks.await_count(kCount));
  const auto programs = marks.pids();
  std::vector<pid_t> all = programs;
  for (const pid_t program : programs) {
    const auto supervisor = parent_of(program);
    all.push_back(supervisor);
    EXPECT_THAT(open_descriptors(program),
                ElementsAre(0, 1, 2, engine::supervisor::kProgramLockFd));
    // Three of /dev/null, the channel, the signals, the job, the folder and the lock.
    EXPECT_EQ(open_descriptors(supervisor).size(), 8U);
  }
  worker.signal(SIGKILL);
  worker.wait();
  EXPECT_TRUE(all_gone(all));
  EXPECT_TRUE(lock_is_free(marks));
}

TEST(ManyPrograms, leave_no_descriptors_and_no_children_behind) {
  run({"true"});
  const auto before = open_descriptors(::getpid());
  std::vector<std::jthread> handlers;
  for (int i = 0; i < 8; ++i)
    handlers.emplace_back([] {
      for (int n = 0; n < 5; ++n) {
        EXPECT_EQ(run(shell("echo 1")).outcome.result(), *Body::json("1"));
        run({"false"});
      }
    });
  handlers.clear();
  EXPECT_EQ(open_descriptors(::getpid()), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

}  // namespace
}  // namespace once::testing
