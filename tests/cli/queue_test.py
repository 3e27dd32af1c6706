#!/usr/bin/env -S python3 -B
"""once queue add, set, list, show, pause, resume, remove."""

import sys
import unittest
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import NATS, OnceTest  # noqa: E402


class Add(OnceTest):
    def test_says_how_many_tasks_it_found(self):
        for n in range(3):
            self.ok("publish", f"orders.{n}", "-q")
        self.ok("publish", "other", "-q")
        self.assertEqual(3, self.ok("queue", "add", "a", "--topic", "orders.*", "--json").line["found"])
        self.assertIn("4 tasks found", self.ok("queue", "add", "b", "--topic", ">").out)
        self.assertIn("1 task found", self.ok("queue", "add", "c", "--topic", "other").out)

    def test_the_same_definition_again_is_fine(self):
        define = ["queue", "add", "q", "--topic", "t.>", "--key", "{a}", "--attempts", "2"]
        self.assertTrue(self.ok(*define, "--json").line["added"])
        self.assertFalse(self.ok(*define, "--json").line["added"])
        self.assertIn("there already", self.ok(*define).out)

    def test_another_definition_is_refused(self):
        self.ok("queue", "add", "q", "--topic", "t")
        for more in [["--lease", "5s"], ["--key", "{a}"], ["--attempts", "9"], ["--from", "7"]]:
            self.refused(2, "queue", "add", "q", "--topic", "t", *more)
        self.refused(2, "queue", "add", "q", "--topic", "u")
        answer = self.once("queue", "add", "q", "--topic", "u", "--json")
        self.assertEqual("queue_mismatch", answer.line["error"])

    def test_a_refusal_names_what_differs_and_the_command_that_changes_it(self):
        self.ok("queue", "add", "q", "--topic", "t", "--lease", "10s")
        said = self.refused(2, "queue", "add", "q", "--topic", "t", "--lease", "1m", "--attempts", "9")
        self.assertIn("lease is 10s, not 1m, attempts is 4, not 9;", said)
        self.assertIn("nothing was changed", said)
        self.assertNotIn("can't be changed", said)
        command = "once queue set q --lease 1m --attempts 9"
        self.assertIn(command, said)
        self.ok(*command.split()[1:])
        self.ok("queue", "add", "q", "--topic", "t", "--lease", "1m", "--attempts", "9")
        for more, differs in [
            (["--key", "{a}"], "key is the task's id, not {a}"), (["--from", "7"], "from is start, not #7"),
            (["--timeout", "5m"], "timeout is 0s, not 5m"), (["--backoff", "1s,2s"], "backoff is 30s,2m,5m, not 1s,2s"),
            (["--in-doubt", "hold"], "in-doubt is retry, not hold"), (["--max-running", "2"], "max-running is 0, not 2"),
            (["--window", "3"], "window is 0, not 3"), (["--same-key", "ignore"], "same-key is duplicate, not ignore"),
        ]:  # fmt: skip
            with self.subTest(more=more):
                said = self.refused(2, "queue", "add", "q", "--topic", "t", "--lease", "1m", "--attempts", "9", *more)
                self.assertIn(differs, said)
                if more[0] in ["--key", "--from"]:
                    self.assertIn("can't be changed", said)
                    self.assertNotIn("queue set", said)
                else:
                    self.assertIn("once queue set q " + " ".join(more), said)
        said = self.refused(2, "queue", "add", "q", "--topic", "u", "--lease", "2m", "--attempts", "9")
        self.assertIn("topic is t, not u", said)
        self.assertIn("The topic of a queue can't be changed", said)
        self.assertIn("once queue set q --lease 2m.", said)

    def test_a_default_is_the_same_as_its_value_and_a_paused_queue_the_same_queue(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.ok("queue", "add", "q", "--topic", "t", "--backoff", "30s,2m,5m", "--attempts", "4")
        self.ok("queue", "pause", "q")
        again = self.ok("queue", "add", "q", "--topic", "t", "--json").line
        self.assertEqual((False, True), (again["added"], again["paused"]))

    def test_every_option(self):
        self.ok(
            "queue", "add", "q", "--topic", "t.>", "--key", "{a}:{$topic}", "--lease", "1m30s",
            "--timeout", "2h", "--attempts", "7", "--backoff", "500ms,1s", "--in-doubt", "retry",
            "--max-running", "3", "--max-result", "1MiB", "--window", "16", "--same-key", "ignore",
            "--from", "5",
        )  # fmt: skip
        self.assertEqual(
            {
                "queue": "q", "topic": "t.>", "key": "{a}:{$topic}", "key_format": "plain", "lease": "1m30s",
                "timeout": "2h", "attempts": 7, "backoff": ["500ms", "1s"], "in_doubt": "retry",
                "max_running": 3, "max_result": 1 << 20, "window": 16, "same_key": "ignore", "from": 5, "paused": False,
                "ledger": False,
                "stream": None,
            },  # fmt: skip
            self.ok("queue", "show", "q", "--json").line,
        )

    @unittest.skipIf(NATS, "about files")
    def test_a_stream_of_others_needs_a_zone_on_nats(self):
        words = ["queue", "add", "q", "--stream", "ORDERS", "--key", "header:Nats-Msg-Id"]
        self.assertIn("zone on NATS JetStream", self.refused(2, *words))
        self.assertIn("say by --key", self.refused(2, *words[:5]))
        self.assertIn("--from", self.refused(2, *words, "--from", "now"))
        self.assertIn("NATS JetStream", self.refused(2, "work", *words[2:], "--", "true"))
        self.assertEqual([], self.ok("queue", "list", "--json").lines)

    def test_attempts_default_to_backoff_values_and_one(self):
        self.ok("queue", "add", "a", "--topic", "t")
        self.ok("queue", "add", "b", "--topic", "t", "--backoff", "1s")
        self.assertEqual([4, 2], [q["attempts"] for q in self.ok("queue", "list", "--json").lines])

    def test_what_is_refused(self):
        for more in [
            ["--lease", "0s"], ["--lease", "30"], ["--timeout", "x"], ["--attempts", "0"],
            ["--backoff", ""], ["--backoff", "1s,,2s"], ["--backoff", "1s,"], ["--same-key", "maybe"],
            ["--max-running", "-1"], ["--key", "{unclosed"], ["--from", "0"], ["--from", "someday"],
            ["--from", "2999-01-01T00:00:00Z"], ["--topic", "a..b"], ["--in-doubt", "maybe"],
            ["--in-doubt", ""], ["--ledger"],
        ]:  # fmt: skip
            with self.subTest(more=more):
                topic = [] if more[0] == "--topic" else ["--topic", "t"]
                self.refused(2, "queue", "add", "q", *topic, *more)
        for name in ["", "a b", "a.b", "x" * 65]:
            self.refused(2, "queue", "add", name, "--topic", "t")


    def test_policies(self):
        for policy in ["retry", "steps", "probe", "hold"]:
            self.ok("queue", "add", policy, "--topic", "t", "--in-doubt", policy)
            self.assertEqual(policy, self.ok("queue", "show", policy, "--json").line["in_doubt"])
        self.assertIn("probe", self.ok("queue", "list").out)

    def test_a_ledger_only_queue(self):
        added = self.ok("queue", "add", "l", "--ledger", "--lease", "1m", "--in-doubt", "hold", "--json").line
        self.assertEqual((None, True, 0), tuple(added[n] for n in ("topic", "ledger", "found")))
        self.assertIn("once claim m KEY", self.ok("queue", "add", "m", "--ledger").out)
        self.assertIn("there already", self.ok("queue", "add", "m", "--ledger").out)
        for more in [
            ["--key", "{a}"], ["--from", "now"], ["--max-running", "2"], ["--window", "2"],
            ["--in-doubt", "steps"], ["--in-doubt", "probe"], ["--topic", "t"],
        ]:  # fmt: skip
            with self.subTest(more=more):
                self.refused(2, "queue", "add", "n", "--ledger", *more)
        self.assertIn("once claim", self.refused(2, "work", "l", "--", "true"))
        for arguments in [["queue", "list"], ["queue", "show", "l"], ["status"]]:
            self.assertIn("ledger", self.ok(*arguments).out)


class Set(OnceTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t", "--lease", "1m", "--timeout", "5m")

    def shown(self):
        return self.ok("queue", "show", "q", "--json").line

    def test_only_what_is_given_changes(self):
        before = self.shown()
        said = self.ok("queue", "set", "q", "--attempts", "9", "--in-doubt", "hold").out
        self.assertEqual("queue q: attempts 9 (was 4), in doubt hold (was retry)\n", said)
        self.assertEqual({**before, "attempts": 9, "in_doubt": "hold"}, self.shown())
        self.assertFalse(self.ok("queue", "set", "q", "--attempts", "9", "--json").line["changed"])
        changed = self.ok(
            "queue", "set", "q", "--timeout", "0", "--backoff", "1s,2s", "--max-running", "2",
            "--window", "3", "--in-doubt", "retry", "--same-key", "ignore", "--lease", "2m", "--json",
        ).line  # fmt: skip
        self.assertEqual({**self.shown(), "changed": True}, changed)
        self.assertEqual((None, ["1s", "2s"], 2, 3, "ignore", "2m"), tuple(
            changed[n] for n in ("timeout", "backoff", "max_running", "window", "same_key", "lease")))  # fmt: skip

    def test_the_definition_that_was_set_is_the_one_to_add(self):
        self.ok("queue", "set", "q", "--attempts", "9")
        self.refused(2, "queue", "add", "q", "--topic", "t", "--lease", "1m", "--timeout", "5m")
        self.ok("queue", "add", "q", "--topic", "t", "--lease", "1m", "--timeout", "5m", "--attempts", "9")

    def test_what_is_fixed(self):
        before = self.shown()
        for more in [["--topic", "u"], ["--key", "{a}"], ["--from", "now"], ["--ledger"],
                     ["--stream", "S"]]:
            with self.subTest(more=more):
                message = self.refused(2, "queue", "set", "q", "--lease", "9m", *more)
                self.assertIn(f"{more[0]} can't be changed", message)
        self.assertEqual(before, self.shown())
        self.assertNotIn("--topic", self.ok("queue", "set", "--help").out)

    def test_what_is_refused(self):
        for more in [
            ["--lease", "0s"], ["--lease", "1ms"], ["--timeout", "x"], ["--attempts", "0"], ["--backoff", "1"],
            ["--in-doubt", "maybe"], ["--same-key", "x"], ["--max-running", "99999"], ["--window", "-1"],
        ]:  # fmt: skip
            with self.subTest(more=more):
                self.refused(2, "queue", "set", "q", *more)
        self.refused(6, "queue", "set", "nope", "--lease", "1m")

    def test_pause_and_resume(self):
        self.ok("queue", "add", "r", "--topic", "u")
        self.ok("publish", "t", "--id", "a")
        answer = self.once("queue", "pause", "q", "nope", "r", "--json")
        self.assertEqual(6, answer.code)
        self.assertEqual({"queue": "q", "paused": True}, answer.lines[0])
        self.assertEqual(("nope", "not_found"), tuple(answer.lines[1][n] for n in ("queue", "error")))
        self.assertEqual({"queue": "r", "paused": True}, answer.lines[2])
        self.assertIn("q (paused)", self.ok("status").out)
        self.assertIn("q (paused)", self.ok("queue", "list").out)
        self.assertTrue(self.ok("status", "--json").lines[0]["paused"])
        self.assertTrue(self.shown()["paused"])
        self.ok("queue", "pause", "q")
        # Nothing is claimed until it is resumed; the worker that waits then finds the task.
        worker = self.start("work", "q", "--", self.script("mark", "touch ran"))
        self.until(lambda: self.ok("status", "--json").lines[0]["workers"] == 1, "the worker is there")
        self.assertEqual("waiting", self.ok("list", "--queue", "q", "--json").line["state"])
        self.assertFalse((self.folder / "ran").exists())
        self.assertIn("resumed", self.ok("queue", "resume", "q").out)
        self.ok("wait", "a")
        worker.terminate()
        worker.wait(timeout=60)
        self.assertFalse(self.shown()["paused"])


class From(OnceTest):
    def setUp(self):
        super().setUp()
        for n in range(5):
            self.ok("publish", "t", str(n), "-q")

    def found(self, name, *where):
        return self.ok("queue", "add", name, "--topic", "t", *where, "--json").line["found"]

    def test_places(self):
        self.assertEqual(5, self.found("a"))
        self.assertEqual(5, self.found("b", "--from", "start"))
        self.assertEqual(3, self.found("c", "--from", "3"))
        self.assertEqual(0, self.found("d", "--from", "now"))
        self.assertEqual(6, self.ok("queue", "show", "d", "--json").line["from"])
        self.ok("publish", "t", "5")
        waiting = {q["queue"]: q["waiting"] for q in self.ok("status", "--json").lines[:-1]}
        self.assertEqual({"a": 6, "b": 6, "c": 4, "d": 1}, waiting)

    def test_now_on_an_empty_log(self):
        define = ["queue", "add", "q", "--topic", "t", "--from", "now", "--store", "new.db", "--json"]
        self.assertEqual((1, 0), tuple(self.ok(*define).line[n] for n in ("from", "found")))

    def test_now_again_is_the_same_definition(self):
        self.found("q", "--from", "now")
        self.ok("publish", "t", "5")
        self.assertEqual(0, self.found("q", "--from", "now"))
        self.assertEqual(6, self.ok("queue", "show", "q", "--json").line["from"])
        self.refused(2, "queue", "add", "q", "--topic", "t", "--from", "start")

    def test_times(self):
        entries = self.ok("log", "--json").lines
        # Milliseconds tell the entries apart only when the clock went on between them.
        self.until(lambda: datetime.now(timezone.utc).isoformat() > entries[-1]["published_at"], "a later time")
        time_after = (datetime.now(timezone.utc)).isoformat(timespec="milliseconds")
        self.assertEqual(5, self.found("a", "--from", "2020-01-01"))
        self.assertEqual(5, self.found("b", "--from", entries[0]["published_at"]))
        self.assertEqual(0, self.found("c", "--from", time_after))
        later = [e for e in entries if e["published_at"] >= entries[3]["published_at"]]
        self.assertEqual(len(later), self.found("d", "--from", entries[3]["published_at"]))
        two_hours_east = timezone(timedelta(hours=2))
        moment = datetime.fromisoformat(entries[0]["published_at"].replace("Z", "+00:00"))
        same = moment.astimezone(two_hours_east).isoformat(timespec="milliseconds")
        self.assertEqual(5, self.found("e", "--from", same))


class Rest(OnceTest):
    def test_remove(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.ok("publish", "t", "--id", "a")
        self.assertIn("--force", self.refused(2, "queue", "remove", "q"))
        answer = self.ok("queue", "remove", "q", "--force", "--json").line
        self.assertEqual({"queue": "q", "removed": True}, answer)
        self.refused(6, "queue", "remove", "q")
        self.assertEqual({"unrouted": 1}, self.ok("status", "--json").line)
        self.ok("queue", "add", "empty", "--topic", "u")
        self.ok("queue", "remove", "empty")

    def test_unknown(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.refused(6, "queue", "show", "nope")
        self.refused(6, "work", "nope", "--", "true")
        self.refused(6, "list", "--queue", "nope")

    def test_what_people_see(self):
        self.ok("publish", "orders.new", "-q")
        said = ""
        for command in [
            "queue add billing --topic orders.> --key {order.id} --timeout 5m --max-running 2",
            "queue add audit --topic >",
            "queue add audit --topic >",
            "queue list",
            "queue show billing",
            "queue remove audit --force",
        ]:
            said += f"$ once {command}\n{self.ok(*command.split()).out}"
        self.golden("queue.txt", said)


if __name__ == "__main__":
    unittest.main()
