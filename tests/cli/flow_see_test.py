#!/usr/bin/env -S python3 -B
"""once flow runs, show, events and graph: what people see of workflows, and where else runs are seen."""

import fcntl
import json
import os
import pty
import random
import re
import signal
import struct
import sys
import termios
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from flow_command import ORDER, REVIEW, SIGNALLED, FlowTest, step  # noqa: E402
from once_command import steady  # noqa: E402

DIAMOND = {
    "name": "diamond",
    "steps": [step("charge"), step("pack", "charge"), step("mail", "charge"), step("ship", "pack", "mail")],
}
# A failure that is handled, and every kind of step.
PAYMENT = {
    "name": "payment",
    "version": 3,
    "idempotency_key": "order.id",
    "output": "steps.receipt",
    "steps": [
        step("charge", on_failure="refund"),
        step("refund"),
        {"id": "settled", "signal": "bank_settled", "depends_on": ["charge"]},
        {"id": "cool", "sleep": "1ms", "depends_on": ["settled"]},
        {"id": "review", "approval": 'Send "the goods"\\now?', "depends_on": ["cool"]},
        step("receipt", "review", "charge", input="steps.charge"),
    ],
}
WIDE = {
    "name": "wide",
    "steps": [
        step("split"),
        *[step(f"part-{number}", "split") for number in range(1, 9)],
        step("join", *[f"part-{number}" for number in range(1, 9)]),
    ],
}
# Too many layers to stand beside each other.
DEEP = {
    "name": "deep",
    "steps": [step("step-0")]
    + [step(f"step-{number}", f"step-{number - 1}") for number in range(1, 14)]
    + [step("beside", "step-0"), step("last", "step-13", "beside")],
}
LONG = {
    "name": "long",
    "steps": [step("a" * 64), step("b" * 64, "a" * 64), step("c" * 64, "a" * 64, on_failure="d"), step("d")],
}
TANGLED = {
    "name": "tangled",
    "steps": [
        step("extract"), step("ocr", "extract"), step("split", "extract"), step("language", "ocr"),
        step("classify", "ocr", "split", on_failure="quarantine"), step("summarize", "language", "classify"),
        step("index", "classify"), step("notify", "summarize", "index"), step("quarantine"),
        step("alert", "quarantine"), step("check", "extract", "index"), step("clean", "notify", "check"),
    ],
}  # fmt: skip

SHOW = [
    "run", "workflow", "version", "state", "steps_done", "started_at", "ended_at", "waits_for", "error", "key",
    "round", "closed", "sequence", "input", "output", "steps",
]  # fmt: skip
STEP = ["step", "kind", "state", "attempts", "task", "queue", "output", "error", "why", "sequence", "at", "until"]
RUNS = [
    "run", "workflow", "version", "state", "steps_done", "steps", "started_at", "ended_at", "waits_for", "error", "key",
]  # fmt: skip
EVENT = ["sequence", "at", "event", "id", "step", "signal", "n", "outcome", "value", "error", "by", "why"]


def stable(text):
    """Without what differs from run to run and from store to store."""
    text = re.sub(r"-[0-9a-z]{26}\b", "-01kq3v8c7d5e6f9g0h1j2k3m4n", steady(text))
    return re.sub(r"#\d+", "#7", re.sub(r"^ *#\d+", "      #7", text, flags=re.MULTILINE))


class Reader:
    """Follows the lines of a picture as a person does: ahead, never back."""

    LEAVES = {
        "─": "LR", "┄": "LR", "│": "UD", "┆": "UD", "┌": "DR", "┐": "DL", "└": "UR", "┘": "UL",
        "├": "UDR", "┤": "UDL", "┬": "LRD", "┴": "LRU", "┼": "LRUD",
    }  # fmt: skip
    MOVES = {"L": (0, -1), "R": (0, 1), "U": (-1, 0), "D": (1, 0)}
    OPPOSITE = {"L": "R", "R": "L", "U": "D", "D": "U"}

    def __init__(self, picture):
        self.rows = picture.splitlines()
        self.down = "▼" in picture
        self.labels = {}  # by row and column of each of its characters
        self.places = []
        for number, row in enumerate(self.rows):
            for found in re.finditer(r"─*\bs\d+\b─*" if self.down else r"\bs\d+\b", row):
                self.places.append((number, found.start(), found.end(), found[0].strip("─")))
                for column in range(found.start(), found.end()):
                    self.labels[number, column] = found[0].strip("─")

    def at(self, row, column):
        inside = 0 <= row < len(self.rows) and 0 <= column < len(self.rows[row])
        return self.rows[row][column] if inside else " "

    def edges(self):
        found = set()
        for row, first, end, name in self.places:
            if self.down:
                starts = [(row + 1, column, "D") for column in range(first, end)]
            else:
                starts = [(row, end + 1, "R")]
            for start in starts:
                found |= {(name, target) for target in self.follow(*start)}
        return found

    def follow(self, row, column, moving):
        ahead, back = ("D", "U") if self.down else ("R", "L")
        glyph = self.at(row, column)
        if glyph in "▶▼":
            step_down, step_right = self.MOVES[ahead]
            reach = 1 if self.down else 2
            return {self.labels[row + reach * step_down, column + reach * step_right]}
        leaves = self.LEAVES.get(glyph, "")
        came_from = self.OPPOSITE[moving]
        if not leaves:
            return set()
        if came_from not in leaves:  # it passes under an upright line, or there is nothing for it here
            onward = moving if leaves == "UD" and moving in "LR" else ""
        else:
            onward = "".join(leaf for leaf in leaves if leaf not in (came_from, back))
        reached = set()
        for leaf in onward:
            down, right = self.MOVES[leaf]
            reached |= self.follow(row + down, column + right, leaf)
        return reached


class SeeTest(FlowTest):
    def runner(self):
        """Drives runs until the test has ended."""
        return self.start("flow", "work", "-q")

    def worker(self, text="cat"):
        return self.start("work", "q", "-q", "--topic", "t.>", "--attempts", "1", "--", self.script("do", text))

    def until_state(self, run, state):
        self.until(lambda: self.show(run)["state"] == state, f"the run is {state}", 60)

    def states(self, run, *arguments):
        answer = self.ok("flow", "show", run, "--json", *arguments)
        return {item["step"]: item["state"] for item in answer.line["steps"]}

    def until_step(self, run, name, state):
        self.until(lambda: self.states(run)[name] == state, f"{name} is {state}", 60)

    def on_terminal(self, *arguments, columns=80, **environment):
        """What it writes to a terminal of so many columns until it ends."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = self.start(*arguments, stdout=theirs, env={**self.environment, "TERM": "xterm", **environment})
        os.close(theirs)
        written = b""
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not more:
                break
            written += more
        os.close(ours)
        self.assertEqual(0, process.wait(60))
        return written.decode().replace("\r\n", "\n")


class Graph(SeeTest):
    def test_pictures(self):
        pictures = []
        for definition in [DIAMOND, PAYMENT, WIDE, DEEP, LONG, TANGLED]:
            self.add(definition)
            pictures.append(self.ok("flow", "graph", definition["name"]).out)
        self.golden("flow-graph.txt", "\n".join(pictures))

    def test_every_edge_is_drawn(self):
        self.add(WIDE)
        picture = self.ok("flow", "graph", "wide").out
        self.assertEqual(9, picture.count("▶"), "one arrow for each step that depends on others")
        for item in WIDE["steps"]:
            self.assertIn(item["id"], picture)

    def test_a_picture_says_what_the_definition_says(self):
        chance = random.Random(7)
        ways = set()
        for number in range(30):
            digits = chance.choice([1, 14])  # short names fit beside each other, long ones do not
            names = [f"s{place:0{digits}}" for place in range(chance.randint(3, 20))]
            steps = [step(name, *self.some(chance, names[max(0, place - 6) : place])) for place, name in enumerate(names)]
            handlers = [item for item in steps[1:] if not item["depends_on"]]
            for handler in handlers:
                steps[chance.randrange(steps.index(handler))]["on_failure"] = handler["id"]
            self.add({"name": f"w{number}", "steps": steps})
            picture = self.ok("flow", "graph", f"w{number}").out.split("\n\n", 1)[1]
            if picture.startswith("STEP "):
                ways.add("listed")
                continue
            ways.add("down" if "▼" in picture else "right")
            edges = {(before, item["id"]) for item in steps for before in item["depends_on"]}
            edges |= {(item["id"], item["on_failure"]) for item in steps if "on_failure" in item}
            self.assertEqual(edges, Reader(picture).edges(), picture)
        self.assertLessEqual({"down", "right"}, ways)

    @staticmethod
    def some(chance, names):
        return chance.sample(names, min(len(names), chance.choice([0, 1, 1, 1, 2, 2, 3])))

    def test_dot(self):
        self.add(PAYMENT)
        dot = self.ok("flow", "graph", "payment", "--dot").out
        self.golden("flow-graph.dot", dot)
        self.assert_dot(dot)
        for other in ["--json", "--watch"]:
            self.assertIn("give one of them", self.refused(2, "flow", "graph", "payment", "--dot", other))

    def assert_dot(self, dot):
        """As far as the grammar of DOT goes that is used here."""
        text = r'"(?:[^"\\]|\\["\\n])*"'
        value = rf"(?:{text}|[a-zA-Z]+)"
        attributes = rf"\[[a-z]+={value}(?:, [a-z]+={value})*\]"
        first, *lines, last = dot.splitlines()
        self.assertRegex(first, rf"\Adigraph {text} {{\Z")
        self.assertEqual("}", last)
        for line in lines:
            self.assertRegex(line, rf"\A  (rankdir=LR|node {attributes}|{text}( -> {text})?( {attributes})?);\Z")

    def test_json(self):
        self.add(PAYMENT)
        line = self.ok("flow", "graph", "payment", "--json").line
        self.assertEqual(["workflow", "version", "run", "steps"], list(line))
        self.assertEqual(
            {"step": "charge", "kind": "task", "detail": "t.charge", "depends_on": [], "on_failure": "refund", "state": None},
            next(item for item in line["steps"] if item["step"] == "charge"),
        )  # fmt: skip

    def test_no_such_thing(self):
        self.add(DIAMOND)
        message = self.refused(6, "flow", "graph", "daimond")
        for part in ["daimond", "once flow list", "once flow runs"]:
            self.assertIn(part, message)

    def test_a_terminal_has_its_width_and_colours(self):
        self.add(DIAMOND)
        picture = self.on_terminal("flow", "graph", "diamond")
        self.assertIn("\x1b[1mcharge\x1b[0m ─┬─▶ \x1b[1mpack\x1b[0m ─┬─▶ \x1b[1mship\x1b[0m\n", picture)
        narrow = self.on_terminal("flow", "graph", "diamond", columns=20)
        self.assertIn("▼", narrow)
        plain = self.on_terminal("flow", "graph", "diamond", columns=20, NO_COLOR="1")
        self.assertNotIn("\x1b", plain)
        self.assertLessEqual(max(map(len, plain.splitlines())), 20)
        self.assertIn("AFTER", self.on_terminal("flow", "graph", "diamond", columns=8), "no picture fits")


class OneRun(SeeTest):
    """A run of PAYMENT, from its start to its end."""

    def test_the_life_of_a_run(self):
        self.add(PAYMENT)
        run = self.begin("payment", ORDER)
        self.assertEqual(("running", 0), (self.show(run)["state"], self.show(run)["steps_done"]))
        self.runner()
        self.worker('[ "$ONCE_STEP" = charge ] && echo \'{"paid":500}\' || cat')
        self.until_state(run, "waiting")
        self.until_step(run, "settled", "waiting")
        self.check_waiting(run)
        self.ok("flow", "signal", run, "bank_settled", '"ok"', "--id", "s1")
        self.until_step(run, "review", "waiting")
        self.ok("flow", "approve", run, "review", "--by", "ann")
        self.until_state(run, "completed")
        self.check_completed(run)
        self.check_events(run)
        self.check_past(run)
        self.check_elsewhere(run)

    def check_waiting(self, run):
        picture = self.ok("flow", "graph", run).out
        for label in ["✓ charge ", "⏸ settled (signal)", "○ cool (sleep)", "– refund"]:
            self.assertIn(label, picture + " ")
        for word in ["✓ completed", "⏸ waiting", "○ pending", "– skipped", "┄▶ on failure"]:
            self.assertIn(word, picture.splitlines()[-1])
        self.assertRegex(picture, rf"\A{run}  payment version 3  ⏸ waiting\n")
        dot = self.ok("flow", "graph", run, "--dot").out
        Graph.assert_dot(self, dot)
        for name, colour in [("charge", "palegreen"), ("settled", "khaki"), ("cool", "white"), ("refund", "lightgrey")]:
            self.assertRegex(dot, rf'"{name}" \[label="{name}[^\n]*fillcolor={colour}\]')
        states = {s["step"]: s["state"] for s in self.ok("flow", "graph", run, "--json").line["steps"]}
        self.assertEqual("waiting", states["settled"])
        coloured = self.on_terminal("flow", "graph", run, columns=200)
        self.assertIn("\x1b[32m✓ charge\x1b[0m", coloured)
        self.assertIn("\x1b[2m– refund\x1b[0m", coloured)
        line = self.ok("flow", "runs", "--json").line
        self.assertEqual(RUNS, list(line))
        self.assertEqual(("waiting", 2, 6), tuple(line[name] for name in ("state", "steps_done", "steps")))
        self.assertIn("settled", line["waits_for"])

    def check_completed(self, run):
        line = self.show(run)
        self.assertEqual(SHOW, list(line))
        self.assertEqual((run, "payment", 3, "completed"), tuple(line.values())[:4])
        self.assertEqual((json.loads(ORDER), {"paid": 500}), (line["input"], line["output"]))
        for item in line["steps"]:
            self.assertEqual(STEP, list(item))
        charge = next(item for item in line["steps"] if item["step"] == "charge")
        self.assertEqual(
            ("task", "completed", 1, "t.charge", "q", {"paid": 500}, None),
            tuple(charge[name] for name in ("kind", "state", "attempts", "task", "queue", "output", "error")),
        )
        text = self.ok("flow", "show", run).out
        self.golden("flow-show.txt", stable(text))
        self.assertEqual(text, self.ok("inspect", run).out)
        self.assertEqual(line, self.ok("inspect", run, "--json").line)
        runs = self.ok("flow", "runs").out
        self.assertEqual(["RUN", "WORKFLOW", "KEY", "STATE", "STEPS", "AGE", "WAITS", "FOR"], runs.splitlines()[0].split())
        self.assertRegex(runs.splitlines()[1], rf"\A{run}  payment@3  17   ✓ completed    6/6 +\S+  -\Z")

    def check_events(self, run):
        lines = self.ok("flow", "events", run, "--json").lines
        for line in lines:
            self.assertEqual(EVENT, list(line))
        sequences = [line["sequence"] for line in lines]
        self.assertEqual(sorted(sequences), sequences)
        self.assertEqual(("started", "ended"), (lines[0]["event"], lines[-1]["event"]))
        ends = {line["step"]: line["outcome"] for line in lines if line["event"] == "step"}
        self.assertEqual(dict.fromkeys(["charge", "settled", "cool", "review", "receipt"], "completed"), ends)
        self.golden("flow-events.txt", stable(self.ok("flow", "events", run).out))

    def check_past(self, run):
        ends = {e["step"]: e["sequence"] for e in self.ok("flow", "events", run, "--json").lines if e["event"] == "step"}
        before = self.states(run, "--at", str(ends["settled"] - 1))
        self.assertEqual(("completed", "waiting", "pending"), tuple(before[n] for n in ("charge", "settled", "cool")))
        self.assertEqual("completed", self.states(run, "--at", str(ends["settled"]))["settled"])

    def check_elsewhere(self, run):
        """The run is seen in other commands as well."""
        story = self.ok("inspect", f"{run}.charge").out
        self.assertRegex(story, rf"\n  run        {run}\n  step       charge\n")
        self.assertNotIn("Once-", story)
        line = self.ok("inspect", f"{run}.charge", "--json").line
        self.assertEqual((run, "charge"), (line["run"], line["step"]))
        audit = self.ok("audit").out
        self.assertRegex(audit, r"\n\S+  \(runs\) +1 ")
        self.assertIn("  once-flow  ", audit)
        self.assertIn("every task is explained", audit)
        queues = {line.get("queue") for line in self.ok("audit", "--json").lines}
        self.assertEqual({"once-flow", "once-runs", "q", None}, queues)
        self.assertEqual(
            ["once-flow", "q"], [line["queue"] for line in self.ok("status", "--json").lines if "queue" in line]
        )
        self.assertNotIn("once-keys", self.ok("metrics").out)


class Failing(SeeTest):
    def test_a_run_that_failed(self):
        self.add(DIAMOND)
        self.runner()
        self.worker("[ $ONCE_STEP != pack ] || { echo 'no box\nis left' >&2; exit 65; }")
        run = self.begin("diamond")
        self.until_state(run, "failed")
        self.assertEqual(
            {"charge": "completed", "pack": "failed", "mail": "completed", "ship": "unreached"}, self.states(run)
        )
        line = self.show(run)
        pack = next(item for item in line["steps"] if item["step"] == "pack")
        self.assertIn("no box", pack["error"])
        text = self.ok("flow", "show", run).out
        self.assertRegex(text, r"\n✗ pack +failed +1  q  .*is left\n")
        self.assertRegex(text, r"\n· ship +unreached ")
        self.assertIn("✗ failed", text.splitlines()[0])
        self.assertRegex(self.ok("flow", "runs", "--state", "failed").out, r"✗ failed +2/4 .*is left\n")
        finding = next(f for f in self.ok("doctor", "--json").lines if f.get("finding") == "failed_runs")
        self.assertEqual("note", finding["severity"])
        self.assertIn(run, finding["what"])
        self.assertIn("once flow retry", finding["fix"])

    def test_how_the_task_of_a_step_stands(self):
        self.add(SIGNALLED)
        self.add({"name": "one", "steps": [step("a")]})
        self.runner()
        run = self.begin("one")
        self.ok("queue", "add", "q", "--topic", "t.>", "--backoff", "1h")
        self.until_step(run, "a", "waiting")
        gate = self.folder / "gate"
        self.start("work", "q", "-q", "--", self.script("do", f"until [ -e {gate} ]; do sleep 0.01; done; exit 1"))
        self.until_step(run, "a", "running")
        self.assertIn("▶ a", self.ok("flow", "show", run).out)
        gate.touch()
        self.until_step(run, "a", "retrying")
        self.assertRegex(self.ok("flow", "show", run).out, r"\n⏸ a +retrying +1  q ")

    def test_when_a_wait_ends(self):
        self.add({"name": "nap", "steps": [{"id": "nap", "sleep": "10h"}]})
        run = self.begin("nap")
        self.assertRegex(
            self.ok("flow", "show", run).out,
            r"\n⏸ nap +waiting +-  - +- +is about to start: no runner is at work \(once flow work\)\n",
        )
        self.runner()
        self.until(lambda: self.show(run)["steps"][0]["until"], "the timer is armed", 60)
        nap = self.show(run)["steps"][0]
        self.assertEqual("sleeps 10h", nap["why"])
        shown = self.ok("flow", "show", run).out
        self.assertRegex(shown, rf"\n⏸ nap +waiting .* sleeps 10h \(until {nap['until']}, in \w+\)\n")
        self.assertIn(f"(until {nap['until']}, in ", self.ok("inspect", run).out)

    def test_who_retried_and_who_closed(self):
        self.add({"name": "one", "steps": [step("a")]})
        self.runner()
        self.worker("exit 65")
        run = self.begin("one")
        self.until_state(run, "failed")
        self.ok("flow", "retry", run, "--by", "ann", "--reason", "the card is unlocked")
        self.until(lambda: self.show(run)["round"] == 2, "the next round has begun", 60)
        self.until_state(run, "failed")
        retried = next(e for e in self.ok("flow", "events", run, "--json").lines if e["event"] == "retried")
        self.assertEqual(("ann", "the card is unlocked"), (retried["by"], retried["why"]))
        self.assertRegex(self.ok("flow", "events", run).out, r" retried +by ann: the card is unlocked\n")
        self.assertIn("\n  round      2: it was retried 1 time\n", self.ok("flow", "show", run).out)
        self.ok("flow", "cancel", run, "--by", "bob", "--reason", "sold out")
        self.until_state(run, "cancelled")
        line = self.show(run)
        self.assertEqual((2, True), (line["round"], line["closed"]))
        text = self.ok("flow", "show", run).out
        self.assertIn("\n  round      2: it was retried 1 time\n", text)
        self.assertIn("\n  closed     cancelled by bob: sold out\n", text)

    def test_nobody_drives_the_runs(self):
        self.add(SIGNALLED)
        self.begin("signalled")
        finding = next(f for f in self.ok("doctor", "--json").lines if f.get("finding") == "nobody_works")
        self.assertEqual(("queue once-flow", "start 'once flow work'"), (finding["about"], finding["fix"]))


class Runs(SeeTest):
    def test_filters(self):
        self.add(SIGNALLED)
        self.add(REVIEW)
        first = self.begin("signalled", "1")
        second = self.begin("review", '{"paper":1}')
        third = self.begin("review", '{"paper":2}')
        self.ok("flow", "cancel", second)
        runner = self.runner()
        self.until_state(second, "cancelled")
        self.until_state(third, "waiting")
        self.until_state(first, "waiting")

        def found(*arguments):
            return [line["run"] for line in self.ok("flow", "runs", "--json", *arguments).lines]

        self.assertEqual([third, second, first], found(), "the last started first")
        self.assertEqual([third, second], found("--workflow", "review"))
        self.assertEqual([second], found("--state", "cancelled"))
        self.assertEqual([third], found("--state", "waiting", "--workflow", "review"))
        self.assertEqual([third, second, first], found("--since", "1h"))
        self.assertEqual([], found("--since", "2999-01-01"))
        self.assertEqual([third, second], found("--limit", "2"))
        self.assertIn("--limit shows more", self.ok("flow", "runs", "--limit", "2").err)
        self.assertNotIn("--limit", self.ok("flow", "runs", "--limit", "3").err)
        self.assertIn("running, waiting", self.refused(2, "flow", "runs", "--state", "dead"))
        self.assertEqual(("", "once: no runs match\n"), self.said("flow", "runs", "--state", "failed"))
        runner.send_signal(signal.SIGTERM)

    def test_by_key_and_version(self):
        self.add(REVIEW)
        self.add(REVIEW, version=2)
        self.add(SIGNALLED)
        other = self.begin("signalled", '"anything"')
        old = self.begin("review@1", '{"paper":"a"}')
        new = self.begin("review", json.dumps({"paper": "b" * 64}))

        def found(*arguments):
            return [line["run"] for line in self.ok("flow", "runs", "--json", *arguments).lines]

        lines = {line["run"]: line for line in self.ok("flow", "runs", "--json").lines}
        self.assertEqual(("a", "b" * 64), (lines[old]["key"], lines[new]["key"]))
        text = self.ok("flow", "runs").out
        self.assertIn("b" * 64, text, "what is piped is not cut")
        self.assertIn("  a  ", text)
        self.assertEqual([old], found("--workflow", "review", "--key", "a"))
        self.assertEqual([old], found("--key", "a"))
        self.assertEqual([other], found("--key", lines[other]["key"]))
        self.assertEqual([], found("--workflow", "review", "--key", "z"))
        self.assertEqual([old], found("--workflow", "review@1"))
        self.assertEqual([new], found("--workflow", "review@2"))
        self.assertIn("payment@3", self.refused(2, "flow", "runs", "--workflow", "review@new"))

    def said(self, *arguments):
        answer = self.ok(*arguments)
        return answer.out, answer.err

    def test_none_yet(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.assertEqual(("", "once: no runs match\n"), self.said("flow", "runs"))
        self.assertEqual("", self.ok("flow", "runs", "--json").out)

    def test_watch(self):
        self.add(SIGNALLED)
        run = self.begin("signalled")
        watch = self.start("flow", "runs", "--watch", "--json")
        self.assertEqual("waiting", json.loads(watch.stdout.readline())["state"])
        self.ok("flow", "cancel", run)
        self.runner()
        self.until(lambda: json.loads(watch.stdout.readline())["state"] == "cancelled", "it looks again")
        watch.send_signal(signal.SIGINT)
        self.assertEqual(0, watch.wait(60))

    def test_unknown(self):
        self.add(SIGNALLED)
        for command in [["show"], ["events"], ["show", "--watch"], ["events", "--watch"]]:
            with self.subTest(command=command):
                self.assertIn("nobody", self.refused(6, "flow", *command, "signalled-nobody"))
                message = self.refused(6, "flow", *command, "signalled")
                self.assertIn("once flow runs --workflow signalled", message)


class Watching(SeeTest):
    def setUp(self):
        super().setUp()
        self.add(SIGNALLED)
        self.run_id = self.begin("signalled")
        self.runner()
        self.until_state(self.run_id, "waiting")

    def go_on(self):
        self.ok("flow", "signal", self.run_id, "paid", "5", "--id", "a")

    def test_json(self):
        watch = self.start("flow", "show", self.run_id, "--watch", "--json")
        self.assertEqual("waiting", json.loads(watch.stdout.readline())["state"])
        self.go_on()
        lines = [json.loads(line) for line in watch.stdout]
        self.assertEqual(0, watch.wait(60))
        self.assertEqual("completed", lines[-1]["state"])
        self.assertEqual(len(lines), len({json.dumps(line) for line in lines}), "a line for a change")

    def test_text(self):
        watch = self.start("flow", "show", self.run_id, "--watch")
        head = [watch.stdout.readline().decode() for _ in range(3)]
        self.assertIn("⏸ waiting", head[0])
        self.go_on()
        rest = watch.stdout.read().decode()
        self.assertEqual(0, watch.wait(60))
        self.assertIn("\n✓ paid  completed\n", rest)
        self.assertTrue(rest.endswith(f"\n{self.run_id}  ✓ completed\n"), rest)
        self.assertNotIn("\x1b", rest)

    def test_a_terminal_is_painted_anew(self):
        self.go_on()
        written = self.on_terminal("flow", "show", self.run_id, "--watch")
        self.assertTrue(written.startswith("\x1b[2J\x1b[H"))
        self.assertIn("\x1b[32m✓ completed\x1b[0m\x1b[K\n", written)

    def test_one_that_has_ended(self):
        self.go_on()
        self.until_state(self.run_id, "completed")
        self.assertEqual("completed", self.ok("flow", "show", self.run_id, "--watch", "--json").line["state"])

    def test_events(self):
        watch = self.start("flow", "events", self.run_id, "--watch", "--json")
        self.assertEqual("started", json.loads(watch.stdout.readline())["event"])
        self.go_on()
        lines = [json.loads(line) for line in watch.stdout]
        self.assertEqual(0, watch.wait(60))
        self.assertEqual(["signal", "step", "ended"], [line["event"] for line in lines])
        self.assertEqual(("paid", 5), (lines[0]["signal"], lines[0]["value"]))

    def test_graph(self):
        watch = self.start("flow", "graph", self.run_id, "--watch", "--json")
        self.assertEqual("waiting", json.loads(watch.stdout.readline())["steps"][0]["state"])
        drawn = self.start("flow", "graph", self.run_id, "--watch")
        head = drawn.stdout.readline().decode()
        self.assertIn("⏸ waiting", head)
        self.go_on()
        lines = [json.loads(line) for line in watch.stdout]
        self.assertEqual(0, watch.wait(60))
        self.assertEqual("completed", lines[-1]["steps"][0]["state"])
        rest = drawn.stdout.read().decode()
        self.assertEqual(0, drawn.wait(60))
        self.assertIn(f"\n\n{self.run_id}  signalled version 1  ✓ completed\n\n✓ paid (signal)\n", rest)
        painted = self.on_terminal("flow", "graph", self.run_id, "--watch")
        self.assertTrue(painted.startswith("\x1b[2J\x1b[H"))
        self.assertIn("\x1b[32m✓ paid (signal)\x1b[0m\x1b[K\n", painted)
        self.assertIn("is a workflow", self.refused(2, "flow", "graph", "signalled", "--watch"))

    def test_the_exit_status_says_how_the_run_ended(self):
        self.ok("flow", "cancel", self.run_id, "--by", "ann")
        self.until_state(self.run_id, "cancelled")
        for command in ["show", "events", "graph"]:
            with self.subTest(command=command):
                message = self.refused(1, "flow", command, self.run_id, "--watch")
                self.assertIn(f"run {self.run_id} is cancelled: cancelled by ann", message)
                self.ok("flow", command, self.run_id)

    def test_interrupted(self):
        for command in ["show", "events", "graph"]:
            watch = self.start("flow", command, self.run_id, "--watch")
            watch.stdout.readline()
            watch.send_signal(signal.SIGINT)
            self.assertEqual(0, watch.wait(60))


if __name__ == "__main__":
    unittest.main()
