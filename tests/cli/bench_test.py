#!/usr/bin/env -S python3 -B
"""once bench: every id runs once, the baseline is of the store's own kind, and nothing stays behind."""

import signal
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "cli" / "support"), str(TESTS / "support")]
import nats_cluster  # noqa: E402
from once_command import OnceTest  # noqa: E402

RATES = ["publish_batch", "backlog", "publish_single", "sequential"]
LATENCIES = [f"latency_{what}_{part}" for what in ("start", "recorded") for part in ("p50", "p99")]
ZONE = {"KV_once_bench_ledger", "KV_once_bench_meta", *("ONCE_bench_" + name for name in ("BLOB", "COUNT", "LOG", "OLD", "WAKE"))}
BARE = {"ONCEBARE_bench_LEDGER", "ONCEBARE_bench_LOG"}


class BenchTest(OnceTest):
    def bench(self, store, baseline, tasks=500):
        lines = self.ok("bench", "--tasks", str(tasks), "--json", "--store", store).lines
        measured = {line["measure"]: line for line in lines}
        ratios = [f"ratio_{rate}" for rate in RATES]
        self.assertEqual({*RATES, *ratios, *LATENCIES, "duplicates_run", "missing"}, {*measured})
        self.assertEqual({f"of {baseline}"}, {measured[ratio]["unit"] for ratio in ratios})
        for measure in RATES + ratios + LATENCIES:
            self.assertGreater(measured[measure]["value"], 0, measure)
        self.assertEqual((0, 0), (measured["duplicates_run"]["value"], measured["missing"]["value"]))


class OnAFile(BenchTest):
    def test_each_id_runs_once_and_the_baseline_goes(self):
        self.bench("mine.db", "bare SQL")
        self.assertEqual(500, completed(self, "mine.db"))
        self.assertEqual([], list(self.folder.glob("*bare*")))

    def test_a_store_that_holds_tasks_is_refused_and_kept(self):
        self.ok("publish", "a", "--store", "mine.db")
        self.assertIn("holds tasks", self.refused(2, "bench", "--store", "mine.db"))
        self.assertEqual(1, len(self.ok("log", "--json", "--store", "mine.db").lines))
        self.assertEqual([], list(self.folder.glob("*bare*")))

    def test_memory_is_nothing_to_measure(self):
        self.refused(2, "bench", "--store", "memory:")


@unittest.skipIf(nats_cluster.program() is None, nats_cluster.NONE)
class OnNats(BenchTest):
    def setUp(self):
        super().setUp()
        self.server = nats_cluster.Cluster().__enter__()
        self.addCleanup(self.server.end)
        self.store = self.server.url("bench")

    def streams(self):
        return set(self.server.ask("STREAM.NAMES").get("streams") or [])

    def begun(self, *more):
        """A run that is long enough to meet it in its middle."""
        bench = self.start("bench", "--tasks", "1000000", "--store", self.store, *more)
        self.until(lambda: self.streams() == ZONE | BARE and self.stored("ONCE_bench_LOG") > 1000, "it publishes")
        return bench

    def stored(self, stream):
        return self.server.stream(stream)["state"]["messages"]

    def test_each_id_runs_once_and_nothing_stays(self):
        self.bench(self.store, "bare JetStream")
        self.assertEqual(set(), self.streams())

    def test_a_zone_that_was_there_stays(self):
        self.ok("queue", "add", "mine", "--topic", "mine", "--store", self.store)
        self.bench(self.store, "bare JetStream")
        self.assertEqual(ZONE, self.streams())
        self.assertEqual(500, completed(self, self.store))

    def test_a_zone_that_holds_tasks_is_refused_and_kept(self):
        self.ok("queue", "add", "q", "--topic", "other", "--store", self.store)
        self.ok("publish", "a", "--store", self.store)
        self.assertIn("holds tasks", self.refused(2, "bench", "--store", self.store))
        self.assertEqual(ZONE, self.streams())
        self.assertEqual(1, self.stored("ONCE_bench_LOG"))

    def test_an_interrupted_one_leaves_nothing(self):
        for end in (signal.SIGINT, signal.SIGTERM):
            bench = self.begun()
            bench.send_signal(end)
            self.assertEqual(1, bench.wait(timeout=60))
            self.assertEqual(set(), self.streams())

    def test_a_zone_that_others_use_meanwhile_stays(self):
        bench = self.begun()
        self.ok("queue", "add", "theirs", "--topic", "theirs", "--store", self.store)
        bench.send_signal(signal.SIGINT)
        self.assertEqual(1, bench.wait(timeout=60))
        self.assertEqual(ZONE, self.streams())

    def test_what_a_killed_one_left_is_removed_by_the_next(self):
        self.begun().kill()
        for stream in ZONE:
            self.server.ask(f"STREAM.DELETE.{stream}")
        self.assertEqual(BARE, self.streams())
        self.bench(self.store, "bare JetStream", tasks=100)
        self.assertEqual(set(), self.streams())


def completed(test, store):
    """How many tasks of the backlog are, as the ledger tells it."""
    queues = {line["queue"]: line for line in test.ok("status", "--json", "--store", store).lines if "queue" in line}
    return queues["backlog"]["completed"]


if __name__ == "__main__":
    unittest.main()
