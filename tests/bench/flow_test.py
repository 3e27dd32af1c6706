#!/usr/bin/env -S python3 -B
"""The benchmark of workflows (bench/flow) in short: a small number of runs on SQLite, and its arithmetic."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLOW = ROOT / "bench" / "flow"
sys.path[:0] = [str(ROOT / "bench" / "compare")]
import report  # noqa: E402


class TheDriver(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="flow.", dir=".")
        cls.out = Path(cls.temporary.name).resolve()
        cls.ran = subprocess.run(
            [sys.executable, "-B", FLOW, "--runs", "50", "--stores", "sqlite", "--out", cls.out, os.environ["ONCE_FLOW"]],
            text=True, capture_output=True, timeout=110)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_every_tenth_is_measured_and_every_step_ran_once(self):
        self.assertEqual(0, self.ran.returncode, self.ran.stderr)
        tenths, rest = json.loads((self.out / "results.json").read_text())["sqlite"]
        self.assertEqual([5] * 10, [each["runs"] for each in tenths])
        self.assertEqual((0, 0), (rest["never"], rest["twice"]))
        self.assertGreater(rest["plain_tasks_per_s"], 0)

    def test_the_table_has_a_line_for_the_store(self):
        self.assertRegex(self.ran.stdout, r"(?m)^\| Once, SQLite \| 50 \| ")

    def test_the_documentation_has_a_place_for_it(self):
        begin = report.BEGIN.replace("make bench ", "make bench-flow ")
        document = (ROOT / "docs" / "performance.md").read_text()
        self.assertIn("new table", report.between(document, "flows", "new table", begin))

    def test_a_store_that_is_none_is_refused(self):
        ran = subprocess.run([sys.executable, "-B", FLOW, "--stores", "redis", "--out", self.out, os.environ["ONCE_FLOW"]],
                             text=True, capture_output=True, timeout=30)
        self.assertEqual(1, ran.returncode)
        self.assertIn("no store redis; there are: sqlite, nats", ran.stderr)


if __name__ == "__main__":
    unittest.main()
