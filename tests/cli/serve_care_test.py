#!/usr/bin/env -S python3 -B
"""Looking after a zone over HTTP: retention, audit and doctor."""

import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from serve_test import ServeTest  # noqa: E402


class Care(ServeTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t", "--attempts", "1", "--in-doubt", "hold")
        self.serve()

    def test_retention(self):
        self.assertEqual({"bodies": "7d", "records": "30d", "ids": "30d"}, self.get("/v1/retention"))
        changed = self.ask("PUT", "/v1/retention", {"bodies": "3d", "ids": "90d"})
        self.assertEqual((200, {"bodies": "3d", "records": "30d", "ids": "90d"}), (changed.status, changed.json))
        self.assertEqual(changed.json, self.get("/v1/retention"))
        self.assertEqual(changed.json, self.ok("retention", "--json").line)

    def test_bad_input_leaves_the_retention_alone(self):
        for body in [{}, {"bodies": 3}, {"bodies": "soon"}, {"bodies": "1d", "wrong": "1d"}, {"bodies": "1d", "ids": "x"}, []]:
            with self.subTest(body=body):
                self.problem(400, "invalid_input", self.ask("PUT", "/v1/retention", body))
        self.problem(415, "invalid_input", self.ask("PUT", "/v1/retention", '{"bodies":"1d"}', "text/plain"))
        self.assertEqual("7d", self.get("/v1/retention")["bodies"])

    def test_audit_as_the_command_prints_it(self):
        for n in range(3):
            self.publish("t", {"n": n}, f"n{n}")
        self.publish("t", {"n": 0}, "n0", status=200)
        self.publish("nobody", {}, "u")
        self.work("q", "exit 1")
        for query, options in [("", []), ("?by=month", ["--by", "month"]), ("?queue=q&deep=true", ["--queue", "q", "--deep"]),
                               ("?since=1h&cost_per_run=3.50", ["--since", "1h", "--cost-per-run", "3.50"])]:  # fmt: skip
            with self.subTest(query=query):
                *lines, found = self.ok("audit", *options, "--json").lines
                self.assertEqual({"lines": lines, **found}, self.get("/v1/audit" + query))
        (line,) = self.get("/v1/audit?queue=q&cost_per_run=2")["lines"]
        self.assertEqual((3, 3, 1, 2), (line["published"], line["dead"], line["duplicates_at_append"], line["cost_prevented"]))
        for query in ["?by=week", "?since=x", "?deep=1", "?cost_per_run=-1", "?x=1"]:
            self.problem(400, "invalid_input", self.ask("GET", "/v1/audit" + query))
        self.problem(404, "not_found", self.ask("GET", "/v1/audit?queue=none"))

    def test_one_audit_at_a_time(self):
        lines = "".join('{"topic":"t","id":"n%d"}\n' % n for n in range(20_000))
        self.assertEqual(200, self.ask("POST", "/v1/tasks:batch", lines, "application/x-ndjson").status)
        replies, stop = [], threading.Event()

        def audit():
            while not stop.is_set():
                replies.append(self.ask("GET", "/v1/audit?deep=true"))

        auditors = [threading.Thread(target=audit) for _ in range(20)]  # more than the pool has threads
        for auditor in auditors:
            auditor.start()
        try:
            self.until(lambda: {200, 429} <= {reply.status for reply in replies}, "an audit, and one that is refused")
            self.assertEqual({"ready": True}, self.get("/readyz"))
        finally:
            stop.set()
            for auditor in auditors:
                auditor.join()
        self.assertEqual({200, 429}, {reply.status for reply in replies})
        busy = next(reply for reply in replies if reply.status == 429)
        self.assertEqual((True, "1"), (self.problem(429, "overloaded", busy)["retryable"], busy.headers["Retry-After"]))
        self.assertEqual(20_000, self.get("/v1/audit?queue=q")["lines"][0]["waiting"])

    def test_doctor_as_the_command_prints_it(self):
        self.publish("t", {}, "a")
        self.work("q", "exit 74")
        served = self.get("/v1/doctor?queue=q")
        codes = [finding["finding"] for finding in served["findings"]]
        self.assertIn("in_doubt", codes)
        *findings, last = self.once("doctor", "--queue", "q", "--json").lines
        named = {finding["finding"]: finding for finding in findings}
        doubt = served["findings"][codes.index("in_doubt")]
        self.assertEqual(list(named["in_doubt"]), list(doubt))
        self.assertEqual(named["in_doubt"]["fix"], doubt["fix"])
        self.assertEqual((["findings", "checked", "window"], last["window"]), (list(served), served["window"]))
        self.assertTrue(self.get("/v1/doctor?deep=true")["checked"])
        self.problem(404, "not_found", self.ask("GET", "/v1/doctor?queue=none"))
        self.problem(400, "invalid_input", self.ask("GET", "/v1/doctor?deep=yes"))


if __name__ == "__main__":
    unittest.main()
