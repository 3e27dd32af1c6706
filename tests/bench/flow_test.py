#!/usr/bin/env -S python3 -B
"""The benchmark of workflows (bench/flow) in short: Once on SQLite alone, a peer that is missing, and its arithmetic."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLOW = ROOT / "bench" / "flow"
sys.path[:0] = [str(ROOT / "bench" / "compare"), str(FLOW)]
import flow_peers  # noqa: E402
import report  # noqa: E402

RUNS = 50


class TheDriver(unittest.TestCase):
    """A whole run; without anything in PATH, so that a peer is surely missing."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="flow.", dir=".")
        cls.out = Path(cls.temporary.name).resolve()
        cls.ran = subprocess.run(
            [sys.executable, "-B", FLOW, "--runs", str(RUNS), "--rounds", "1", "--curve", str(RUNS),
             "--peers", "once-sqlite,dbos", "--out", cls.out, os.environ["ONCE_FLOW"]],
            text=True, capture_output=True, timeout=110, env=os.environ | {"PATH": str(cls.out)})

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def results(self):
        self.assertEqual(0, self.ran.returncode, self.ran.stderr)
        return json.loads((self.out / "results.json").read_text())

    def test_once_runs_every_step_once_and_every_measure_is_there(self):
        [one] = self.results()["peers"]["once-sqlite"]["rounds"]
        self.assertEqual((0, 0, RUNS), (one["never"], one["twice"], one["tasks"]))
        for key in ("runs_per_s", "cpu", "memory"):
            self.assertGreater(one[key], 0, key)

    def test_a_killed_worker_loses_no_step_and_completes_none_twice(self):
        kills = self.results()["peers"]["once-sqlite"]["rounds"][0]["kill"]
        retry, hold = kills["retry"], kills["hold"]
        self.assertEqual((0, 0, 0), (retry["never"], retry["ledger"]["completed_twice"], retry["ledger"]["unexplained"]))
        self.assertEqual(retry["tasks"], retry["ledger"]["completed"])
        self.assertLessEqual(retry["twice"], retry["ledger"]["reruns"])
        self.assertEqual((0, 0, 0), (hold["twice"], hold["ledger"]["completed_twice"], hold["ledger"]["unexplained"]))

    def test_every_tenth_is_measured_and_every_step_ran_once(self):
        tenths, rest = self.results()["curve"]["Once, SQLite"]
        self.assertEqual([RUNS // 10] * 10, [each["runs"] for each in tenths])
        self.assertEqual((0, 0), (rest["never"], rest["twice"]))
        self.assertGreater(rest["plain_tasks_per_s"], 0)

    def test_the_tables_have_lines_for_once(self):
        self.assertRegex(self.ran.stdout, r"(?m)^\| \*\*Once, SQLite\*\* \| ")
        self.assertRegex(self.ran.stdout, rf"(?m)^\| Once, SQLite \| {RUNS} \| ")

    def test_a_peer_that_is_missing_is_named_with_the_reason(self):
        self.assertRegex(self.ran.stdout, r"(?m)^- DBOS, PostgreSQL: not measured: .+")

    def test_nothing_is_left_behind(self):
        self.assertEqual([], list(self.out.glob("run.*")))

    def test_the_documentation_has_a_place_for_it(self):
        begin = report.BEGIN.replace("make bench ", "make bench-flow ")
        document = (ROOT / "docs" / "performance.md").read_text()
        self.assertIn("new table", report.between(document, "flows", "new table", begin))

    def test_a_peer_that_is_none_is_refused(self):
        ran = subprocess.run([sys.executable, "-B", FLOW, "--peers", "redis", "--out", self.out, os.environ["ONCE_FLOW"]],
                             text=True, capture_output=True, timeout=30)
        self.assertEqual(1, ran.returncode)
        self.assertIn(f"no peer redis; there are: {', '.join(flow_peers.PEERS)}", ran.stderr)


class TheArithmetic(unittest.TestCase):
    def test_every_driver_of_a_peer_is_there(self):
        for peer in flow_peers.PEERS.values():
            self.assertTrue(peer.program == "once" or (ROOT / "bench" / "peers" / peer.program).exists(), peer.program)

    def test_a_run_that_is_not_exact_is_noticed(self):
        driver = load_driver()
        ledger = {"completed": 9, "in_doubt": 0, "completed_twice": 0, "unexplained": 0, "reruns": 1}
        retry = {"tasks": 9, "never": 0, "twice": 1, "ledger": ledger}
        hold = {"tasks": 9, "never": 2, "twice": 0, "ledger": ledger | {"completed": 6, "in_doubt": 1, "reruns": 0}}
        well = {"never": 0, "twice": 0, "kill": {"retry": retry, "hold": hold}}

        def exact(one, rest):
            return driver.exact({"curve": {"o": ([], rest)}, "peers": {"o": {"once": True, "rounds": [one]}}})

        self.assertTrue(exact(well, {"never": 0, "twice": 0}))
        self.assertFalse(exact(well, {"never": 1, "twice": 0}))
        for fault in ({"never": 1}, {"twice": 1}, {"kill": {"retry": retry | {"never": 1}}},
                      {"kill": {"hold": hold | {"twice": 1}}},
                      *({"kill": {"retry": retry | {"ledger": ledger | wrong}}}
                        for wrong in ({"completed": 8}, {"completed_twice": 1}, {"unexplained": 1}))):
            self.assertFalse(exact(well | fault, {"never": 0, "twice": 0}), fault)


def load_driver():
    spec = importlib.util.spec_from_file_location("driver", FLOW / "__main__.py")
    driver = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(driver)
    return driver


if __name__ == "__main__":
    unittest.main()
