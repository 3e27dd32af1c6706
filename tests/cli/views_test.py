#!/usr/bin/env -S python3 -B
"""once status, list, log, canonical, retention."""

import json
import os
import signal
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import OnceTest, steady  # noqa: E402

TIME = r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z"


class Status(OnceTest):
    def test_names(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.ok("publish", "t")
        self.ok("publish", "u", "-q")
        queue, rest = self.ok("status", "--json").lines
        for name in [
            "queue", "topic", "scheduled", "waiting", "running", "retrying", "in_doubt", "completed",
            "dead", "cancelled", "workers", "oldest_waiting_s", "oldest_in_doubt_s",
        ]:  # fmt: skip
            self.assertIn(name, queue)
        self.assertEqual(("q", "t", 1, 0), tuple(queue[n] for n in ("queue", "topic", "waiting", "workers")))
        self.assertIsInstance(queue["oldest_waiting_s"], int)
        self.assertIsNone(queue["oldest_in_doubt_s"])
        self.assertEqual({"unrouted": 1}, rest)
        self.assertIn("1 task unrouted", self.ok("status").out)

    def test_nothing_yet(self):
        self.ok("retention", "--bodies", "7d")
        self.assertEqual({"unrouted": 0}, self.ok("status", "--json").line)
        self.assertIn("once queue add", self.ok("status").out)

    def test_watch_ends_on_int(self):
        self.ok("queue", "add", "q", "--topic", "t")
        watch = self.start("status", "--watch", "--json")
        self.assertEqual(0, json.loads(watch.stdout.readline())["waiting"])
        self.ok("publish", "t")
        self.until(lambda: json.loads(watch.stdout.readline()).get("waiting") == 1, "it looks again")
        watch.send_signal(signal.SIGINT)
        self.assertEqual(0, watch.wait(timeout=60))

    def test_watch_prints_blocks_off_a_terminal(self):
        self.ok("queue", "add", "q", "--topic", "t")
        watch = self.start("status", "--watch")
        block = [watch.stdout.readline(), watch.stdout.readline()]
        self.assertEqual(b"\n", watch.stdout.readline())
        self.assertEqual(block, [watch.stdout.readline(), watch.stdout.readline()])
        self.assertNotIn(b"\x1b", b"".join(block))
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(0, watch.wait(timeout=60))


class List(OnceTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t.>", "--attempts", "1")
        self.ok("queue", "add", "r", "--topic", "t.a")
        for topic in ["a", "b", "c"]:
            self.ok("publish", "t." + topic, "--id", topic)
        program = self.script("judge", '[ $ONCE_ID = a ] && exit; echo "first\nno $ONCE_ID" >&2; exit 1')
        self.drained("work", "q", "-q", "--until-empty", "--", program, exits=1)

    def ids(self, *arguments):
        return sorted((i["queue"], i["id"]) for i in self.ok("list", "--json", *arguments).lines)

    def test_names(self):
        item = self.ok("list", "--json", "--state", "dead", "--topic", "t.b").line
        self.assertEqual(
            ["id", "queue", "key", "sequence", "topic", "state", "attempts", "error", "since"], list(item)
        )
        self.assertEqual(("b", "q", "b", 2, "t.b", "dead", 1), tuple(item.values())[:7])
        self.assertIn("no b", item["error"])
        self.assertRegex(item["since"], TIME)
        self.assertIsNone(self.ok("list", "--json", "--state", "waiting").line["error"])

    def test_filters(self):
        self.assertEqual(4, len(self.ids()))
        self.assertEqual([("r", "a")], self.ids("--queue", "r"))
        self.assertEqual([("q", "b"), ("q", "c")], self.ids("--state", "dead"))
        self.assertEqual([("q", "a"), ("r", "a")], self.ids("--topic", "t.a"))
        self.assertEqual([], self.ids("--since", "2999-01-01"))
        self.assertEqual(4, len(self.ids("--since", "1h")))
        self.assertEqual(4, len(self.ids("--since", "2020-01-01T00:00:00+02:00")))

    def test_limit(self):
        answer = self.ok("list", "--json", "--limit", "2")
        self.assertEqual(2, len(answer.lines))
        self.assertIn("--limit", answer.err)
        self.assertEqual("", self.ok("list", "--limit", "4").err)

    def test_a_terminal_shows_the_last_line_of_an_error_and_a_pipe_all_of_it(self):
        self.assertIn("no b", self.ok("list").out)
        self.assertIn("first", self.ok("list").out)
        self.assertIn("no b", self.terminal("list"))
        self.assertNotIn("first", self.terminal("list"))


class Log(OnceTest):
    def test_names(self):
        self.ok("publish", "t", '{"a":\n[1.50]}', "--id", "a", "--header", "H=1", "-q")
        entry = self.ok("log", "--json").line
        self.assertEqual(
            ["sequence", "id", "topic", "body", "headers", "published_at", "digest"], list(entry)
        )
        self.assertEqual(({"a": [1.5]}, {"H": "1"}), (entry["body"], entry["headers"]))
        self.assertRegex(entry["published_at"], TIME)
        self.assertEqual(entry["digest"], self.ok("inspect", "a", "--json").line["digest"])

    def test_pages_filters_and_limits(self):
        lines = "".join(f'{{"topic":"t.{n % 2}","id":"i{n}"}}\n' for n in range(1, 251))
        self.ok("publish", "--batch", "-", "-q", stdin=lines)
        sequences = lambda *a: [e["sequence"] for e in self.ok("log", "--json", *a).lines]  # noqa: E731
        self.assertEqual(list(range(1, 251)), sequences())
        self.assertEqual(list(range(2, 251, 2)), sequences("t.0"))
        self.assertEqual(list(range(1, 121)), sequences("--limit", "120"))
        self.assertEqual([249, 250], sequences("--after", "248"))
        self.assertEqual([241, 243], sequences("--after", "240", "--limit", "2", "t.1"))
        self.assertEqual([], sequences("other.>"))
        self.refused(2, "log", "a..b")

    def test_follow(self):
        self.ok("publish", "t", "--id", "a", "-q")
        follow = self.start("log", "-f", "--json")
        self.assertEqual("a", json.loads(follow.stdout.readline())["id"])
        self.ok("publish", "t", "1", "--id", "b", "-q")
        self.assertEqual("b", json.loads(follow.stdout.readline())["id"])
        follow.send_signal(signal.SIGINT)
        self.assertEqual(0, follow.wait(timeout=60))

    def test_follow_ends_with_its_limit_and_with_its_reader(self):
        self.ok("publish", "t", "--id", "a", "-q")
        self.assertEqual(1, len(self.ok("log", "-f", "--limit", "1", "--json").lines))
        read, write = os.pipe()
        follow = self.start("log", "-f", stdout=write)
        os.close(write)
        os.read(read, 1)
        os.close(read)
        self.assertEqual(0, follow.wait(timeout=60))

    def test_what_people_see(self):
        self.ok("publish", "t", '{"a": 1}', "--id", "json", "-q")
        self.ok("publish", "t", "hello", "--raw", "--id", "bytes", "-q")
        self.golden("log.txt", steady(self.ok("log").out))


class Canonical(OnceTest):
    def test_forms(self):
        self.assertEqual('{"a":2,"b":1}\n', self.ok("canonical", stdin='{"b":1.0, "a":2}').out)
        self.assertEqual("1e-7\n", self.ok("canonical", "-", stdin="0.0000001\n").out)
        self.folder.joinpath("x.json").write_text("[ -0 ]")
        self.assertEqual("[0]\n", self.ok("canonical", "x.json").out)

    def test_refused(self):
        for text in ["", "{", '{"a":1,"a":1}', "9007199254740993"]:
            self.refused(2, "canonical", stdin=text)
        self.refused(2, "canonical", "missing.json")


class Retention(OnceTest):
    def test_shows_and_sets(self):
        self.ok("publish", "t", "-q")
        self.assertEqual(
            {"bodies": "7d", "records": "30d", "ids": "30d"}, self.ok("retention", "--json").line
        )
        self.ok("retention", "--bodies", "1h30m")
        self.assertEqual(
            {"bodies": "1h30m", "records": "30d", "ids": "30d"}, self.ok("retention", "--json").line
        )
        self.golden("retention.txt", self.ok("retention").out)

    def test_run(self):
        self.ok("publish", "t", "5", "--id", "a", "-q")
        self.ok("work", "q", "-q", "--topic", "t", "--until-empty", "--", "true")
        self.assertEqual(
            {"retired_bodies": 0, "retired_records": 0, "retired_ids": 0},
            self.ok("retention", "--run", "--json").line,
        )
        self.ok("retention", "--bodies", "0s")
        self.until(
            lambda: self.ok("retention", "--run", "--json").line["retired_bodies"] == 1
            or "retired" in self.ok("log", "--json").line,
            "the body is retired",
        )
        entry = self.ok("log", "--json").line
        self.assertEqual((None, True), (entry["body"], entry["retired"]))
        self.assertIn("(retired)", self.ok("inspect", "a").out)
        answer = self.once("publish", "t", "6", "--id", "a", "--json")
        self.assertEqual((3, None), (answer.code, answer.line["differs"]))
        self.assertTrue(self.ok("publish", "t", "5", "--id", "a", "--json").line["duplicate"])


if __name__ == "__main__":
    unittest.main()
