#!/usr/bin/env -S python3 -B
"""Wall clocks a month ahead, a month back, and jumping: nothing is forgotten, nothing is repeated,
and a retry that is due in a second comes in a second.

libfaketime moves CLOCK_REALTIME for the command and its programs; the clocks since boot are left
alone, as they are by whoever sets a machine's clock.
"""

import itertools
import os
import signal
import subprocess
import sys
import time
import unittest
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from real_processes import BIN, SystemTest, skip_loudly  # noqa: E402

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
CLOCKS = ["+30d", "-30d", "+0"]
PROBE = "import time; print(*(time.clock_gettime(c) for c in (time.CLOCK_REALTIME, time.CLOCK_BOOTTIME)))"


def at(clock):
    """The environment of a process whose wall clock is off by that much."""
    return {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME": clock,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


class Clocks(SystemTest):
    def setUp(self):
        super().setUp()
        if not LIBRARIES:
            skip_loudly(self, "libfaketime (Debian: faketime) is not installed: clocks are not tested")
        started = subprocess.run([BIN, "version"], env={**os.environ, **at("+30d")}, capture_output=True)
        if started.returncode != 0:
            skip_loudly(self, f"this build does not start under libfaketime: {started.stderr.decode()!r}")
        probe = subprocess.run(
            [sys.executable, "-c", PROBE], env={**os.environ, **at("+30d")}, capture_output=True, check=True
        )
        wall, since_boot = map(float, probe.stdout.split())
        self.assertGreater(wall - time.time(), 29 * 86400, "the wall clock is not moved")
        self.assertLess(
            abs(since_boot - time.clock_gettime(time.CLOCK_BOOTTIME)), 60, "more than the wall clock is moved"
        )

    def published_at(self, task):
        text = self.ok("inspect", task, "--json").line["published_at"]
        return datetime.fromisoformat(text.replace("Z", "+00:00"))

    def test_nothing_is_forgotten_and_nothing_repeated(self):
        self.queue()
        program = self.script("count", 'echo "$ONCE_ID" >> ran')
        tasks = []
        # Published, run, retired and published again, each by any clock.
        for n, (published, worked, retired) in enumerate(itertools.product(CLOCKS, repeat=3)):
            task = f"i{n}"
            tasks.append(task)
            receipt = self.ok("publish", "t", str(n), "--id", task, "--json", **at(published)).line
            self.assertFalse(receipt["duplicate"])
            self.ok("work", "q", "-q", "--until-empty", "--", program, **at(worked))
            self.assertEqual({0}, set(self.ok("retention", "--run", "--json", **at(retired)).line.values()))
            again = self.ok("publish", "t", str(n), "--id", task, "--json", **at(worked)).line
            self.assertEqual({**receipt, "duplicate": True}, again)
            self.assertEqual(3, self.once("publish", "t", '"other"', "--id", task, **at(retired)).code)
        self.assertEqual(sorted(tasks), sorted(self.read("ran").split()))
        self.assertEqual(tasks, [entry["id"] for entry in self.ok("log", "--json").lines])
        self.assertEqual(len(tasks), self.status()["completed"])
        now = datetime.now(timezone.utc)
        self.assertGreater(self.published_at("i0"), now + timedelta(days=29), "the clock was moved indeed")

    def test_ages_are_not_those_of_the_wall_clock(self):
        self.queue()
        self.ok("retention", "--bodies", "1h", "--records", "1h", "--ids", "1h")
        self.each(["a"])
        self.settle()
        for clock in ["+30d", "-30d", "+3650d", "+0"]:
            for _ in range(3):
                self.assertEqual({0}, set(self.ok("retention", "--run", "--json", **at(clock)).line.values()))
        self.assertEqual(1, len(self.ok("log", "--json").lines))

    def test_a_retry_due_in_a_second_comes_in_a_second(self):
        self.queue("--backoff", "1s")
        program = self.script("second-time", "[ $ONCE_ATTEMPT = 2 ]")
        for failed, retried in itertools.permutations(CLOCKS, 2):
            with self.subTest(failed=failed, retried=retried):
                task = f"{failed}{retried}"
                self.ok("publish", "t", "--id", task)
                began = time.monotonic()
                first = self.worker("first", "--", program, env={**self.environment, **at(failed)})
                self.until(lambda: self.status()["retrying"] == 1, "the first attempt has failed")
                first.kill()
                first.wait()
                self.ok("work", "q", "-q", "--until-empty", "--", program, **at(retried))
                lasted = time.monotonic() - began
                self.assertEqual(["failed", "completed"], self.outcomes(task))
                self.assertGreaterEqual(lasted, 1)
                self.assertLess(lasted, 15)

    def test_a_lease_does_not_end_by_a_clock_that_is_ahead(self):
        self.queue()
        self.each(["a"])
        program = self.script("slow", 'echo $$ >> began; until [ -e go ]; do sleep 0.01; done')
        for clock in CLOCKS[:2]:
            self.worker(f"w{clock}", "--", program, env={**self.environment, **at(clock)})
        self.pids("began")
        self.await_workers(2)
        # A whole round of the other worker: it is handed what comes after.
        self.each(["b"])
        self.until(lambda: len(self.read("began").split()) == 2, "the other takes the next task")
        self.assertEqual(1, len(self.story("a")["attempts"]))
        self.touch("go")
        self.until(lambda: self.status()["completed"] == 2, "both are completed")
        self.assertEqual([["completed"]] * 2, [self.outcomes(task) for task in "ab"])

    def test_a_clock_that_jumps_under_a_running_worker(self):
        clock = self.folder / "clock"
        clock.write_text("+0")
        environment = at("+0")
        del environment["FAKETIME"]
        environment.update(FAKETIME_TIMESTAMP_FILE=str(clock), FAKETIME_NO_CACHE="1")
        self.queue("--backoff", "500ms,500ms,500ms", "--lease", "1s")
        program = self.script("fourth-time", 'echo "$ONCE_ID" >> ran; [ $ONCE_ATTEMPT = 4 ]')
        worker = self.worker("w", "--", program, env={**self.environment, **environment})
        self.each(["a"])
        began = time.monotonic()
        for attempts, jump in enumerate(["+30d", "-30d", "+0"], start=1):
            self.until(lambda: len(self.read("ran").split()) == attempts, f"attempt {attempts}")
            clock.write_text(jump)
        self.until(lambda: self.status()["completed"] == 1, "it is completed")
        self.assertLess(time.monotonic() - began, 20)
        worker.send_signal(signal.SIGTERM)
        self.ends(worker)
        self.assertEqual(["failed"] * 3 + ["completed"], self.outcomes("a"))
        started = [attempt["started_at"] for attempt in self.story("a")["attempts"]]
        self.assertNotEqual(sorted(started), started, "the clock was moved indeed")


if __name__ == "__main__":
    unittest.main()
