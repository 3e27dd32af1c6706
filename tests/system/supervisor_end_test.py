#!/usr/bin/env -S python3 -B
"""Supervisors that are killed or suspended alone. No attempt starts while a process of an earlier one runs."""

import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from real_processes import BIN, SystemTest, alive, in_state, parent_of  # noqa: E402

# The first attempt leaves a child in its group, a daemon in a session of its own with no inherited
# descriptor, and a daemon that has lost its environment too. Later attempts look for them.
FAMILY = """
runs() { case "$(cut -d' ' -f3 /proc/$1/stat 2>/dev/null)" in ''|Z|X) return 1;; esac; }
for mark in program child daemon $EXTRA; do
  [ "$ONCE_ATTEMPT" = 1 ] || ! runs "$(cat $mark)" || touch "overlap.$mark"
done
if [ "$ONCE_ATTEMPT" = 1 ]; then
  trap '' TERM HUP INT
  sleep 1000 & echo $! > child
  python3 daemon.py daemon
  [ -z "$EXTRA" ] || env -i PATH="$PATH" python3 daemon.py bare
  echo $$ > program
  until [ -e go ]; do sleep 0.01; done
fi
echo "$ONCE_ATTEMPT"
"""
DAEMON = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
with open(sys.argv[1] + ".new", "w") as mark: mark.write(f"{os.getpid()}\\n")
os.rename(sys.argv[1] + ".new", sys.argv[1])
os.closerange(0, 4096)
time.sleep(1000)
"""


class Supervised(SystemTest):
    extra = ""

    def setUp(self):
        super().setUp()
        (self.folder / "daemon.py").write_text(DAEMON)
        self.environment["EXTRA"] = self.extra
        self.temp = self.folder / "temp"
        self.temp.mkdir()
        self.environment["TMPDIR"] = str(self.temp)
        self.program = self.script("family", FAMILY)
        self.addCleanup(self.end_family)

    def end_family(self):
        for mark in ("program", "child", "daemon", "bare"):
            if self.read(mark) and alive(int(self.read(mark))):
                os.kill(int(self.read(mark)), signal.SIGKILL)

    def begin(self, *options, lease="30s", worker=()):
        self.queue("--lease", lease, "--backoff", "1ms", *options)
        self.each(["a"])
        self.first = self.worker("first", *worker, "--", self.program)
        marks = ["program", "child", "daemon", *self.extra.split()]
        self.family = self.pids(*marks)
        self.supervisor = parent_of(self.family[0])
        self.addCleanup(self.continue_supervisor)

    def continue_supervisor(self):
        if alive(self.supervisor):
            os.kill(self.supervisor, signal.SIGCONT)

    def stop_supervisor(self):
        """It may be continued at once by a worker that runs."""
        os.kill(self.supervisor, signal.SIGSTOP)

    def kill_supervisor(self):
        os.kill(self.supervisor, signal.SIGKILL)

    def completed(self, *outcomes):
        self.until(lambda: self.story("a")["state"] == "completed", "a is completed", 20)
        self.assertEqual([], list(self.folder.glob("overlap.*")), "an earlier attempt still ran")
        self.assertEqual([*outcomes, "completed"], self.outcomes("a"))
        self.gone(self.family, seconds=5)


class Killed(Supervised):
    extra = "bare"

    def test_alone_takes_everything_along(self):
        self.begin()
        self.kill_supervisor()
        self.completed("unknown")

    def test_with_a_timeout(self):
        self.begin("--timeout", "3s", worker=("--grace", "100ms"))
        self.kill_supervisor()
        self.completed("unknown")

    def test_leaves_the_programs_of_other_supervisors_alone(self):
        self.queue("--backoff", "1ms")
        self.each(["a", "b"])
        program = self.script("two", 'echo $$ > "began.$ONCE_ID"; until [ -e go ]; do sleep 0.01; done')
        self.worker("first", "--concurrency", "2", "--", program)
        a, b = self.pids("began.a", "began.b")
        os.kill(parent_of(a), signal.SIGKILL)
        self.gone([a])
        self.until(lambda: len(self.story("a")["attempts"]) == 2, "a is tried again")
        self.assertTrue(alive(b))
        self.touch("go")
        self.until(lambda: self.status()["completed"] == 2, "both are completed")
        self.assertEqual(["completed"], self.outcomes("b"))

    def test_leaves_what_a_shell_started_before_the_worker_alone(self):
        self.queue("--backoff", "1ms")
        self.each(["a"])
        program = self.script("one", "echo $$ > program; [ $ONCE_ATTEMPT = 2 ] || exec sleep 1000")
        entry = self.script("entry", f"sleep 1000 & echo $! > beside; exec {BIN} work q -q -- {program}\n")
        worker = subprocess.Popen([self.folder / entry], cwd=self.folder, env=self.environment)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.terminate)
        beside, program = self.pids("beside", "program")
        self.addCleanup(os.kill, beside, signal.SIGKILL)
        os.kill(parent_of(program), signal.SIGKILL)
        self.until(lambda: self.story("a")["state"] == "completed", "a is completed")
        self.assertTrue(alive(beside))


class Suspended(Supervised):
    def test_is_continued_so_that_the_end_of_the_program_is_heard(self):
        self.begin(lease="1s")
        self.stop_supervisor()
        self.touch("go")
        self.completed()

    def test_with_a_timeout_does_not_run_beside_the_next_attempt(self):
        self.begin("--timeout", "3s", worker=("--grace", "100ms"))
        second = self.worker("second", "--", self.program)
        self.await_workers(2)
        self.stop_supervisor()
        self.completed("timed_out")
        second.send_signal(signal.SIGTERM)
        self.ends(second)

    def test_while_its_worker_is_killed_does_not_run_beside_the_next_attempt(self):
        self.begin(lease="1s")
        self.suspend(self.first)
        self.stop_supervisor()
        self.until(lambda: in_state(self.supervisor, "T"), "the supervisor is suspended")
        self.first.kill()
        self.worker("second", "--", self.program)
        self.completed("lost")
        self.gone([self.supervisor], seconds=5)


class KilledWithItsWorker(Supervised):
    def setUp(self):
        super().setUp()
        self.begin(lease="1s")
        self.folders = list(self.temp.iterdir())
        self.suspend(self.first)
        self.kill_supervisor()
        self.first.kill()
        self.first.wait()

    def test_leaves_nothing_that_runs_beside_the_next_attempt(self):
        self.worker("second", "--", self.program)
        self.completed("lost")

    def test_is_found_by_a_worker_that_spells_the_store_otherwise(self):
        (self.folder / "elsewhere").symlink_to(self.folder)
        self.worker("second", "--store", "elsewhere/./once.db", "--", self.program)
        self.completed("lost")

    def test_leaves_a_folder_that_the_next_worker_clears(self):
        self.assertEqual(1, len(self.folders))
        self.assertTrue((self.folders[0] / "task.json").exists())
        self.queue(name="other", topic="nothing")
        self.ok("work", "other", "-q", "--until-empty", "--", "true")
        self.assertEqual([], list(self.temp.iterdir()))


class KilledBesideAnotherWorker(Supervised):
    def test_leaves_a_folder_that_the_worker_clears_that_takes_over(self):
        self.begin(lease="1s")
        self.worker("second", "--", self.program)
        self.await_workers(2)
        self.suspend(self.first)
        self.kill_supervisor()
        self.first.kill()
        self.first.wait()
        self.completed("lost")
        self.assertEqual([], list(self.temp.iterdir()))


if __name__ == "__main__":
    unittest.main()
