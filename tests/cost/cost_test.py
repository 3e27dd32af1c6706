#!/usr/bin/env -S python3 -B
"""What a task costs, counted in ways that do not depend on the machine's speed or load: instructions
(callgrind), flushes (the driver counts its own) and messages (nats-server counts them).

Every count is taken for two sizes of the same work; the difference is what the additional tasks cost,
without the start and the end of the process.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli" / "support"))
import nats_node  # noqa: E402

DRIVER = os.environ["ONCE_COST_DRIVER"]
BATCH = 256  # the driver's
CALLGRIND = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]

# What was measured when the bound was set last. A quarter more is allowed: threads and compilers differ
# by some per cent. Who has made it cheaper writes the new value here, so that it stays so.
INSTRUCTIONS = {"publish": 32_500, "backlog": 52_500, "sequential": 146_000}
MESSAGES = {"publish": 2.0, "backlog": 8.0, "sequential": 15.0}
ALLOWED = 1.25

# Promises, not measurements. A batch is one commit; one at a time, the record of one task and the claim
# of the next are one commit; the rest are checkpoints.
FLUSHES = {"publish": 1.2 / BATCH, "backlog": 1 / 50, "sequential": 1.1}
# A commit that is not flushed is no commit: less would be a loss of durability, or a count that is wrong.
LEAST_FLUSHES = {"publish": 0.95 / BATCH, "backlog": 1 / 1000, "sequential": 0.95}

WHAT_TO_DO = """
Count where it goes, on this tree and on the one before:
  valgrind --tool=callgrind {driver} {stage} zone.db ... && callgrind_annotate callgrind.out.*
  strace -f -e trace=fsync,fdatasync,pwrite64 {driver} {stage} zone.db ...
  nats-server -js -V                 shows every message, {driver} {stage} nats://127.0.0.1 ... beside it
If the cost is meant, change the bound at the top of tests/cost/cost_test.py and say in the commit what it buys.
"""


def shown(count):
    return f"{count:,.0f}" if count >= 100 or count == 0 else f"{count:.4f}"


class CostTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="once-cost-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def drive(self, *words, under=()):
        ran = subprocess.run([*under, DRIVER, *map(str, words)], text=True, capture_output=True, timeout=200)
        self.assertEqual(0, ran.returncode, ran.stderr)
        return json.loads(ran.stdout), ran.stderr

    def run_stage(self, stage, store, tasks, under=()):
        """What the driver said, and that it did all the work."""
        said, noted = self.drive(stage, store, tasks, under=under)
        self.assertEqual(tasks, said["tasks"])
        return said, noted

    def prepare(self, stage, store, tasks):
        if stage != "publish":
            self.drive("publish", store, tasks)
        return store

    def per_task(self, count, few, many):
        return (count(many) - count(few)) / (many - few)

    def judge(self, stage, unit, found, most, least=0):
        told = f"{stage}: {shown(found)} {unit} per task, allowed are {shown(least)} to {shown(most)}"
        print(told, flush=True)
        if not least <= found <= most:
            self.fail(told + WHAT_TO_DO.format(driver=DRIVER, stage=stage))


class OnAFile(CostTest):
    @unittest.skipUnless(platform.machine() == "x86_64", "the bounds are of another processor")
    def test_instructions(self):
        for stage, (few, many) in {"publish": (256, 1280), "backlog": (256, 1792), "sequential": (50, 250)}.items():
            with self.subTest(stage=stage):
                found = self.per_task(lambda tasks: self.instructions(stage, tasks), few, many)
                self.judge(stage, "instructions", found, INSTRUCTIONS[stage] * ALLOWED)

    def instructions(self, stage, tasks):
        if shutil.which("valgrind") is None:
            self.fail("valgrind is missing; `tools/setup test` installs it")
        store = self.prepare(stage, self.folder / f"{stage}-{tasks}.db", tasks)
        _, noted = self.run_stage(stage, store, tasks, under=CALLGRIND)
        return int(re.search(r"Collected : (\d+)", noted)[1])

    def test_flushes(self):
        for stage, (few, many) in {"publish": (2560, 7680), "backlog": (2560, 7680), "sequential": (50, 350)}.items():
            with self.subTest(stage=stage):
                found = self.per_task(lambda tasks: self.flushes(stage, tasks), few, many)
                self.judge(stage, "flushes", found, FLUSHES[stage], LEAST_FLUSHES[stage])

    def flushes(self, stage, tasks):
        store = self.prepare(stage, self.folder / f"flushed-{stage}-{tasks}.db", tasks)
        return self.run_stage(stage, store, tasks)[0]["flushes"]


@unittest.skipUnless(nats_node.PROGRAM, nats_node.MISSING)
class OnJetStream(CostTest):
    def setUp(self):
        super().setUp()
        self.node = nats_node.NatsNode(monitored=True)
        self.addCleanup(self.node.close)
        self.node.start()

    def test_messages(self):
        for stage, (few, many) in {"publish": (512, 2048), "backlog": (512, 2048), "sequential": (50, 150)}.items():
            with self.subTest(stage=stage):
                found = self.per_task(lambda tasks: self.messages(stage, tasks), few, many)
                self.judge(stage, "messages", found, MESSAGES[stage] * ALLOWED)

    def messages(self, stage, tasks):
        """To and from the server, the stage alone."""
        store = self.prepare(stage, f"{self.node.url}/{stage}-{tasks}", tasks)
        before = self.node.messages()
        self.run_stage(stage, store, tasks)
        return self.node.messages() - before


if __name__ == "__main__":
    unittest.main()
