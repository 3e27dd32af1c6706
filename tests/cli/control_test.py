#!/usr/bin/env -S python3 -B
"""once cancel; publish --delay, --at, --expires and --wait; an interrupted bench."""

import json
import signal
import sys
import unittest
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import OnceTest  # noqa: E402


# Far away, and within what can be waited for.
FUTURE = datetime.now(timezone.utc) + timedelta(days=365)


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


class Cancel(OnceTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t")

    def states(self):
        return {item["id"]: item["state"] for item in self.ok("list", "--queue", "q", "--json").lines}

    def test_what_waits(self):
        self.ok("queue", "add", "r", "--topic", "t")
        self.ok("publish", "t", "--id", "now")
        self.ok("publish", "t", "1", "--id", "later", "--delay", "1h")
        answer = self.ok("cancel", "now", "later", "--queue", "q", "--reason", "a test", "--by", "ada", "--json")
        self.assertEqual(
            [{"id": task, "queue": "q", "outcome": "cancelled"} for task in ["now", "later"]], answer.lines
        )
        self.assertEqual({"now": "cancelled", "later": "cancelled"}, self.states())
        self.assertIn("cancelled in queue q", self.refused(1, "cancel", "now", "--queue", "q"))
        self.assertEqual("r", self.ok("cancel", "now", "--json").line["queue"])
        story = self.ok("inspect", "now", "--json").line["queues"][0]["story"][0]
        self.assertEqual(("cancelled", "ada", "a test"), tuple(story[n] for n in ("what", "by", "why")))
        self.refused(6, "cancel", "nope")
        self.refused(1, "wait", "now")

    def test_what_is_settled(self):
        self.ok("publish", "t", "--id", "a")
        self.ok("work", "q", "-q", "--until-empty", "--", "true")
        self.assertIn("a is settled: completed in queue q", self.refused(1, "cancel", "a"))
        answer = self.once("cancel", "a", "--json")
        self.assertEqual(("a", "wrong_state"), tuple(answer.line[n] for n in ("id", "error")))
        self.ok("publish", "other", "--id", "unrouted", "-q")
        self.assertIn("no queue takes its topic", self.refused(1, "cancel", "unrouted"))

    def test_what_runs_is_asked_to_stop(self):
        self.ok("queue", "set", "q", "--lease", "1s")
        self.ok("publish", "t", "--id", "a")
        program = self.script("slow", "trap 'exit 1' TERM; touch started; while :; do sleep 0.01; done")
        worker = self.start("work", "q", "--", program)
        self.until((self.folder / "started").exists, "the program runs")
        self.assertEqual("asked_to_stop", self.ok("cancel", "a", "--json").line["outcome"])
        self.refused(1, "wait", "a")
        self.assertEqual({"a": "cancelled"}, self.states())
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(0, worker.wait(timeout=60))

    def test_by_filter(self):
        for n in range(3):
            self.ok("publish", "t", str(n), "--id", f"w{n}")
            self.ok("publish", "t", str(n), "--id", f"s{n}", "--delay", "1h")
        self.assertIn("3 scheduled tasks match", self.refused(2, "cancel", "--state", "scheduled"))
        self.assertEqual(3, len(self.ok("cancel", "--state", "scheduled", "--yes", "--json").lines))
        self.assertIn("3 unsettled tasks match", self.refused(2, "cancel", "--queue", "q"))
        self.ok("cancel", "--topic", "t", "--limit", "2", "--yes")
        self.assertEqual(1, list(self.states().values()).count("waiting"))
        self.ok("cancel", "--all", "--yes")
        self.assertEqual({"cancelled"}, set(self.states().values()))


class Schedule(OnceTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t")

    def entry(self, task):
        return next(entry for entry in self.ok("log", "--json").lines if entry["id"] == task)

    def test_delay(self):
        before = datetime.now(timezone.utc) + timedelta(hours=1) - timedelta(milliseconds=1)
        said = self.ok("publish", "t", "--id", "a", "--delay", "1h").out
        entry = self.entry("a")
        self.assertGreaterEqual(moment(entry["not_before"]), before)
        self.assertLess(moment(entry["not_before"]), before + timedelta(minutes=5))
        self.assertIn("not to be run before", said)
        self.assertNotIn("expires", entry)
        (item,) = self.ok("list", "--state", "scheduled", "--json").lines
        self.assertEqual(entry["not_before"], item["not_before"])
        self.assertIn("NOT BEFORE", self.ok("list").out)
        self.assertIn(entry["not_before"], self.ok("inspect", "a").out)
        self.assertEqual(entry["not_before"], self.ok("inspect", "a", "--json").line["not_before"])
        self.assertIn("not before " + entry["not_before"], self.ok("log").out)
        self.assertEqual(1, self.ok("status", "--json").lines[0]["scheduled"])
        self.assertIn("SCHEDULED", self.ok("status").out)

    def test_a_delay_that_is_over_runs(self):
        self.ok("publish", "t", "--id", "a", "--delay", "500ms")
        self.ok("work", "q", "-q", "--until-empty", "--", "true")
        self.ok("wait", "a", "--timeout", "0s")
        (attempt,) = self.ok("inspect", "a", "--json").line["queues"][0]["attempts"]
        early = moment(self.entry("a")["not_before"]) - moment(attempt["started_at"])
        self.assertLess(early, timedelta(milliseconds=50), "up to what two clocks differ by")

    def test_at(self):
        self.ok("publish", "t", "1", "--id", "past", "--at", "2020-01-01T00:00:00Z")
        self.ok("publish", "t", "2", "--id", "future", "--at", FUTURE.astimezone(timezone(timedelta(hours=1))).isoformat(timespec="milliseconds"))
        self.assertIn("ten years", self.refused(2, "publish", "t", "3", "--at", "2999-01-01"))
        states = {item["id"]: item["state"] for item in self.ok("list", "--json").lines}
        self.assertEqual({"past": "waiting", "future": "scheduled"}, states)
        near = abs(moment(self.entry("future")["not_before"]) - FUTURE)
        self.assertLess(near, timedelta(seconds=5))

    def test_expires(self):
        self.ok("publish", "t", "1", "--id", "late", "--expires", "1s")
        over = moment(self.entry("late")["expires"]) + timedelta(milliseconds=100)
        self.until(lambda: datetime.now(timezone.utc) > over, "it expires")
        self.ok("publish", "t", "2", "--id", "early", "--expires", "1h")
        self.ok("publish", "t", "3", "--id", "date", "--expires", FUTURE.date().isoformat())
        self.assertTrue(self.ok("publish", "t", "1", "--id", "late", "--expires", "2020-01-01", "--json").line["duplicate"])
        self.ok("work", "q", "-q", "--until-empty", "--", "true")
        states = {item["id"]: item["state"] for item in self.ok("list", "--json").lines}
        self.assertEqual({"late": "cancelled", "early": "completed", "date": "completed"}, states)
        self.assertIn("expired", self.ok("inspect", "late", "--json").line["queues"][0]["reason"])
        self.assertIn("expires", self.entry("early"))
        self.assertIn("expires " + self.entry("early")["expires"], self.ok("log").out)

    def test_batch(self):
        lines = [
            {"topic": "t", "id": "a", "delay": "1h"},
            {"topic": "t", "id": "b", "at": FUTURE.isoformat(), "expires": (FUTURE + timedelta(days=1)).isoformat()},
            {"topic": "t", "id": "c", "expires": "1h30m"},
            {"topic": "t", "id": "d", "delay": "1"},
            {"topic": "t", "id": "e", "at": "1h"},
            {"topic": "t", "id": "f", "expires": "never"},
            {"topic": "t", "id": "g", "delay": "1s", "at": FUTURE.isoformat()},
            {"topic": "t", "id": "h", "delay": 5},
        ]
        answer = self.once("publish", "--batch", "-", stdin="".join(json.dumps(line) + "\n" for line in lines))
        self.assertEqual(2, answer.code)
        self.assertEqual([False] * 3 + [True] * 5, ["error" in line for line in answer.lines])
        self.assertIn("both", answer.lines[6]["message"])
        self.assertIn("not_before", self.entry("a"))
        self.assertTrue({"not_before", "expires"} <= set(self.entry("b")))
        self.assertNotIn("not_before", self.entry("c"))


class Wait(OnceTest):
    def test_result_after_the_receipt(self):
        self.ok("queue", "add", "q", "--topic", "t")
        publish = self.start("publish", "t", "7", "--id", "a", "--wait", "--json")
        self.assertEqual("a", json.loads(publish.stdout.readline())["id"])
        self.ok("work", "q", "-q", "--until-empty", "--", "cat")
        settled = json.loads(publish.stdout.readline())
        self.assertEqual({"id": "a", "queue": "q", "state": "completed", "result": 7}, settled)
        self.assertEqual(0, publish.wait(timeout=60))
        self.assertEqual(["duplicate of #1: a is in the log with this content", "7"],
                         self.ok("publish", "t", "7", "--id", "a", "--wait=1s").out.splitlines())  # fmt: skip

    def test_all_queues(self):
        for queue in ["q", "r"]:
            self.ok("queue", "add", queue, "--topic", "t", "--attempts", "1")
        self.ok("publish", "t", "7", "--id", "a")
        self.ok("work", "q", "-q", "--until-empty", "--", "cat")
        self.assertEqual(7, self.once("publish", "t", "7", "--id", "a", "--wait=10ms").code)
        self.drained("work", "r", "-q", "--until-empty", "--", "false", exits=1)
        answer = self.once("publish", "t", "7", "--id", "a", "--wait")
        self.assertEqual(1, answer.code)
        self.assertIn("q: 7", answer.out)
        self.assertIn("will not be completed in queue r", answer.err)

    def test_time_runs_out(self):
        answer = self.once("publish", "t", "--id", "a", "--wait=10ms", "--json")
        self.assertEqual((7, "timed_out"), (answer.code, answer.lines[1]["error"]))
        self.assertEqual(1, answer.lines[0]["sequence"])

    def test_the_next_word_is_not_its_value(self):
        answer = self.once("publish", "--id", "a", "--wait=0s", "t", "5", "--json")
        self.assertEqual((7, 5), (answer.code, self.ok("log", "--json").line["body"]))


class Bench(OnceTest):
    def test_a_signal_leaves_nothing_behind(self):
        for end in [signal.SIGINT, signal.SIGTERM]:
            bench = self.start("bench", "--tasks", "1000000")
            self.until(lambda: list(self.folder.glob("once-bench.*/*")), "it has begun")
            bench.send_signal(end)
            self.assertEqual(1, bench.wait(timeout=60))
            self.assertEqual([], list(self.folder.iterdir()))


if __name__ == "__main__":
    unittest.main()
