#!/usr/bin/env -S python3 -B
"""The table of requests and answers, run by curl, Python and TypeScript, directly and with losses."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "cli" / "support"), str(TESTS / "clients")]
from lossy_proxy import Proxy  # noqa: E402
from once_command import OnceTest  # noqa: E402

CONFORMANCE = TESTS / "conformance"
TABLE = CONFORMANCE / "table.json"
SEED = 46344  # loses the answers to an offer, start, step end, fail, complete, settle, release and act
compiled = None


def typescript():
    """The compiled runner, once per script."""
    global compiled
    if compiled is None:
        compiled = Path(tempfile.mkdtemp(prefix="once-ts-"))
        unittest.addModuleCleanup(shutil.rmtree, compiled, ignore_errors=True)
        subprocess.run(["tsc", "-p", CONFORMANCE, "--outDir", compiled], check=True)
        (compiled / "package.json").write_text('{"type":"module"}')
    return ["node", compiled / "run_typescript.js"]


def cases(lossy):
    every = json.loads(TABLE.read_text("utf-8"))["cases"]
    return [case["name"] for case in every if not lossy or case.get("lossy") is not False]


class Runs:
    """What each runner must do. A subclass names the runner."""

    def setUp(self):
        super().setUp()
        self.server = self.start("serve", "--listen", "127.0.0.1:0")
        line = self.server.stderr.readline().decode()
        self.assertIn("listening on http://", line)
        self.port = int(line.split("http://")[1].split()[0].rsplit(":", 1)[1])

    def proxy(self, **drops):
        proxy = Proxy(("127.0.0.1", self.port), seed=SEED, **drops).start()
        self.addCleanup(proxy.close)
        return proxy

    def run_table(self, table, port, *options):
        """The exit code and the lines of the runner."""
        command = [*self.runner(), "--url", f"http://127.0.0.1:{port}", *options, table]
        ran = subprocess.run(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual("", ran.stderr)
        return ran.returncode, ran.stdout.splitlines()

    def all_pass(self, port, *options):
        names = cases("--lossy" in options)
        code, lines = self.run_table(TABLE, port, *options)
        if self.server.poll() is not None:
            said = self.server.stderr.read().decode()
            self.fail(f"the server has ended with {self.server.returncode}: {said}\n" + "\n".join(lines))
        self.assertEqual([*(f"passed {name}" for name in names), f"{len(names)} passed, 0 failed"], lines)
        self.assertEqual(0, code)
        self.ok("audit", "--deep")

    def all_fail(self, wrong, port, *options):
        table = self.folder / "wrong.json"
        table.write_text(json.dumps({"cases": [{"name": name, "steps": steps} for name, steps in wrong.items()]}))
        code, lines = self.run_table(table, port, *options)
        self.assertEqual(f"0 passed, {len(wrong)} failed", lines[-1], lines)
        for name, line in zip(wrong, lines):
            self.assertTrue(line.startswith(f"FAILED {name}: "), line)
        self.assertEqual(1, code)

    def test_every_case_passes(self):
        self.all_pass(self.port)

    def test_every_case_passes_with_lost_requests_and_responses(self):
        proxy = self.proxy(drop_requests=0.12, drop_responses=0.12)
        self.all_pass(proxy.port, "--lossy")
        self.assertGreater(proxy.lost_requests, 5)
        self.assertGreater(proxy.lost_responses, 5)

    def test_a_wrong_expectation_fails(self):
        status = {"request": "GET /v1/status", "status": 200}
        bad = {"request": "GET /v1/tasks/none", "status": 404}
        self.all_fail({
            "status": [{**status, "status": 201}],
            "statuses": [{**status, "status": [201, 404]}],
            "header": [{**status, "headers": {"Once-Duplicate": "true"}}],
            "header value": [{**status, "headers": {"Content-Type": "text/plain"}}],
            "value": [{**status, "answer": {"unrouted": 1}}],
            "boolean for a number": [{**status, "answer": {"unrouted": False}}],
            "null for a number": [{**status, "answer": {"unrouted": None}}],
            "type": [{**status, "answer": {"unrouted": "<string>"}}],
            "field": [{**status, "answer": {"routed": 0}}],
            "length": [{**status, "answer": {"queues": [{}]}}],
            "array": [{**bad, "answer": []}],
            "lines": [{**status, "lines": [{}, {}]}],
            "saved": [{**bad, "answer": {}, "save": {"code": "code"}}, {**bad, "answer": {"title": "${code}"}}],
            "never saved": [{**bad, "answer": {}, "save": {"claim": "claims.0.claim"}}],
            "later step": [status, {**status, "status": 404}],
        }, self.port)

    def test_a_lost_request_that_must_not_be_repeated_fails(self):
        proxy = self.proxy(drop_requests=1.0)
        step = {"request": "GET /v1/status", "status": 200}
        self.all_fail({"once": [step]}, proxy.port, "--lossy")
        self.assertEqual(1, proxy.requests)
        self.all_fail({"direct": [{**step, "repeat": True}]}, proxy.port)
        self.assertEqual(2, proxy.requests)


@unittest.skipUnless(shutil.which("curl"), "no curl; `tools/setup test`")
class Curl(Runs, OnceTest):
    def runner(self):
        return [CONFORMANCE / "run_curl"]


class Python(Runs, OnceTest):
    def runner(self):
        return [CONFORMANCE / "run_python.py"]


@unittest.skipUnless(shutil.which("node") and shutil.which("tsc"), "no node or no tsc; `tools/setup test`")
class TypeScript(Runs, OnceTest):
    def runner(self):
        return typescript()


if __name__ == "__main__":
    unittest.main()
