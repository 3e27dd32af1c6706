#!/usr/bin/env -S python3 -B
"""docs/ledger.md: its loop as it stands there, with a loop that is killed with -9 in a call."""

import os
import re
import signal
import subprocess
import sys
import unittest
from datetime import datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli/support"))
from once_command import BIN, OnceTest  # noqa: E402

SCRIPT = re.search(r"```sh\n(#!/bin/sh\n# loop.*?)```", (ROOT / "docs/ledger.md").read_text(), re.DOTALL).group(1)


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


class Loop(OnceTest):
    def setUp(self):
        super().setUp()
        (self.folder / "loop").write_text(SCRIPT)
        (self.folder / "once").symlink_to(BIN)
        (self.folder / "inbox").mkdir()
        self.environment["PATH"] = f"{self.folder}:{os.environ['PATH']}"
        self.script("call", 'echo "$1 $ONCE_IN_DOUBT $$" >> calls\nwhile [ -e "busy-$1" ]; do sleep 0.1; done\n'
                            'test ! -e "broken-$1"\n')  # fmt: skip
        self.ok("queue", "add", "calls", "--ledger", "--lease", "4s", "--attempts", "2", "--backoff", "1s")

    def deliver(self, *messages):
        for message in messages:
            (self.folder / "inbox" / message).write_text("{}")

    def loop(self):
        process = subprocess.Popen(["/bin/sh", "loop", "calls", "0.5"], cwd=self.folder, env=self.environment,
                                   stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        self.addCleanup(self._end, process)
        return process

    def calls(self):
        file = self.folder / "calls"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def state(self, key):
        return self.ok("inspect", key, "--json").line["queues"][0]["state"]

    def test_each_message_is_called_once(self):
        self.deliver("a", "b")
        self.assertEqual(0, self.loop().wait(timeout=60))
        self.deliver("a")  # the broker delivers it again
        self.assertEqual(0, self.loop().wait(timeout=60))
        self.assertEqual([["a", "false"], ["b", "false"]], [call[:2] for call in self.calls()])
        self.assertEqual("completed", self.state("a"))

    def test_a_call_that_takes_longer_than_the_lease_is_kept(self):
        (self.folder / "busy-a").touch()
        self.deliver("a")
        loop = self.loop()
        self.until(self.calls, "it calls")
        began = moment(self.ok("inspect", "a", "--json").line["queues"][0]["attempts"][0]["started_at"])

        def until():
            held = self.once("claim", "calls", "a", "--json").line
            self.assertEqual("held", held["outcome"])
            return moment(held["until"])

        self.until(lambda: until() > began + timedelta(seconds=8), "the lease of 4 s is renewed")
        (self.folder / "busy-a").unlink()
        self.assertEqual(0, loop.wait(timeout=60))
        self.assertEqual(1, len(self.calls()))
        self.assertEqual("completed", self.state("a"))

    def test_a_loop_that_dies_is_taken_over_and_the_next_call_knows(self):
        (self.folder / "busy-a").touch()
        self.deliver("a")
        loop = self.loop()
        self.until(self.calls, "it calls")
        os.kill(loop.pid, signal.SIGKILL)
        loop.wait(timeout=60)
        other = self.loop()
        self.until(lambda: len(self.calls()) == 2, "the other loop takes over after the lease")
        (self.folder / "busy-a").unlink()
        self.assertEqual(0, other.wait(timeout=60))
        self.assertEqual([["a", "false"], ["a", "true"]], [call[:2] for call in self.calls()])
        first = int(self.calls()[0][2])
        self.until(lambda: not Path(f"/proc/{first}").exists(), "the keeper ended the call of the dead loop")
        self.assertEqual("completed", self.state("a"))

    def test_a_call_that_fails_is_dead_after_its_attempts(self):
        (self.folder / "broken-a").touch()
        self.deliver("a")
        self.assertEqual(0, self.loop().wait(timeout=60))
        self.assertEqual(2, len(self.calls()))
        self.assertEqual("dead", self.state("a"))


if __name__ == "__main__":
    unittest.main()
