#!/usr/bin/env -S python3 -B
"""The comparison (bench/compare) in short: Once on SQLite alone, a peer that is missing, and its arithmetic."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPARE = ROOT / "bench" / "compare"
sys.path.insert(0, str(COMPARE))
import report  # noqa: E402
import rounds  # noqa: E402
import svg  # noqa: E402
import table  # noqa: E402
import workload  # noqa: E402

TASKS = 500


def peer(name="Peer", once=False, durable=True, beside="once-sqlite", rounds=(), failures=()):
    return {"name": name, "once": once, "durable": durable, "beside": beside, "settings": "", "killed": "", "version": "1",
            "rounds": list(rounds), "failures": list(failures)}


class TheDriver(unittest.TestCase):
    """A whole run; without anything in PATH, so that a peer is surely missing."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="compare.", dir=".")
        cls.out = Path(cls.temporary.name).resolve()
        cls.ran = subprocess.run(
            [sys.executable, "-B", COMPARE, "--rounds", "1", "--tasks", str(TASKS), "--out", cls.out,
             "--peers", "once-sqlite,bullmq-always", os.environ["ONCE_PEER"]],
            text=True, capture_output=True, timeout=110, env=os.environ | {"PATH": str(cls.out)})

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_once_runs_every_id_once_and_every_measure_is_there(self):
        self.assertEqual(0, self.ran.returncode, self.ran.stderr)
        results = json.loads((self.out / "results.json").read_text())
        [one] = results["peers"]["once-sqlite"]["rounds"]
        self.assertEqual((0, 0, TASKS), (one["never"], one["twice"], one["tasks"]))
        for measure in table.MEASURES:
            self.assertIn(measure.key, one)
        for key in ("publish_bulk", "publish_single", "backlog", "one_at_a_time", "recorded_p50", "memory"):
            self.assertGreater(one[key], 0, key)
        self.assertGreaterEqual(one["recorded_p50"], one["start_p50"])

    def test_a_killed_worker_loses_nothing_and_completes_nothing_twice(self):
        kills = json.loads((self.out / "results.json").read_text())["peers"]["once-sqlite"]["rounds"][0]["kill"]
        retry, hold = kills["retry"], kills["hold"]
        self.assertEqual((0, 0, 0), (retry["never"], retry["ledger"]["completed_twice"], retry["ledger"]["unexplained"]))
        self.assertEqual(retry["tasks"], retry["ledger"]["completed"])
        self.assertLessEqual(retry["twice"], retry["ledger"]["reruns"])
        self.assertEqual((0, 0), (hold["twice"], hold["ledger"]["unexplained"]))
        self.assertEqual(hold["tasks"], hold["ledger"]["completed"] + hold["ledger"]["in_doubt"])

    def test_a_peer_that_is_missing_is_named_with_the_reason(self):
        self.assertRegex((self.out / "table.md").read_text(), r"BullMQ, Redis always: not measured: npm is not installed")

    def test_the_table_is_well_formed_and_printed(self):
        written = (self.out / "table.md").read_text()
        self.assertIn(written, self.ran.stdout)
        widths = [line.count(" | ") for line in written.splitlines() if line.startswith("|")]
        self.assertEqual({line.count(" | ") for line in re.findall(r"^\| -.*$", written, re.M)}, set(widths))
        self.assertIn("**Once, SQLite**", written)

    def test_the_plots_are_well_formed(self):
        [one] = json.loads((self.out / "results.json").read_text())["peers"]["once-sqlite"]["rounds"]
        drawn = sorted(self.out.glob("*.svg"))
        # Not every disk counts what it does.
        self.assertEqual(sorted(measure.key for measure in report.PLOTS if one[measure.key] is not None),
                         [file.stem for file in drawn])
        for file in drawn:
            self.assertTrue(xml.parse(file).getroot().tag.endswith("svg"), file)

    def test_nothing_is_left_behind(self):
        self.assertEqual([], list(self.out.glob("run.*")))


class TheWork(unittest.TestCase):
    def test_every_twentieth_id_comes_again_a_little_later(self):
        ids = workload.backlog(5000, "seed")
        places = {}
        for place, id in enumerate(ids):
            places.setdefault(id, []).append(place)
        twice = [found for found in places.values() if len(found) == 2]
        self.assertEqual((5250, 5000, 250), (len(ids), len(places), len(twice)))
        self.assertEqual({36}, {len(id) for id in ids})
        self.assertGreaterEqual(min(later - first for first, later in twice[:-60]), 100)
        self.assertLessEqual(max(later - first for first, later in twice), 1100)
        self.assertEqual(ids, workload.backlog(5000, "seed"))

    def test_the_body_is_json_of_256_bytes(self):
        self.assertEqual(256, len(workload.BODY))
        json.loads(workload.BODY)

    def test_paced_is_200_a_second(self):
        lines = workload.paced(400, "seed")
        self.assertEqual(420, len(lines))
        self.assertEqual(sorted(lines), lines)
        first = {}
        for at, id in lines:
            first.setdefault(id, at)
        self.assertEqual(1995, max(first.values()))
        self.assertTrue(all(at - first[id] >= 1000 for at, id in lines if at != first[id]))


class TheArithmetic(unittest.TestCase):
    def test_percentiles(self):
        self.assertEqual(50, rounds.percentile(range(1, 101), 0.5))
        self.assertEqual(99, rounds.percentile(range(1, 101), 0.99))
        self.assertEqual(7, rounds.percentile([7], 0.99))

    def test_a_latency_is_that_of_the_first_publish(self):
        published = "published a 1000000\npublished b 2000000\npublished a 9000000\n"
        worked = "start a 2000000\nrecorded a 3000000\nstart b 5000000\nrecorded b 6000000\nstart a 9500000\n"
        self.assertEqual({"start_p50": 1, "start_p99": 3, "recorded_p50": 2, "recorded_p99": 4},
                         rounds.latencies([published, worked]))

    def test_effects_are_counted_by_id(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("a\nb\nb\n")
            file.flush()
            self.assertEqual({"never": 1, "twice": 1}, rounds.effects_counted(Path(file.name), {"a", "b", "c"}))

    def test_a_median_comes_with_its_spread(self):
        self.assertEqual("2,000 (1,000 to 9,000)", table.spread([9000, 1000, 2000]))
        self.assertEqual("0.50", table.spread([0.5]))
        self.assertEqual("–", table.spread([]))

    def test_a_ratio_says_how_many_times_better_once_is(self):
        peers = {"once-sqlite": peer("Once", True, rounds=[{"backlog": 100, "one_at_a_time": 2}]),
                 "other": peer(rounds=[{"backlog": 50, "one_at_a_time": 1}])}
        cells = {measure.key: table.cell(peers, peers["other"], measure) for measure in table.MEASURES}
        self.assertEqual(("50.00, 2.00×", "1.00, 0.50×", "–"),
                         (cells["backlog"], cells["one_at_a_time"], cells["memory"]))

    def test_without_the_once_that_it_is_compared_with_there_is_no_ratio(self):
        other = peer(rounds=[{"backlog": 50}])
        self.assertEqual("50.00", table.cell({"other": other}, other, table.MEASURES[2]))

    def test_the_short_table_has_the_fastest_way_to_publish(self):
        peers = {"both": peer("Both", rounds=[{"publish_bulk": 200, "publish_single": 300}]),
                 "none": peer("None", failures=["it is missing"])}
        last = table.short_table(peers).splitlines()[-1]
        self.assertTrue(last.startswith("| Both | 300 | – |"), last)

    def test_only_what_is_between_the_markers_changes(self):
        begin, end = report.BEGIN.format("comparison"), report.END.format("comparison")
        self.assertEqual(f"a\n{begin}\nnew\n{end}\nb\n",
                         report.between(f"a\n{begin}\nold\n{end}\nb\n", "comparison", "new\n"))
        with self.assertRaises(ValueError):
            report.between("no markers", "comparison", "new")
        for file in ("README.md", "docs/performance.md"):
            report.between((ROOT / file).read_text(), "comparison", "new")

    def test_every_plot_has_its_place_in_the_documentation(self):
        shown = re.findall(r"performance/(\w+)\.svg", (ROOT / "docs" / "performance.md").read_text())
        self.assertEqual(sorted(measure.key for measure in report.PLOTS), sorted(shown))

    def test_a_run_that_is_not_exact_is_noticed(self):
        driver = load_driver()
        ledger = {"completed": 9, "in_doubt": 1, "completed_twice": 0, "unexplained": 0, "reruns": 0}
        well = {"never": 0, "twice": 0, "kill": {"retry": {"tasks": 10, "ledger": ledger}}}
        self.assertTrue(driver.exact({"peers": {"o": peer(once=True, rounds=[well])}}))
        for fault in ({"never": 1}, {"twice": 1}, *({"kill": {"retry": {"tasks": 10, "ledger": ledger | wrong}}}
                      for wrong in ({"completed": 8}, {"completed_twice": 1}, {"unexplained": 1}))):
            self.assertFalse(driver.exact({"peers": {"o": peer(once=True, rounds=[well | fault])}}), fault)


class ThePlots(unittest.TestCase):
    def widths(self, values):
        drawing = svg.bars("a < b", "note", [(f"p{v}", v, v, v, False) for v in values], str)
        found = xml.fromstring(drawing).findall("{*}rect")
        return [float(rect.get("width")) for rect in found]

    def test_linear_bars_are_in_proportion(self):
        one, two = self.widths([50, 100])
        self.assertAlmostEqual(2, two / one, places=2)

    def test_a_logarithmic_scale_shows_the_small_ones(self):
        small, middle, large = self.widths([1, 1000, 1_000_000])
        self.assertGreater(small, 20)
        self.assertAlmostEqual(large - middle, middle - small, delta=1)

    def test_zero_can_be_drawn(self):
        self.assertEqual(1, self.widths([0, 5])[0])
        self.widths([0, 0])


def load_driver():
    spec = importlib.util.spec_from_file_location("driver", COMPARE / "__main__.py")
    driver = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(driver)
    return driver


if __name__ == "__main__":
    unittest.main()
