#!/usr/bin/env -S python3 -B
"""Workers on NATS that are killed while a large result is being written. The result lies in many messages
beside its record, and the record is the last of them."""

import signal
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / folder) for folder in ("system/support", "cli/support", "support")]
import nats_cluster  # noqa: E402
from nats_node import MISSING, PROGRAM, NatsNode  # noqa: E402
from real_processes import SystemTest  # noqa: E402

LARGE = 16 << 20
ENOUGH = 40  # tasks that are tried until a worker dies between the first part and the record


@unittest.skipUnless(PROGRAM, MISSING)
class LargeResult(SystemTest):
    def setUp(self):
        super().setUp()
        self.node = NatsNode()
        self.addCleanup(self.node.close)
        self.node.start()
        self.environment["ONCE_STORE"] = self.node.url
        self.queue("--lease", "1s", "--backoff", "1ms")
        # Each attempt has a result of its own, so that parts of two results would be seen.
        self.program = self.script("talk", f'echo ran >> "ran.$ONCE_ID"; yes "$ONCE_ID $ONCE_ATTEMPT" | head -c {LARGE}')

    def result(self, task, attempt):
        line = f"{task} {attempt}\n"
        return (line * (LARGE // len(line) + 1))[:LARGE]

    def parts(self):
        """Without the seal that every stream of the zone has."""
        with nats_cluster.Connection(self.node.port) as line:
            return line.api("STREAM.INFO.ONCE_main_BLOB")["state"]["messages"] - 1

    def killed_while_it_writes(self, task):
        """Whether the worker died with parts of the result written, and not the record."""
        self.each([task])
        before = self.parts()
        worker = self.worker(f"of-{task}", "--", self.program)
        self.until(lambda: self.parts() > before, "the first part is written")
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        state = self.story(task)["state"]
        self.assertIn(state, ("running", "completed"))
        return state == "running"

    def test_a_killed_worker_leaves_no_half_result(self):
        tasks, killed = [], False
        while not killed:
            self.assertLess(len(tasks), ENOUGH, "no worker died while it wrote")
            tasks.append(f"task-{len(tasks)}")
            killed = self.killed_while_it_writes(tasks[-1])
        self.settle(self.program)
        for task in tasks:
            attempt = 2 if task == tasks[-1] else 1
            self.assertEqual("ran\n" * attempt, self.read(f"ran.{task}"))
            self.assertEqual(["lost"] * (attempt - 1) + ["completed"], self.outcomes(task))
            self.assertTrue(self.story(task)["result"] == self.result(task, attempt), f"the result of {task} is whole")
        self.assertIn("every digest and index agrees", self.ok("audit", "--deep").out)
        # What the killed worker left goes with the record.
        self.ok("retention", "--bodies", "0", "--records", "0", "--ids", "0")
        for _ in range(3):
            self.ok("retention", "--run")
        self.assertEqual(0, self.parts())


if __name__ == "__main__":
    unittest.main()
