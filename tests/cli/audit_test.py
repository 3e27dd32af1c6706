#!/usr/bin/env -S python3 -B
"""once audit: what adds up, what does not, and what it costs."""

import json
import os
import signal
import sqlite3
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import NATS, OnceTest  # noqa: E402

STATES = [
    "scheduled", "waiting", "running", "retrying", "in_doubt", "completed", "dead", "cancelled", "duplicate",
]  # fmt: skip
on_sqlite = unittest.skipIf(NATS, "it changes the file")


class Audit(OnceTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t", "--backoff", "1ms")

    def publish(self, *ids):
        for each in ids:
            self.ok("publish", "t", "--id", each, "-q")

    def work(self):
        self.ok("work", "q", "--until-empty", "-q", "--", "true")

    def damage(self, sql):
        with sqlite3.connect(self.folder / "once.db") as file:
            file.execute(sql)

    def test_names_and_sums(self):
        self.publish("a", "b", "a", "a")
        self.ok("publish", "nobody", "-q")
        self.work()
        self.publish("c")
        unrouted, line, last = self.ok("audit", "--json").lines
        if unrouted["queue"] is not None:
            unrouted, line = line, unrouted
        for name in [
            "period", "queue", "published", *STATES, "duplicates_at_append", "duplicates_by_ledger",
            "reruns", "completed_twice", "net_duplication_rate", "cost_prevented",
        ]:  # fmt: skip
            self.assertIn(name, line)
        self.assertEqual(3, line["published"])
        self.assertEqual(3, sum(line[state] for state in STATES))
        self.assertEqual((2, 1, 2), (line["completed"], line["waiting"], line["duplicates_at_append"]))
        self.assertEqual((0, 0, None), (line["completed_twice"], line["net_duplication_rate"], line["cost_prevented"]))
        self.assertRegex(line["period"], r"\A\d{4}-\d\d-\d\d\Z")
        self.assertEqual((None, 1), (unrouted["queue"], unrouted["published"]))
        self.assertEqual({"discrepancies": []}, last)

    @on_sqlite
    def test_deep_names_what_contradicts_and_what_can_come_of_it(self):
        self.publish("a", "b")
        self.work()
        self.assertIn("every digest and index agrees", self.ok("audit", "--deep").out)
        self.damage("DELETE FROM ids WHERE id = 'a'")
        self.assertIn("every task is explained\n", self.ok("audit").out)
        answer = self.once("audit", "--deep")
        self.assertEqual(4, answer.code)
        self.assertIn("  damaged      #1: the index of ids does not have it (a)\n", answer.out)
        self.assertIn("runs a second time", answer.out)
        (found,) = self.once("audit", "--deep", "--json").lines[-1]["discrepancies"]
        self.assertEqual(("damaged", None, 1, "a"), tuple(found[x] for x in ("kind", "queue", "sequence", "task")))
        self.assertIn("runs a second time", found["harm"])

    @on_sqlite
    def test_a_counter_that_was_set_back_is_named_and_refused(self):
        self.publish("a", "b")
        self.damage("UPDATE zone SET last_sequence = 1")
        answer = self.once("audit")
        self.assertEqual(4, answer.code)
        self.assertIn("last_sequence is 1, though 2 was given out", answer.out)
        self.assertIn("last_sequence is 1, though 2", self.once("doctor").out)
        self.assertIn("Nothing was written", self.refused(5, "publish", "t", "--id", "c"))

    def test_the_price_of_what_was_prevented(self):
        self.publish("a", "a", "a")
        line, _ = self.ok("audit", "--json", "--cost-per-run", "3.50").lines
        self.assertEqual(7.0, line["cost_prevented"])
        self.assertIn("2 duplicates prevented: 7.00 at 3.50 a run", self.ok("audit", "--cost-per-run", "3.50").out)
        for bad in ("much", "-1", "1e999", "", "nan"):
            self.refused(2, "audit", "--cost-per-run", bad)

    def test_a_rerun_has_its_reason(self):
        self.publish("a")
        fails_once = self.script("fails-once", "test -e done || { touch done; exit 1; }\n")
        self.ok("work", "q", "--until-empty", "-q", "--", fails_once)
        line, _ = self.ok("audit", "--json").lines
        self.assertEqual((1, 1, 2), (line["reruns"], line["rerun_reasons"]["failed"], line["attempts"]))
        self.assertIn("re-runs: 1 after a failure", self.ok("audit").out)

    def test_a_killed_worker(self):
        self.ok("queue", "set", "q", "--lease", "1s")
        self.publish("a")
        worker = self.start("work", "q", "--", self.script("slow", "touch begun; exec sleep 60\n"))
        self.until(lambda: (self.folder / "begun").exists(), "it runs")
        line, last = self.ok("audit", "--json").lines
        self.assertEqual((1, []), (line["running"], last["discrepancies"]))
        worker.kill()
        worker.wait()
        self.work()
        line, last = self.ok("audit", "--json").lines
        self.assertEqual((1, 1, []), (line["completed"], line["rerun_reasons"]["lost"], last["discrepancies"]))

    def test_totals_outlive_retention(self):
        self.publish("a", "b", "a")
        self.work()
        before = self.ok("audit", "--json").out
        self.ok("retention", "--bodies", "0", "--records", "0", "--ids", "0")
        for _ in range(4):
            self.ok("retention", "--run")
            self.assertEqual(before, self.ok("audit", "--json").out)
        self.assertEqual("", self.ok("log", "--json").out)

    def test_periods(self):
        self.publish("a")
        for by, shape in (("hour", r"T\d\d:00Z"), ("day", r"-\d\d"), ("month", "")):
            line, _ = self.ok("audit", "--json", "--by", by).lines
            self.assertRegex(line["period"], r"\A\d{4}-\d\d" + ("-\\d\\d" if by == "hour" else "") + shape + r"\Z")
        self.assertEqual(2, len(self.ok("audit", "--json", "--since", "1h").lines))
        self.assertEqual(1, len(self.ok("audit", "--json", "--since", "2099-01-01").lines))
        self.assertIn("--by takes hour, day or month", self.refused(2, "audit", "--by", "week"))
        self.refused(6, "audit", "--queue", "none")
        self.assertEqual("q", self.ok("audit", "--queue", "q", "--json").lines[0]["queue"])

    def test_nothing_yet(self):
        self.assertEqual("no tasks\nevery task is explained\n", self.ok("audit").out)
        self.assertEqual({"discrepancies": []}, self.ok("audit", "--json").line)
        self.refused(5, "--store", "nowhere.db", "audit")
        self.assertFalse((self.folder / "nowhere.db").exists())

    @on_sqlite
    def test_what_nothing_explains_is_exit_4(self):
        self.publish("a", "b", "c")
        self.work()
        self.damage("DELETE FROM log WHERE sequence = 2")
        answer = self.once("audit", "--json")
        self.assertEqual(4, answer.code)
        found = answer.lines[-1]["discrepancies"]
        self.assertEqual([("missing", 2), ("stray", 2)], [(each["kind"], each["sequence"]) for each in found])
        answer = self.once("audit")
        self.assertEqual(4, answer.code)
        self.assertIn("2 things are not explained:", answer.out)
        self.assertIn("#2 is not in the log", answer.out)

    @on_sqlite
    def test_the_hook_is_told_once_of_each_finding(self):
        self.publish("a", "b")
        hook = "cat >> told; echo end >> told"
        watch = self.start("audit", "--watch=50ms", "--json", "--hook", hook)
        self.assertEqual(2, json.loads(watch.stdout.readline())["published"])
        self.damage("DELETE FROM log WHERE sequence = 1")
        told = self.folder / "told"
        self.until(lambda: told.exists() and "end" in told.read_text(), "the hook runs")
        while not json.loads(watch.stdout.readline()).get("discrepancies"):
            pass
        watch.send_signal(signal.SIGINT)
        watch.stdout.read()
        self.assertEqual(4, watch.wait(timeout=60))
        lines = told.read_text().splitlines()
        self.assertEqual("missing", json.loads(lines[0])["discrepancies"][0]["kind"])
        self.assertEqual(["end"], lines[1:])
        self.assertIn("--hook goes with --watch", self.refused(2, "audit", "--hook", "true"))

    def test_watch_ends_with_0_when_all_is_well(self):
        self.publish("a")
        watch = self.start("audit", "--watch=50ms", "--json")
        self.assertEqual(1, json.loads(watch.stdout.readline())["waiting"])
        self.publish("b")
        self.until(lambda: json.loads(watch.stdout.readline()).get("waiting") == 2, "it looks again")
        watch.send_signal(signal.SIGTERM)
        watch.stdout.read()
        self.assertEqual(0, watch.wait(timeout=60))


if __name__ == "__main__":
    unittest.main()
