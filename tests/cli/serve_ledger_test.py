#!/usr/bin/env -S python3 -B
"""Keys of a ledger-only queue over HTTP."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from serve_test import ServeTest  # noqa: E402

KEY = "/v1/queues/webhooks/keys/evt_17"


class Keys(ServeTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "webhooks", "--ledger", "--attempts", "2")
        self.ok("queue", "add", "q", "--topic", "t")
        self.serve()

    def say(self, act, status=200, **fields):
        reply = self.ask("POST", f"{KEY}:{act}", fields)
        self.assertEqual(status, reply.status, reply.text)
        return reply.json

    def test_a_key_is_claimed_once_and_remembered(self):
        claim = self.say("claim", nonce="n1", worker="loop", lease="20s")
        self.assertEqual(["outcome", "queue", "key", "token", "attempt", "in_doubt", "lease"], list(claim))
        self.assertEqual(("claimed", "evt_17", 1, "20s"), tuple(claim[name] for name in ["outcome", "key", "attempt", "lease"]))
        self.assertEqual(claim["token"], self.say("claim", nonce="n1")["token"])  # the answer was lost
        held = self.say("claim", nonce="n2")
        self.assertEqual(["outcome", "queue", "key", "until"], list(held))
        self.assertEqual("held", held["outcome"])
        self.assertEqual("renewed", self.say("renew", token=claim["token"], lease="30s")["outcome"])
        done = {"outcome": "completed", "queue": "webhooks", "key": "evt_17", "state": "completed"}
        for _ in range(2):
            self.assertEqual(done, self.say("complete", token=claim["token"], result={"mails": 2}))
        known = {"outcome": "completed", "queue": "webhooks", "key": "evt_17", "result": {"mails": 2}}
        self.assertEqual(known, self.say("claim", nonce="n3"))
        self.assertEqual(known, self.once("claim", "webhooks", "evt_17", "--json").line)
        self.problem(409, "fenced", self.ask("POST", KEY + ":renew", {"token": claim["token"]}))

    def test_failures(self):
        token = self.say("claim", nonce="n1")["token"]
        self.assertEqual("retrying", self.say("fail", token=token, why="no", retry_in="1h")["state"])
        self.assertEqual("not_due", self.say("claim", nonce="n2")["outcome"])
        self.ok("dead", "list")
        other = self.ask("POST", "/v1/queues/webhooks/keys/other:claim", {"nonce": "n"}).json["token"]
        dead = self.ask("POST", "/v1/queues/webhooks/keys/other:dead", {"token": other, "why": "never"}).json
        self.assertEqual(("dead", "dead"), (dead["outcome"], dead["state"]))
        again = self.ask("POST", "/v1/queues/webhooks/keys/other:claim", {"nonce": "n"}).json
        self.assertEqual(("dead", "never"), (again["outcome"], again["reason"]))

    def test_a_stranger_records_nothing(self):
        token = self.say("claim", nonce="n1")["token"]
        for act in ["renew", "complete", "fail", "dead"]:
            self.problem(409, "fenced", self.ask("POST", f"{KEY}:{act}", {"token": token + 1}))
            self.problem(404, "not_found", self.ask("POST", f"/v1/queues/webhooks/keys/none:{act}", {"token": 1}))
        self.assertEqual("held", self.say("claim", nonce="n2")["outcome"])

    def test_bad_input(self):
        for act, body in [("claim", {}), ("claim", {"nonce": ""}), ("claim", {"nonce": 1}), ("claim", {"nonce": "n", "lease": "x"}),
                          ("complete", {}), ("complete", {"token": "1"}), ("fail", {"token": 1, "result": 1}), ("renew", {"x": 1})]:  # fmt: skip
            with self.subTest(act=act, body=body):
                self.problem(400, "invalid_input", self.ask("POST", f"{KEY}:{act}", body))
        self.problem(404, "not_found", self.ask("POST", "/v1/queues/none/keys/a:claim", {"nonce": "n"}))
        wrong = self.problem(400, "invalid_input", self.ask("POST", "/v1/queues/q/keys/a:claim", {"nonce": "n"}))
        self.assertEqual("queue_is_not_ledger_only", wrong["reason"])


if __name__ == "__main__":
    unittest.main()
