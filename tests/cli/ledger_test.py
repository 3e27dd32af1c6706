#!/usr/bin/env -S python3 -B
"""Ledger-only queues: once claim, renew, complete, fail."""

import subprocess
import sys
import unittest
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import BIN, OnceTest  # noqa: E402


class Ledger(OnceTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "l", "--ledger", "--backoff", "1h", "--attempts", "3")

    def claim(self, key, *arguments):
        return self.ok("claim", "l", key, "--json", *arguments).line

    def token(self, key, *arguments):
        return str(self.claim(key, *arguments)["token"])

    def not_claimed(self, key):
        answer = self.once("claim", "l", key, "--json")
        self.assertEqual((8, ""), (answer.code, answer.err))
        return answer.line

    def state(self, key):
        (queue,) = self.ok("inspect", key, "--json").line["queues"]
        return queue["state"]

    def test_claimed(self):
        first = self.claim("k")
        self.assertEqual(["outcome", "queue", "key", "token", "attempt", "in_doubt", "lease"], list(first))
        self.assertEqual(("claimed", "l", "k", 1, False, "30s"),
                         tuple(first[n] for n in ("outcome", "queue", "key", "attempt", "in_doubt", "lease")))  # fmt: skip
        second = self.claim("j", "--lease", "5m")
        self.assertEqual("5m", second["lease"])
        self.assertGreater(second["token"], first["token"])

    def test_for_a_shell(self):
        out = self.ok("claim", "l", "k").out
        self.assertRegex(out, r"\A\d+\n\Z")
        answer = self.once("claim", "l", "k")
        self.assertEqual((8, ""), (answer.code, answer.out))
        self.assertIn("another holds it", answer.err)
        script = 'token=$("$0" claim l evt) || exit; "$0" complete l evt --token $token --result 5'
        for code in [0, 8]:
            done = subprocess.run(
                ["/bin/sh", "-c", script, BIN], cwd=self.folder, env=self.environment, timeout=60,
                capture_output=True, check=False,
            )  # fmt: skip
            self.assertEqual(code, done.returncode)

    def test_held_though_the_command_has_ended(self):
        self.token("k")
        held = self.not_claimed("k")
        self.assertEqual(("held", "l", "k"), tuple(held[n] for n in ("outcome", "queue", "key")))
        until = datetime.fromisoformat(held["until"].replace("Z", "+00:00"))
        self.assertGreater(until, datetime.now(timezone.utc))

    def test_completed_once(self):
        token = self.token("k")
        done = self.ok("complete", "l", "k", "--token", token, "--result", '{"mails": 2}', "--json").line
        self.assertEqual(
            {"outcome": "completed", "queue": "l", "key": "k", "state": "completed"}, done
        )
        self.ok("complete", "l", "k", "--token", token, "--result", '{"mails": 2}')
        self.assertEqual(
            {"outcome": "completed", "queue": "l", "key": "k", "result": {"mails": 2}}, self.not_claimed("k")
        )
        self.assertIn("completed before", self.once("claim", "l", "k").err)

    def test_results_of_every_kind(self):
        (self.folder / "r.json").write_text("[1]")
        for key, argument, stdin, result in [
            ("text", ["--result", '"x"'], "", "x"), ("file", ["--result", "@r.json"], "", [1]),
            ("stdin", ["--result", "-"], '{"a":1}', {"a": 1}), ("none", [], "", None),
        ]:  # fmt: skip
            self.ok("complete", "l", key, "--token", self.token(key), *argument, stdin=stdin)
            self.assertEqual(result, self.not_claimed(key)["result"])

    def test_failed(self):
        token = self.token("k")
        self.assertEqual("failed", self.ok("fail", "l", "k", "--token", token, "--error", "away", "--json").line["outcome"])
        self.assertEqual("not_due", self.not_claimed("k")["outcome"])
        self.assertIn("until", self.not_claimed("k"))
        self.assertEqual(("retrying", "away"), tuple(
            self.ok("list", "--queue", "l", "--json").line[n] for n in ("state", "error")))  # fmt: skip
        self.assertIn("tried again after", self.once("claim", "l", "k").err)

    def test_tried_again_until_dead(self):
        for attempt in [1, 2, 3]:
            claim = self.claim("k")
            self.assertEqual((attempt, False), (claim["attempt"], claim["in_doubt"]))
            self.ok("fail", "l", "k", "--token", str(claim["token"]), "--error", "away", "--retry-in", "0s")
        dead = self.not_claimed("k")
        self.assertEqual(("dead", "away"), (dead["outcome"], dead["reason"]))
        self.assertEqual("k", self.ok("dead", "list", "--json").line["id"])
        self.assertIn("can be claimed again", self.ok("dead", "retry", "k").out)
        self.assertEqual(4, self.claim("k")["attempt"])

    def test_dead_at_once(self):
        self.ok("fail", "l", "k", "--token", self.token("k"), "--error", "bad", "--dead")
        self.assertEqual("dead", self.not_claimed("k")["outcome"])
        self.assertIn("bad", self.ok("dead", "show", "k").out)
        self.ok("dead", "drop", "k", "--reason", "not ours")
        self.assertEqual("cancelled", self.not_claimed("k")["outcome"])

    def test_fenced(self):
        stale = self.token("k", "--lease", "100ms")
        self.until(lambda: self.once("claim", "l", "k", "--lease", "1h").code == 0, "the lease is over")
        for command in [["renew"], ["complete", "--result", "1"], ["fail", "--error", "x"], ["fail", "--dead"]]:
            with self.subTest(command=command):
                answer = self.once(command[0], "l", "k", "--token", stale, *command[1:], "--json")
                self.assertEqual((1, "fenced"), (answer.code, answer.line["error"]))
        self.assertEqual("running", self.state("k"))

    def test_a_lost_claim_is_in_doubt(self):
        self.token("k", "--lease", "100ms")
        answers = []
        self.until(lambda: answers.append(self.once("claim", "l", "k", "--json")) or answers[-1].code == 0, "a claim")
        self.assertEqual((2, True), tuple(answers[-1].line[n] for n in ("attempt", "in_doubt")))
        self.ok("queue", "set", "l", "--in-doubt", "hold")
        self.token("j", "--lease", "100ms")
        self.until(lambda: self.not_claimed("j")["outcome"] == "in_doubt", "it is held")
        self.assertIn("once doubt", self.once("claim", "l", "j").err)
        self.ok("doubt", "complete", "j", "--result", "3")
        self.assertEqual(3, self.not_claimed("j")["result"])

    def test_renew(self):
        token = self.token("k", "--lease", "1m")
        before = self.not_claimed("k")["until"]
        self.assertEqual("renewed", self.ok("renew", "l", "k", "--token", token, "--lease", "1h", "--json").line["outcome"])
        self.assertGreater(self.not_claimed("k")["until"], before)
        self.assertIn("renewed", self.ok("renew", "l", "k", "--token", token).out)
        self.assertEqual("running", self.state("k"))

    def test_cancelled(self):
        self.ok("fail", "l", "k", "--token", self.token("k"), "--error", "x")
        self.ok("cancel", "k", "--reason", "enough")
        self.assertEqual("cancelled", self.not_claimed("k")["outcome"])

    def test_unknown_and_wrong(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.assertIn("--ledger", self.refused(2, "claim", "q", "k"))
        self.refused(6, "claim", "nope", "k")
        self.refused(6, "complete", "l", "nope", "--token", "1")
        self.refused(2, "claim", "l", "")
        self.refused(2, "claim", "l", "a\nb")
        self.refused(6, "wait", "nope")
        self.token("k")
        self.assertIn("ledger", self.refused(6, "wait", "k"))

    def test_views(self):
        self.token("k")
        item = self.ok("list", "--queue", "l", "--json").line
        self.assertEqual(("k", "k", None, None, "running"),
                         tuple(item[n] for n in ("id", "key", "sequence", "topic", "state")))  # fmt: skip
        self.assertIn("queue l: running", self.ok("inspect", "k").out)
        self.assertIsNone(self.ok("inspect", "k", "--json").line["sequence"])
        status = self.ok("status", "--json").lines[0]
        self.assertEqual((None, 1), (status["topic"], status["running"]))


if __name__ == "__main__":
    unittest.main()
