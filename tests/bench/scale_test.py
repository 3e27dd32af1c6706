#!/usr/bin/env -S python3 -B
"""The scaling (bench/scale) in short: all curves on SQLite, a store that is missing, and its arithmetic."""

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
SCALE = ROOT / "bench" / "scale"
sys.path[:0] = [str(SCALE), str(ROOT / "bench" / "compare")]
import curves  # noqa: E402
import report  # noqa: E402
import shown  # noqa: E402
import svg  # noqa: E402

POINTS = {"ids": "200,700", "processes": "1,3", "in_flight": "1,8", "bodies": "256,100000"}
PLOTS = {f"{column.plot}.svg" for curve in shown.CURVES.values() for column in curve.columns if column.plot}


class TheDriver(unittest.TestCase):
    """A whole run; without anything in PATH, so that there is surely no nats-server."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="scale.", dir=".")
        cls.out = Path(cls.temporary.name).resolve()
        points = [word for key, value in POINTS.items() for word in ("--" + key.replace("_", "-"), value)]
        cls.ran = subprocess.run(
            [sys.executable, "-B", SCALE, *points, "--tasks", "150", "--bytes", "2000000", "--rounds", "2",
             "--out", cls.out, os.environ["ONCE_PEER"], os.environ["ONCE_FILL"]],
            text=True, capture_output=True, timeout=110, env=os.environ | {"PATH": str(cls.out)})

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_every_point_is_measured_in_every_round_and_each_id_runs_once(self):
        self.assertEqual(0, self.ran.returncode, self.ran.stderr)
        found = json.loads((self.out / "results.json").read_text())["stores"]["sqlite"]["curves"]
        self.assertEqual({key: points.split(",") for key, points in POINTS.items()},
                         {key: list(measured) for key, measured in found.items()})
        for key, points in found.items():
            for measured in points.values():
                self.assertEqual(2, len(measured))
                self.assertEqual({(0, 0)}, {(one["never"], one["twice"]) for one in measured})
                for column in shown.CURVES[key].columns:
                    self.assertTrue(all(one[column.key] > 0 or "cpu" in column.key for one in measured), column)

    def test_a_store_that_is_missing_is_named_with_the_reason(self):
        self.assertRegex((self.out / "table.md").read_text(), r"Once, JetStream, not all measured: ids: ")

    def test_the_tables_and_plots_are_well_formed(self):
        written = (self.out / "table.md").read_text()
        self.assertIn(written, self.ran.stdout)
        self.assertEqual(len(shown.CURVES), len(re.findall(r"^\| ---", written, re.M)))
        self.assertEqual(PLOTS, {file.name for file in self.out.glob("*.svg")})
        for file in self.out.glob("*.svg"):
            self.assertTrue(xml.parse(file).getroot().tag.endswith("svg"), file)

    def test_nothing_is_left_behind(self):
        self.assertEqual([], list(self.out.glob("run.*")))


class TheArithmetic(unittest.TestCase):
    def test_what_several_processes_ran_is_counted_together(self):
        self.assertEqual((0, 0), curves.together(5, [{"never": 3, "twice": 0}, {"never": 2, "twice": 0}]))
        self.assertEqual((0, 1), curves.together(5, [{"never": 3, "twice": 0}, {"never": 1, "twice": 0}]))
        self.assertEqual((1, 2), curves.together(5, [{"never": 3, "twice": 2}, {"never": 3, "twice": 0}]))

    def test_a_run_that_is_not_exact_is_noticed(self):
        spec = importlib.util.spec_from_file_location("scale_driver", SCALE / "__main__.py")
        driver = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(driver)
        for well, one in ((True, {"never": 0, "twice": 0}), (False, {"never": 1, "twice": 0}),
                          (False, {"never": 0, "twice": 1})):
            self.assertEqual(well, driver.exact({"stores": {"sqlite": {"curves": {"ids": {10: [one]}}}}}))

    def test_the_cost_is_told_as_a_multiple_of_the_first_line(self):
        one = {"publish_us": 10, "publish_cpu_us": 1, "work_us": 30, "work_cpu_us": 1}
        written = shown.curve_table("ids", {10: [one], 1000: [one | {"work_us": 90}]})
        self.assertEqual(["1.00×", "2.50×"], re.findall(r"[\d.]+×", written))

    def test_sizes_are_written_as_people_write_them(self):
        self.assertEqual(["256 B", "1 KiB", "1000 B", "64 KiB", "1 MiB"],
                         [shown.size(count) for count in (256, 1024, 1000, 65536, 2**20)])

    def test_the_documentation_has_a_place_for_everything(self):
        document = (ROOT / "docs" / "performance.md").read_text()
        report.between(document, "scaling", "new", shown.BEGIN)
        self.assertEqual(PLOTS, set(re.findall(r"\(performance/(scale-[\w-]+\.svg)\)", document)))
        for name in PLOTS:
            self.assertTrue((ROOT / "docs" / "performance" / name).exists(), name)


class TheLines(unittest.TestCase):
    def test_x_is_logarithmic_and_y_in_proportion(self):
        drawing = svg.lines("a < b", "note", [("one", [(1, 10, 10, 10), (10, 20, 10, 20), (100, 40, 40, 40)])], str, str)
        [line] = xml.fromstring(drawing).findall("{*}polyline")
        (x1, y1), (x2, y2), (x3, y3) = (map(float, pair.split(",")) for pair in line.get("points").split())
        self.assertAlmostEqual(x2 - x1, x3 - x2, delta=0.2)
        self.assertAlmostEqual(2 * (y1 - y2), y2 - y3, delta=0.2)

    def test_a_single_point_and_zero_can_be_drawn(self):
        svg.lines("t", "n", [("one", [(5, 0, 0, 0)])], str, str)

    def test_names_do_not_cover_one_another(self):
        self.assertEqual([(10, "a"), (25, "b"), (100, "c")], svg.apart([(100, "c"), (12, "b"), (10, "a")]))


if __name__ == "__main__":
    unittest.main()
