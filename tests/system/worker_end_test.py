#!/usr/bin/env -S python3 -B
"""Workers that are killed, suspended and asked to end while their programs run."""

import signal
import sys
import time
import unittest
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from real_processes import SystemTest, alive, parent_of  # noqa: E402

# The first attempt at task a hangs with a child, and a grandchild in a session of its own; all hold
# a lock for as long as they live. Later attempts see whether anybody still does.
HANGS_ONCE = """
exec 9> "effect.$ONCE_ID"
flock -n 9 || touch overlap
if [ "$ONCE_ID$ONCE_ATTEMPT" = a1 ]; then
  trap '' TERM HUP INT
  sleep 1000 & echo $! > child
  (setsid sh -c 'trap "" TERM HUP; echo $$ > escaped; while :; do sleep 1000; done' &)
  echo $$ > program
  while :; do sleep 1000; done
fi
echo $$ > "successor.$ONCE_ID"
until [ -e go ]; do sleep 0.01; done
echo "$ONCE_ATTEMPT $ONCE_IN_DOUBT"
"""
FAMILY = ("program", "child", "escaped")


def milliseconds(text):
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


class Killed(SystemTest):
    def setUp(self):
        super().setUp()
        self.queue()  # with a lease of 30 s
        self.each(["a"])
        self.program = self.script("hangs-once", HANGS_ONCE)
        self.touch("go")
        self.first = self.worker("first", "--", self.program)
        self.family = self.pids(*FAMILY)
        self.family.append(parent_of(self.family[0]))  # the supervisor

    def taken_over(self):
        self.assertFalse((self.folder / "overlap").exists(), "two attempts ran at once")
        lost, completed = self.story("a")["attempts"]
        self.assertEqual(("first", "lost", True), (lost["worker"], lost["outcome"], lost["in_doubt"]))
        self.assertEqual(("second", "completed"), (completed["worker"], completed["outcome"]))
        self.assertEqual([1, 2], [lost["attempt"], completed["attempt"]])
        self.assertLess(lost["token"], completed["token"])
        self.assertEqual("2 1\n", self.ok("wait", "a").out)

    def test_a_killed_workers_task_is_taken_over_at_once(self):
        second = self.worker("second", "--until-empty", "--", self.program)
        self.await_workers(2)
        self.assertEqual(1, self.status()["running"])
        self.first.kill()
        self.gone(self.family, seconds=1)
        self.ends(second, seconds=10)
        self.taken_over()

    def test_a_worker_that_comes_later_takes_it_over_too(self):
        self.first.kill()
        self.gone(self.family, seconds=1)
        self.assertEqual("running", self.story("a")["state"], "nobody has looked yet")
        self.ends(self.worker("second", "--until-empty", "--", self.program), seconds=10)
        self.taken_over()

    def test_its_place_among_the_workers_is_free(self):
        self.first.kill()
        self.gone(self.family, seconds=1)
        self.await_workers(0)


class Suspended(SystemTest):
    """SIGSTOP past the lease: to everybody else the worker is dead, and then it comes back."""

    def setUp(self):
        super().setUp()
        self.queue("--lease", "1s")
        self.each(["a"])
        program = self.script("hangs-once", HANGS_ONCE)
        self.first = self.worker("first", "--", program)
        self.family = self.pids(*FAMILY)
        self.second = self.worker("second", "--", program)
        self.await_workers(2)

    def completed_by_the_second(self):
        lost, completed = self.story("a")["attempts"]
        self.assertEqual(("first", "lost", True), (lost["worker"], lost["outcome"], lost["in_doubt"]))
        self.assertEqual(("second", "completed"), (completed["worker"], completed["outcome"]))
        self.assertEqual("2 1\n", self.ok("wait", "a").out)

    def both_end(self):
        for worker in (self.first, self.second):
            worker.send_signal(signal.SIGTERM)
            self.ends(worker)

    def test_is_fenced_while_the_second_runs(self):
        self.suspend(self.first)
        (successor,) = self.pids("successor.a")
        self.gone(self.family, seconds=5)
        self.first.send_signal(signal.SIGCONT)
        # Its program was ended and its task is another's: it goes on with the next one.
        self.each(["b"])
        self.until(lambda: self.story("b")["attempts"], "the first takes another task")
        self.assertEqual("first", self.story("b")["attempts"][0]["worker"])
        self.assertTrue(alive(successor))
        self.assertEqual("running", self.story("a")["state"])
        self.touch("go")
        self.until(lambda: self.story("a")["state"] == "completed", "a is completed")
        self.gone([successor])
        self.both_end()
        self.completed_by_the_second()

    def test_is_fenced_after_the_second_completed(self):
        self.touch("go")
        self.suspend(self.first)
        self.until(lambda: self.story("a")["state"] == "completed", "a is completed")
        self.gone(self.family, seconds=5)
        self.first.send_signal(signal.SIGCONT)
        self.both_end()
        self.completed_by_the_second()


class SuspendedWithMany(SystemTest):
    def test_leaves_no_program_beside_its_successor(self):
        tasks = ["0", "1", "2", "3"]
        self.queue("--lease", "1s")
        self.each(tasks)
        # The first attempts say all the time that they are still there.
        program = self.script(
            "lives", '[ $ONCE_ATTEMPT = 2 ] || while :; do date +%s%3N >> "alive.$ONCE_ID"; sleep 0.002; done'
        )
        first = self.worker("first", "--concurrency", "4", "--", program)
        self.until(lambda: all(self.read(f"alive.{task}") for task in tasks), "all run")
        second = self.worker("second", "--concurrency", "4", "--until-empty", "--", program)
        self.await_workers(2)
        self.suspend(first)
        self.ends(second)
        self.assertEqual([["lost", "completed"]] * 4, [self.outcomes(task) for task in tasks])
        beside = {}
        for task in tasks:
            claimed = milliseconds(self.story(task)["attempts"][1]["started_at"])
            last_seen = int(self.read(f"alive.{task}").split()[-1])
            if last_seen > claimed:
                beside[task] = last_seen - claimed
        self.assertEqual({}, beside, "still ran so many ms after another worker had claimed it")


class SuspendedHolderOfTheSlot(SystemTest):
    def test_does_not_run_beside_the_next_holder(self):
        self.queue("--lease", "500ms", "--max-running", "1")
        program = self.script(
            "exclusive",
            "exec 9> effect.lock; flock -n 9 || touch overlap\n"
            'echo $$ > "began.$ONCE_ID"; [ "$ONCE_ID" = first ] || until [ -e go ]; do sleep 0.01; done',
        )
        first = self.worker("first", "--", program)
        self.each(["first"])
        self.until(lambda: self.story("first")["state"] == "completed", "the first has had the slot")
        second = self.worker("second", "--", program)
        self.await_workers(2)
        self.suspend(first)
        self.each(["next"])
        self.pids("began.next")
        self.each(["last"])
        first.send_signal(signal.SIGCONT)
        # Two leases and more: it has found out by then, and must not have begun meanwhile.
        until = time.monotonic() + 1.5
        self.until(lambda: time.monotonic() > until or (self.folder / "began.last").exists(), "that")
        self.assertFalse((self.folder / "overlap").exists(), "two programs ran at once")
        self.touch("go")
        self.until(lambda: self.story("last")["state"] == "completed", "the last is completed")
        self.assertFalse((self.folder / "overlap").exists(), "two programs ran at once")
        for worker in (first, second):
            worker.send_signal(signal.SIGTERM)
            self.ends(worker)


class Asked(SystemTest):
    def test_a_drain_finishes_all_that_runs_and_claims_nothing_new(self):
        self.queue()
        self.each(["a", "b", "c"])
        program = self.script("slow", 'echo $$ > "began.$ONCE_ID"; until [ -e "go.$ONCE_ID" ]; do sleep 0.01; done')
        worker = self.background("work", "q", "--worker", "w", "--concurrency", "2", "--", program)
        self.pids("began.a", "began.b")
        worker.send_signal(signal.SIGTERM)
        self.until(lambda: "draining" in self.said(worker), "it has heard the signal")
        self.touch("go.a")
        self.until(lambda: self.story("a")["state"] == "completed", "a is recorded")
        self.assertIsNone(worker.poll(), "b still runs")
        self.assertEqual("running", self.story("b")["state"])
        self.touch("go.b")
        self.ends(worker)
        self.assertEqual(["completed"], self.outcomes("b"))
        self.assertEqual(("waiting", []), (self.story("c")["state"], self.story("c")["attempts"]))

    def test_a_second_signal_ends_the_deaf_and_counts_nothing(self):
        self.queue("--attempts", "1")
        self.each(["a"])
        program = self.script("hangs-once", HANGS_ONCE)
        self.touch("go")
        worker = self.worker("w", "--grace", "200ms", "--", program)
        family = self.pids(*FAMILY)
        worker.send_signal(signal.SIGTERM)
        # Signals of one kind that are pending become one: the second counts once the first is taken.
        pending = Path(f"/proc/{worker.pid}/status")
        taken = "ShdPnd:\t0000000000000000"
        self.until(lambda: taken in pending.read_text(), "the first signal is taken")
        self.assertTrue(all(map(alive, family)), "a drain lets programs run")
        worker.send_signal(signal.SIGTERM)
        self.ends(worker)
        self.gone(family, seconds=0.1)
        story = self.story("a")
        self.assertEqual("retrying", story["state"])
        self.assertEqual(("interrupted", True), tuple(story["attempts"][0][n] for n in ("outcome", "in_doubt")))
        # The only attempt that is allowed was not used up.
        self.settle(program)
        self.assertEqual("2 1\n", self.ok("wait", "a").out)


if __name__ == "__main__":
    unittest.main()
