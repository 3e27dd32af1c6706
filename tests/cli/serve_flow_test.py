#!/usr/bin/env -S python3 -B
"""Workflows over HTTP: definitions, runs, and what people say to runs."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from serve_test import ServeTest  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent / "support"))
from flow_command import PAYMENT, REVIEW  # noqa: E402

BY = {"who": "ada", "why": "a test"}


class FlowsTest(ServeTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "pay", "--topic", "pay.>", "--attempts", "1")
        self.serve()

    def add(self, definition, status=201):
        reply = self.ask("PUT", f"/v1/flows/{definition['name']}", definition)
        self.assertEqual(status, reply.status, reply.text)
        return reply.json

    def begin(self, workflow, input, query="", status=201):
        reply = self.ask("POST", f"/v1/flows/{workflow}:start{query}", input)
        self.assertEqual(status, reply.status, reply.text)
        return reply.json

    def say(self, path, body=None, status=200):
        reply = self.ask("POST", path, body if body is not None else BY)
        self.assertEqual(status, reply.status, reply.text)
        return reply.json

    def drive(self):
        self.ok("flow", "work", "-q", "--until-empty")


class Definitions(FlowsTest):
    def test_add_list_and_show(self):
        self.assertEqual({"workflow": "payment", "version": 1, "added": True, "steps": 2}, self.add(PAYMENT))
        self.assertFalse(self.add(PAYMENT, 200)["added"])
        self.add({**PAYMENT, "version": 2})
        self.assertEqual(self.ok("flow", "list", "--json").lines, self.get("/v1/flows")["flows"])
        self.assertEqual(2, self.get("/v1/flows/payment")["version"])
        self.assertEqual(self.ok("flow", "export", "payment@1").line, self.get("/v1/flows/payment?version=1"))
        self.problem(404, "not_found", self.ask("GET", "/v1/flows/none"))
        self.problem(404, "not_found", self.ask("GET", "/v1/flows/payment?version=3"))
        self.problem(400, "invalid_input", self.ask("GET", "/v1/flows/payment?version=0"))

    def test_a_version_does_not_change(self):
        self.add(PAYMENT)
        other = {**PAYMENT, "timeout": "1h"}
        self.problem(422, "conflicting_duplicate", self.ask("PUT", "/v1/flows/payment", other))
        self.assertNotIn("timeout", self.get("/v1/flows/payment"))

    def test_a_bad_definition_adds_nothing(self):
        for name, body in [("payment", {}), ("payment", {**PAYMENT, "steps": []}), ("payment", "nonsense"), ("other", PAYMENT)]:
            with self.subTest(name=name, body=body):
                self.problem(400, "invalid_input", self.ask("PUT", f"/v1/flows/{name}", body, "application/json"
                                                            if isinstance(body, str) else None))  # fmt: skip
        self.assertEqual([], self.get("/v1/flows")["flows"])


class Runs(FlowsTest):
    def test_a_run_has_one_start_per_key(self):
        self.add(PAYMENT)
        order = {"order": {"id": 17, "total": 500}}
        first = self.ask("POST", "/v1/flows/payment:start", order)
        self.assertEqual((201, None, False), (first.status, first.headers["Once-Duplicate"], first.json["duplicate"]))
        again = self.ask("POST", "/v1/flows/payment:start", order)
        self.assertEqual((200, "true", first.json["run"]), (again.status, again.headers["Once-Duplicate"], again.json["run"]))
        other = {"order": {"id": 17, "total": 600}}
        conflict = self.problem(422, "conflicting_duplicate", self.ask("POST", "/v1/flows/payment:start", other))
        self.assertEqual((first.json["run"], ["$.order.total"]), (conflict["run"], conflict["differs"]))
        unique = self.begin("payment", other, "?unique=true&version=1")
        self.assertNotEqual(first.json["run"], unique["run"])
        self.problem(404, "not_found", self.ask("POST", "/v1/flows/none:start", {}))
        self.problem(400, "invalid_input", self.ask("POST", "/v1/flows/payment:start", "{", "application/json"))
        keyed = self.ask("POST", "/v1/flows/payment:start", order, Idempotency_Key="k")
        self.assertIn("comes from its input", self.problem(400, "invalid_input", keyed)["detail"])
        self.assertEqual(2, len(self.get("/v1/runs")["runs"]))

    def test_the_same_json_as_the_command(self):
        self.add(PAYMENT)
        run = self.begin("payment", {"order": {"id": 1, "total": 5}})["run"]
        worker = self.start("work", "pay", "--", self.script("pay", 'echo \'{"paid":true}\''))
        self.drive()
        worker.terminate()
        worker.wait(timeout=30)
        view = self.get(f"/v1/runs/{run}")
        self.assertEqual(("completed", {"paid": True}), (view["state"], view["output"]))
        self.assertEqual(self.ok("flow", "show", run, "--json").line, view)
        self.assertEqual(self.ok("flow", "runs", "--json").lines, self.get("/v1/runs")["runs"])
        events = self.get(f"/v1/runs/{run}/events")["events"]
        self.assertEqual(self.ok("flow", "events", run, "--json").lines, events)
        past = self.get(f"/v1/runs/{run}?at={events[0]['sequence']}")
        self.assertEqual(("running", 0), (past["state"], past["steps_done"]))
        self.assertEqual(self.ok("flow", "show", run, "--at", str(events[0]["sequence"]), "--json").line, past)
        for path in ["/v1/runs/none", "/v1/runs/none/events"]:
            self.problem(404, "not_found", self.ask("GET", path))

    def test_lists(self):
        self.add(REVIEW)
        runs = [self.begin("review", {"paper": n})["run"] for n in range(5)]
        self.drive_until_waiting(runs)
        found, after = [], ""
        while after is not None:
            page = self.get(f"/v1/runs?workflow=review&state=waiting&limit=2{after and '&after=' + after}")
            found += [run["run"] for run in page["runs"]]
            after = page["after"]
        self.assertEqual(runs[::-1], found)
        self.assertEqual([runs[3]], [run["run"] for run in self.get("/v1/runs?workflow=review&key=3")["runs"]])
        self.assertEqual([], self.get("/v1/runs?state=failed&since=1h&version=1")["runs"])
        for query in ["state=done", "since=x", "limit=0", "version=x", "wrong=1"]:
            self.problem(400, "invalid_input", self.ask("GET", "/v1/runs?" + query))

    def drive_until_waiting(self, runs):
        runner = self.start("flow", "work", "-q")
        self.until(lambda: len(self.get("/v1/runs?state=waiting")["runs"]) == len(runs), "every run waits")
        runner.terminate()
        runner.wait(timeout=30)


class Saying(FlowsTest):
    def setUp(self):
        super().setUp()
        self.add(REVIEW)
        self.run_id = self.begin("review", {"paper": 1})["run"]
        self.path = f"/v1/runs/{self.run_id}"
        self.runner = self.start("flow", "work", "-q")

    def until_state(self, state):
        self.until(lambda: self.get(self.path)["state"] == state, f"the run is {state}")

    def until_step(self, step, state):
        def reached():
            return state in [each["state"] for each in self.get(self.path)["steps"] if each["step"] == step]

        self.until(reached, f"{step} is {state}")

    def test_approve_and_signal(self):
        self.until_step("read", "waiting")
        paid = {"id": "transfer-1", "body": {"amount": 5}, "who": "bank"}
        sent = self.say(self.path + "/signals/paid", paid, 201)
        self.assertEqual(("counts", False, "transfer-1", "bank"),
                         (sent["result"], sent["duplicate"], sent["counts"], sent["first"]["by"]))  # fmt: skip
        self.assertTrue(self.say(self.path + "/signals/paid", paid)["duplicate"])
        self.problem(422, "conflicting_duplicate", self.ask("POST", self.path + "/signals/paid", {**paid, "body": 1}))
        other = self.ask("POST", self.path + "/signals/paid", {**paid, "id": "transfer-2"})
        self.assertIn("transfer-1", self.problem(409, "wrong_state", other)["detail"])
        verdict = self.say(self.path + "/steps/read:approve")
        self.assertEqual((self.run_id, "read", "approved", False, "ada"),
                         tuple(verdict[name] for name in ["run", "step", "outcome", "duplicate", "by"]))  # fmt: skip
        self.assertTrue(self.say(self.path + "/steps/read:approve")["duplicate"])
        self.problem(422, "conflicting_duplicate", self.ask("POST", self.path + "/steps/read:reject", BY))
        self.until_state("completed")

    def test_reject_and_retry(self):
        self.until_step("read", "waiting")
        self.assertEqual("rejected", self.say(self.path + "/steps/read:reject")["outcome"])
        self.until_state("failed")
        retried = self.say(self.path + ":retry")
        self.assertEqual((self.run_id, 2, ["read"]), (retried["run"], retried["round"], retried["steps"]))
        self.until_step("read", "waiting")
        self.assertEqual(2, self.get(self.path)["round"])

    def test_a_failed_run_is_closed(self):
        self.until_step("read", "waiting")
        self.say(self.path + "/steps/read:reject")
        self.until_state("failed")
        self.assertEqual({"run": self.run_id, "outcome": "closed"}, self.say(self.path + ":cancel"))
        self.until(lambda: self.get(self.path)["closed"], "the run is closed")
        self.problem(409, "wrong_state", self.ask("POST", self.path + ":retry", BY))

    def test_cancel(self):
        self.until_step("read", "waiting")
        self.problem(409, "wrong_state", self.ask("POST", self.path + ":retry", BY))
        self.assertEqual({"run": self.run_id, "outcome": "asked"}, self.say(self.path + ":cancel"))
        self.until_state("cancelled")
        self.assertEqual("cancelled", self.say(self.path + ":cancel")["outcome"])

    def test_bad_input_says_nothing(self):
        self.until_step("read", "waiting")
        for path, body in [(":cancel", {}), (":cancel", {"who": ""}), (":retry", {"who": 1}), ("/steps/read:approve", {"why": "x"}),
                           ("/signals/paid", {}), ("/signals/paid", {"id": ""}), ("/signals/paid", {"id": "a", "x": 1})]:  # fmt: skip
            with self.subTest(path=path, body=body):
                self.problem(400, "invalid_input", self.ask("POST", self.path + path, body))
        self.problem(404, "not_found", self.ask("POST", "/v1/runs/none:cancel", BY))
        self.problem(404, "not_found", self.ask("POST", "/v1/runs/none/signals/paid", {"id": "a"}))
        self.problem(404, "not_found", self.ask("POST", self.path + "/steps/none:approve", BY))
        self.assertEqual("waiting", self.get(self.path)["state"])


if __name__ == "__main__":
    unittest.main()
