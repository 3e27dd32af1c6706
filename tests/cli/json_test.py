#!/usr/bin/env -S python3 -B
"""docs/json.md: every answer has the fields that the page says, and no others."""

import json
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli/support"))
from once_command import BIN, OnceTest  # noqa: E402

SHAPES = {}
for line in (ROOT / "docs/json.md").read_text().splitlines():
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    if line.startswith("| ") and len(cells) == 2 and cells[1].startswith(("`", "the same and")):
        fields = re.findall(r"`(\w+\??)`", cells[1])
        if cells[1].startswith("the same and"):
            fields = SHAPES["queue list"] + fields
        names = re.findall(r"`([^`]+)`", cells[0]) if "," in cells[0] and "`, `" in cells[0] else []
        for name in names or [cells[0].replace("`", "")]:
            SHAPES[name] = fields
        SHAPES[cells[0].replace("`", "")] = fields

FLOW = {"name": "w", "steps": [{"id": "s", "task": "p.a"}, {"id": "g", "signal": "go"}, {"id": "ok", "approval": "fine?"}]}


class Shapes(OnceTest):
    def setUp(self):
        super().setUp()
        self.seen = set()

    def fits(self, name, line):
        self.seen.add(name)
        known = SHAPES[name]
        needed = {field for field in known if not field.endswith("?")}
        fields = set(line)
        self.assertEqual(set(), needed - fields, f"{name}: missing")
        self.assertEqual(set(), fields - {field.rstrip("?") for field in known}, f"{name}: not in docs/json.md")

    def answer(self, name, *arguments, code=0, last=None, **options):
        """Each line has the shape of `name`; the last one that of `last`."""
        done = self.once("--json", *arguments, **options)
        self.assertEqual(code, done.code, (arguments, done.err))
        self.assertTrue(done.lines, arguments)
        for line in done.lines[:-1] if last else done.lines:
            self.fits(name, line)
        if last:
            self.fits(last, done.lines[-1])
        return done.lines[-1]

    def story(self, *arguments):
        task = self.answer(arguments[0] if len(arguments) == 2 else " ".join(arguments[:2]), *arguments)
        for queue in task["queues"]:
            self.fits("its queues", queue)
            for part in ["attempts", "steps", "story"]:
                for item in queue[part]:
                    self.fits(f"their {part}", item)
        return task

    def test_tasks_and_queues(self):
        self.answer("queue add", "queue", "add", "q", "--topic", "p.>", "--attempts", "1", "--in-doubt", "hold")
        self.answer("queue list", "queue", "list")
        self.answer("queue show", "queue", "show", "q")
        self.answer("queue set", "queue", "set", "q", "--lease", "20s")
        self.answer("queue pause", "queue", "pause", "q")
        self.answer("queue resume", "queue", "resume", "q")
        self.answer("publish", "publish", "p.a", "1", "--id", "a", "--header", "H=1")
        self.answer("publish", "publish", "p.a", "text", "--raw", "--id", "text")
        self.answer("publish", "publish", "p.a", "-", "--raw", "--id", "raw", stdin=b"\xff")
        self.answer("publish", "publish", "p.a", "5", "--id", "later", "--delay", "1h", "--expires", "2h")
        self.answer("publish --batch, each line", "publish", "--batch", "-", stdin='{"topic":"p.a","id":"doubt"}')
        self.answer("a conflicting duplicate", "publish", "p.a", "2", "--id", "a", code=3)
        program = self.script("program", f"{BIN} step one -- echo hi >/dev/null; {BIN} step two -- false\n"
                              "case $ONCE_ID in raw) printf '\\377' ;; text) exit 1 ;; doubt) exit 74 ;; *) echo 5 ;; esac")  # fmt: skip
        self.once("cancel", "later")
        self.answer("work, each event", "work", "q", "--until-empty", "--", program, last="a failure", code=1)
        self.answer("list", "list")
        self.answer("log", "log")
        self.answer("dead list", "dead", "list")
        self.answer("doubt list", "doubt", "list")
        for task in ["a", "text", "raw", "later"]:
            self.story("inspect", task)
        self.story("dead", "show", "text")
        self.story("doubt", "show", "doubt")
        self.answer("wait", "wait", "a")
        self.answer("wait", "wait", "raw")
        self.answer("a failure", "wait", "nope", code=6)
        self.answer("dead retry", "dead", "retry", "text", "--dry-run")
        self.answer("dead drop", "dead", "drop", "text")
        self.answer("doubt complete", "doubt", "complete", "doubt")
        self.answer("status", "status", last="status, last line")
        self.answer("retention", "retention")
        self.answer("retention --run", "retention", "--run")
        self.answer("token add", "token", "add", "t", "--role", "read")
        self.answer("token list", "token", "list")
        self.answer("token remove", "token", "remove", "t")
        self.answer("audit", "audit", last="audit, last line")
        self.answer("doctor", "doctor", last="doctor, last line", code=self.once("doctor").code)
        self.answer("metrics", "metrics")
        self.answer("version", "version")
        self.ok("publish", "p.a", "--id", "z")
        self.answer("cancel", "cancel", "z")
        self.answer("queue remove", "queue", "remove", "q", "--force")

    def test_ledgers(self):
        self.ok("queue", "add", "l", "--ledger", "--attempts", "1")
        token = str(self.answer("claim, claimed", "claim", "l", "k")["token"])
        self.answer("claim, held or not due", "claim", "l", "k", code=8)
        self.answer("renew", "renew", "l", "k", "--token", token)
        self.answer("complete", "complete", "l", "k", "--token", token, "--result", "1")
        self.answer("claim, completed before", "claim", "l", "k", code=8)
        token = str(self.answer("claim, claimed", "claim", "l", "j")["token"])
        self.answer("fail", "fail", "l", "j", "--token", token, "--error", "no")
        self.answer("claim, dead, in doubt or cancelled", "claim", "l", "j", code=8)

    def test_workflows(self):
        (self.folder / "w.json").write_text(json.dumps(FLOW))
        self.answer("flow add", "flow", "add", "w.json")
        self.answer("flow add --check", "flow", "add", "--check", "w.json")
        self.answer("flow list", "flow", "list")
        self.ok("queue", "add", "q", "--topic", "p.>", "--attempts", "1")
        run = self.answer("flow start", "flow", "start", "w", "1")["run"]
        self.answer("flow signal", "flow", "signal", run, "go", "--id", "i")
        runner = self.start("flow", "work", "-q")
        worker = self.start("work", "q", "-q", "--", "false")
        self.until(lambda: "approve" in self.ok("flow", "show", run).out or "waiting" in self.ok("flow", "show", run).out, "it waits")
        self.until(lambda: self.once("flow", "approve", run, "ok").code == 0, "it waits for an approval")
        self.answer("flow approve", "flow", "approve", run, "ok")
        self.once("flow", "wait", run, "--timeout", "30s")
        self.answer("flow runs", "flow", "runs")
        for step in self.answer("flow show", "flow", "show", run)["steps"]:
            self.fits("its steps", step)
        self.answer("flow events", "flow", "events", run)
        self.answer("flow graph", "flow", "graph", run)
        for process in (runner, worker):
            process.terminate()
            process.wait(timeout=30)
        self.answer("flow retry", "flow", "retry", run)
        self.answer("flow cancel", "flow", "cancel", run)

    def test_failures(self):
        self.ok("publish", "t", "1", "--id", "a")
        self.answer("a failure", "publish", "t", "{", code=2)
        self.assertEqual("no_queue", self.answer("a failure", "work", "q", "--", "true", code=6)["reason"])
        self.answer("a conflicting duplicate", "publish", "t", "2", "--id", "a", code=3)

    def test_the_page_has_every_answer(self):
        self.assertGreater(len(SHAPES), 55)
        for command in ["work --metrics", "flow wait", "bench", "doubt retry", "doubt drop"]:
            self.assertIn(command, SHAPES)


if __name__ == "__main__":
    unittest.main()
