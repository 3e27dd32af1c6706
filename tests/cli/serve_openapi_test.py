#!/usr/bin/env -S python3 -B
"""/openapi.json of once serve. The other tests of the server compare every answer with it, too."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from serve_test import NDJSON, ROOT, ServeTest  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent / "support"))
from flow_command import REVIEW  # noqa: E402
from once_command import NATS  # noqa: E402
from openapi import Document  # noqa: E402

PACKAGES = ROOT / "build" / "openapi-js" / "node_modules"
TOOLS = Path(__file__).parent / "support" / "openapi_tools"

# A program that uses the types: a wrong field of a request or an answer must not compile.
PROGRAM = """
import type { components, operations, paths } from "./once";
type Task = components["schemas"]["Task"];
const offer: paths["/v1/queues/{queue}/claims"]["post"]["requestBody"] = {
  content: { "application/json": { worker: "w", max: 1 } } };
export const states = (task: Task): string[] => task.queues.map((queue) => queue.state);
export type Published = operations["publish"]["responses"][201]["content"]["application/json"];
export const sequence = (receipt: Published): number => receipt.sequence;
// @ts-expect-error
export const wrong = (task: Task) => task.no_such_field;
"""


class Tour(ServeTest):
    """Every operation of the document answers as the document says."""

    def setUp(self):
        super().setUp()
        self.serve()
        self.seen = set()

    def ask(self, method, path, *arguments, **more):
        reply = super().ask(method, path, *arguments, **more)  # compares the reply with the document
        if reply.status < 400:
            self.seen.add(self.document.operation(method, path)["operationId"])
        return reply

    def post(self, path, body=None, status=200):
        reply = self.ask("POST", path, body)
        self.assertEqual(status, reply.status, reply.text)
        return reply.json

    def test_every_operation(self):
        self.document = Document({"paths": {"/openapi.json": {"get": {"operationId": "openapi"}}}})
        self.document = Document(self.get("/openapi.json"))
        self.queues()
        self.tasks()
        self.keys()
        self.claims()
        self.workflows()
        self.zone()
        everything = {route[3]["operationId"] for route in self.document.routes}
        self.assertEqual(set(), everything - self.seen)

    def queues(self):
        self.assertEqual(201, self.ask("PUT", "/v1/queues/q", {"topic": "t", "attempts": 1, "in_doubt": "hold"}).status)
        self.assertEqual(200, self.ask("PATCH", "/v1/queues/q", {"attempts": 2, "backoff": ["1s"], "lease": "20s"}).status)
        self.post("/v1/queues/q:pause")
        self.post("/v1/queues/q:resume")
        self.get("/v1/queues")
        self.get("/v1/queues/q")
        self.ask("PUT", "/v1/queues/gone", {"topic": "gone", "from": "start", "same_key": "ignore"})
        self.assertEqual(200, self.ask("DELETE", "/v1/queues/gone?force=true").status)

    def tasks(self):
        self.publish("t", {"n": 1}, "a")
        self.publish("t", {"n": 1}, "a", status=200)
        for id in "bcde":
            self.publish("t", {"n": 1}, id)
        lines = '{"topic":"t","id":"f","headers":{"a":"b"}}\n{"topic":"t","id":"a"}\nnonsense\n'
        self.assertEqual(200, self.ask("POST", "/v1/tasks:batch", lines, NDJSON).status)
        self.ask("POST", "/v1/topics/other?id=g&delay=1h&expires=2h", b"\0\xff", "application/octet-stream")
        self.post("/v1/tasks/a:cancel", {"who": "ada", "why": "a test"})
        self.work("q", "exit 74")
        self.post("/v1/tasks/b:retry", {"who": "ada"})
        self.post("/v1/tasks/c:complete", {"who": "ada", "result": [1]})
        self.post("/v1/tasks/d:drop", {"who": "ada"})
        self.post("/v1/tasks:act", {"who": "ada", "act": "retry", "queue": "q", "dry_run": True})
        for id in "abcdefg":
            self.get(f"/v1/tasks/{id}")
        self.get("/v1/tasks?limit=2")
        self.get("/v1/log?topic=t&limit=2")
        self.get("/v1/tasks/c/result")
        self.get("/v1/tasks/b/result", 202)

    def keys(self):
        self.ask("PUT", "/v1/queues/ledger", {"ledger": True})
        for n, (act, fields) in enumerate([("complete", {"result": 1}), ("fail", {"why": "no", "retry_in": "1h"}), ("dead", {})]):
            key = f"/v1/queues/ledger/keys/k{n}"
            token = self.post(key + ":claim", {"nonce": "n", "worker": "w", "lease": "20s"})["token"]
            self.post(key + ":claim", {"nonce": "other"})
            self.post(key + ":renew", {"token": token, "lease": "30s"})
            self.post(f"{key}:{act}", {"token": token, **fields})
            self.post(key + ":claim", {"nonce": "third"})

    def claims(self):
        self.ask("PUT", "/v1/queues/w", {"topic": "w"})
        for n in range(8):
            self.publish("w", {"n": n}, f"w{n}")
        offers = self.post("/v1/queues/w/claims", {"worker": "w", "max": 8, "wait": "5s"})["claims"]
        claims = [offer["claim"] for offer in offers]
        self.post("/v1/claims:start", {"claims": [*claims[:6], "nonsense"]})
        self.post("/v1/claims:renew", {"claims": [*claims, "nonsense"]})
        for step, end in [("one", "end"), ("two", "fail"), ("three", "hold")]:
            self.post(f"/v1/claims/{claims[0]}/steps/{step}:begin", {"call": "c", "in_doubt": "hold"})
            self.post(f"/v1/claims/{claims[0]}/steps/{step}:{end}", {"call": "c"})
        self.post(f"/v1/claims/{claims[1]}:complete", {"result": {"n": 1}})
        self.post(f"/v1/claims/{claims[2]}:fail", {"why": "no", "retry_in": "1h"})
        self.post(f"/v1/claims/{claims[3]}:dead", {"why": "never"})
        self.post(f"/v1/claims/{claims[4]}:unknown", {"why": "who knows"})
        self.post(f"/v1/claims/{claims[7]}:release")
        settlements = [{"claim": claims[5], "outcome": "completed", "result": 1}, {"claim": claims[1], "outcome": "dead"}]
        self.post("/v1/claims:settle", {"claims": settlements, "next": 1, "worker": "w"})
        for n in range(8):
            self.get(f"/v1/tasks/w{n}")

    def workflows(self):
        self.assertEqual(201, self.ask("PUT", "/v1/flows/review", REVIEW).status)
        self.get("/v1/flows")
        self.get("/v1/flows/review?version=1")
        person = {"who": "ada", "why": "a test"}
        run = self.post("/v1/flows/review:start", {"paper": 1}, 201)["run"]
        self.post("/v1/flows/review:start?unique=true&version=1", {"paper": 1}, 201)
        runner = self.start("flow", "work", "-q")
        self.until(lambda: len(self.get("/v1/runs?state=waiting")["runs"]) == 2, "both runs wait")
        self.post(f"/v1/runs/{run}/signals/paid", {"id": "p", "body": 1}, 201)
        self.post(f"/v1/runs/{run}/steps/read:approve", person)
        other = self.get("/v1/runs?state=waiting&workflow=review&since=1h&limit=1")["runs"][0]["run"]
        self.post(f"/v1/runs/{other}/steps/read:reject", person)
        self.until(lambda: self.get(f"/v1/runs/{other}")["state"] == "failed", "the other run has failed")
        self.post(f"/v1/runs/{other}:retry", person)
        self.post(f"/v1/runs/{other}:cancel", person)
        self.until(lambda: self.get(f"/v1/runs/{run}")["state"] == "completed", "the run is completed")
        runner.terminate()
        runner.wait(timeout=30)
        self.get(f"/v1/runs/{run}?at=1000000")
        self.get(f"/v1/runs/{run}/events")

    def zone(self):
        for path in ["/v1/status", "/v1/audit?by=hour&cost_per_run=1", "/v1/doctor", "/v1/retention", "/healthz", "/readyz"]:
            self.get(path)
        self.assertEqual(200, self.ask("PUT", "/v1/retention", {"ids": "60d"}).status)
        self.ask("GET", "/metrics")
        events = self.raw(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").makefile("rb")  # it does not end
        self.assertEqual(b"HTTP/1.1 200 OK\r\n", events.readline())
        self.assertEqual(b"Content-Type: text/event-stream\r\n", events.readline())
        self.seen.add(self.document.operation("GET", "/v1/events")["operationId"])


@unittest.skipIf(NATS, "the document is the same on any store")
class Outside(ServeTest):
    """What programs of others make of the document."""

    def setUp(self):
        super().setUp()
        if not (PACKAGES / "openapi-typescript").exists():
            print(f"\nSKIPPED: {self.id()}: no checker of OpenAPI; tools/openapi-js fetches it", file=sys.stderr)
            self.skipTest("no checker of OpenAPI; tools/openapi-js fetches it")
        self.serve()
        self.file = self.folder / "openapi.json"
        self.file.write_text(json.dumps(self.get("/openapi.json")))

    def node(self, *arguments, code=0):
        done = subprocess.run(["node", *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "ONCE_NODE_MODULES": str(PACKAGES)})  # fmt: skip
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def test_a_validator_finds_nothing(self):
        found = json.loads(self.node(TOOLS / "check.mjs", self.file))
        self.assertTrue(found["valid"], found)
        self.assertEqual("3.1", found["version"])
        broken = json.loads(self.file.read_text())
        del broken["info"]
        self.file.write_text(json.dumps(broken))
        self.assertFalse(json.loads(self.node(TOOLS / "check.mjs", self.file))["valid"])

    def test_types_compile(self):
        self.node(PACKAGES / "openapi-typescript" / "bin" / "cli.js", self.file, "-o", "once.ts")
        program = self.folder / "program.ts"
        program.write_text(PROGRAM)
        self.node(PACKAGES / "typescript" / "bin" / "tsc", "--strict", "--noEmit", "--skipLibCheck", "--target", "es2022",
                  program)  # fmt: skip


if __name__ == "__main__":
    unittest.main()
