#!/usr/bin/env -S python3 -B
"""once demo: what its table says is what the files and the zone say, the view and its keys, and nothing
stays behind, whatever ends it."""

import collections
import contextlib
import fcntl
import json
import os
import re
import select
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "cli" / "support"), str(TESTS / "support")]
import nats_cluster  # noqa: E402
from once_command import BIN, OnceTest  # noqa: E402

STEPS = 3


class DemoTest(OnceTest):
    def setUp(self):
        super().setUp()
        self.environment["TMPDIR"] = str(self.folder)

    def left_running(self):
        """The command lines of processes that know this test's folder."""
        found = []
        for process in Path("/proc").iterdir():
            try:
                environment = (process / "environ").read_bytes()
                if str(self.folder).encode() in environment and int(process.name) != os.getpid():
                    found.append((process / "cmdline").read_bytes())
            except (OSError, ValueError):
                continue  # it has ended, or it is none
        return found

    def nothing_left(self):
        self.until(lambda: not self.left_running(), "the demo's processes end")
        self.assertEqual([], list(self.folder.glob("once-demo*")))

    def only_folder(self):
        (folder,) = self.folder.glob("once-demo*")
        return folder

    def measures(self, *arguments, **environment):
        lines = self.ok("demo", "--json", *arguments, **environment).lines
        return {line["measure"]: line for line in lines}


class Counted(DemoTest):
    def test_the_table_is_what_the_files_and_the_zone_say(self):
        answer = self.ok("demo", "--seconds", "5", "--work", "600ms", "--agents", "4", "--seed", "4", "--keep")
        self.assertNotIn("\x1b", answer.out)
        self.assertIn("once demo, seed 4", answer.out)
        table = dict(re.findall(r"^([a-z][\w, -]*?) {2,}(\d+(?:\.\d\d)?) ", answer.out, re.M))
        number = {label: float(value) for label, value in table.items()}
        folder = self.only_folder()

        (queue,) = [
            line
            for line in self.ok("status", "--json", "--store", str(folder / "demo.db")).lines
            if line.get("queue") == "agents"
        ]
        entries = self.ok("log", "--json", "--limit", "1000", "--store", str(folder / "demo.db")).lines
        self.assertEqual(len(entries), number["published"])
        self.assertEqual(queue["completed"], number["completed"])
        self.assertEqual(len(entries) - queue["completed"], number["duplicates stopped by the ledger"])

        effects = (folder / "effects").read_text().splitlines()
        once_each = {tuple(line.split()[:2]) for line in effects}
        self.assertEqual(len(effects), number["effects in the file"])
        self.assertEqual(len(effects) - len(once_each), number["effects that happened again"])
        self.assertEqual(queue["completed"] * STEPS, len(once_each))

        receipts = [json.loads(line) for line in (folder / "receipts").read_text().splitlines()]
        again = sum(line["duplicate"] for line in receipts)
        self.assertGreaterEqual(number["duplicates stopped at append"], again)
        self.assertEqual({line["id"] for line in receipts}, {entry["id"] for entry in entries})

        killed = collections.Counter(re.findall(r"(agent|publisher)-\d killed with -9", answer.out))
        self.assertGreaterEqual(killed["agent"], 1)
        self.assertEqual(killed.total(), number["killed with -9"])
        self.assertGreaterEqual(number["re-runs, each explained"], 1)
        self.assertIn("resumed post-", answer.out)
        stopped = number["duplicates stopped at append"] + number["duplicates stopped by the ledger"]
        self.assertEqual(stopped * 3.5, number["duplicates would have cost"])
        for none in ("completed twice", "lost", "not finished", "effects missing"):
            self.assertEqual(0, number[none], none)
        self.assertEqual(1, number["conflicts refused"])
        self.assertIn("work mine --until-empty", answer.out)

        plain = (folder / "plain-effects").read_text().splitlines()
        self.assertRegex(answer.out, rf"effects in the file +\d+ +{len(plain)} ")
        self.until(lambda: not self.left_running(), "the demo's processes end")

    def test_json_and_a_number_of_tasks(self):
        measures = self.measures("--seconds", "2", "--tasks", "6", "--work", "100ms", "--agents", "3",
                                 "--cost-per-run", "2")  # fmt: skip
        self.assertEqual(6, measures["completed"]["once"])
        self.assertEqual(6 * STEPS, measures["effects"]["once"] - measures["effects_again"]["once"])
        stopped = measures["duplicates_at_append"]["once"] + measures["duplicates_by_ledger"]["once"]
        self.assertEqual(stopped * 2, measures["cost_prevented"]["once"])
        self.nothing_left()

    def test_a_broken_promise_is_exit_1_and_its_files_are_kept(self):
        demo = self.start("demo", "--json", "--seconds", "1", "--tasks", "3", "--work", "300ms")
        self.until(lambda: any("\n" in file.read_text() for file in self.folder.glob("once-demo*/effects")),
                   "an effect happens")  # fmt: skip
        folder = self.only_folder()
        with (folder / "effects").open("a") as effects:
            effects.write((folder / "effects").read_text().splitlines()[0] + "\n")
        with (folder / "receipts").open("a") as receipts:
            receipts.write('{"line":1,"id":"ghost","sequence":99,"duplicate":false,"digest":"sha256:00"}\n')
        out, err = demo.communicate(timeout=90)
        self.assertEqual(1, demo.returncode)
        self.assertIn("not what Once promises", err.decode())
        measures = {line["measure"]: line for line in map(json.loads, out.splitlines()) if "measure" in line}
        self.assertEqual((1, 1), (measures["lost"]["once"], measures["unexplained"]["once"]))
        self.assertTrue(folder.exists())

    def test_what_cannot_be_is_refused(self):
        self.assertIn("memory:", self.refused(2, "demo", "--store", "memory:"))
        self.assertIn("3.50", self.refused(2, "demo", "--cost-per-run", "much"))
        answer = self.once("demo", "--store", "nats://somebody:secret@127.0.0.1:1")
        self.assertEqual(2, answer.code)
        self.assertNotIn("secret", answer.out + answer.err)
        self.ok("publish", "a", "--store", "mine.db")
        self.assertIn("holds tasks", self.refused(2, "demo", "--json", "-q", "--store", "mine.db").splitlines()[0])
        self.nothing_left()


class Killed(DemoTest):
    def test_nothing_outlives_it(self):
        demo = self.start("demo")
        self.until(lambda: b" began post-" in demo.stdout.readline(), "an agent works")
        self.assertGreater(len(self.left_running()), 7)
        demo.kill()
        self.until(lambda: not self.left_running(), "the demo's processes end")

    def test_signals_end_it_and_nothing_stays(self):
        for end in (signal.SIGTERM, signal.SIGHUP):
            demo = self.start("demo")
            self.until(lambda: b" began post-" in demo.stdout.readline(), "an agent works")
            demo.send_signal(end)
            out, err = demo.communicate(timeout=60)
            self.assertEqual((1, b"once: interrupted; nothing was counted\n"), (demo.returncode, err))
            self.assertNotIn(b"COUNTED", out)
            self.nothing_left()

    def agents(self):
        """Their processes, which are `once work`."""
        found = []
        for process in Path("/proc").iterdir():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                if words[1:3] == [b"-q", b"work"] and str(self.folder).encode() in (process / "environ").read_bytes():
                    found.append(int(process.name))
            except (OSError, ValueError):
                continue
        return found

    def test_an_agent_killed_by_somebody_else_is_counted_and_replaced(self):
        demo = self.start("demo", "--seconds", "1", "--tasks", "4", "--work", "3s", "--agents", "3")
        self.until(lambda: b" began post-" in demo.stdout.readline(), "an agent works")
        os.kill(self.agents()[0], signal.SIGKILL)
        out, _ = demo.communicate(timeout=60)
        self.assertEqual(0, demo.returncode)
        self.assertRegex(out.decode(), r"agent-\d killed with -9 by somebody else")
        self.assertRegex(out.decode(), r"agent-\d is back")

    def test_an_agent_that_ends_by_itself_ends_it(self):
        for end in (signal.SIGTERM, signal.SIGUSR1):  # an exit, and what a crash looks like
            demo = self.start("demo", "--agents", "3", "--work", "300ms")
            self.until(lambda: b" began post-" in demo.stdout.readline(), "an agent works")
            for agent in self.agents():
                os.kill(agent, end)
            out, err = demo.communicate(timeout=60)
            self.assertEqual(1, demo.returncode)
            self.assertRegex(err.decode(), r"agent-\d ended by itself")
            self.assertNotIn(b"by somebody else", out)
            self.nothing_left()

    def test_an_agent_that_finds_the_store_busy_is_replaced(self):
        demo = self.start("demo", "--seconds", "1", "--tasks", "1", "--work", "3s", "--agents", "2")
        # The last that the demo itself writes to the store.
        self.until(lambda: b" with another title, refused" in demo.stdout.readline(), "a conflict is published")
        with contextlib.closing(sqlite3.connect(self.only_folder() / "demo.db", timeout=30)) as other:
            other.execute("BEGIN IMMEDIATE")
            os.kill(self.agents()[0], signal.SIGKILL)
            self.until(lambda: b" the store was busy" in demo.stdout.readline(), "its successor gives up", seconds=60)
        out, err = demo.communicate(timeout=90)
        self.assertEqual((0, b""), (demo.returncode, err))
        self.assertRegex(out.decode(), r"agent-\d is back")


class Screen:
    """The demo on a terminal of its own."""

    def __init__(self, test, *arguments, rows=30, columns=100, **environment):
        self.test, self.seen = test, ""
        self.master, self.slave = os.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(
            [BIN, "demo", *arguments],
            cwd=test.folder,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env={**test.environment, "TERM": "xterm", **environment},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        test.addCleanup(self.close)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def read(self):
        while select.select([self.master], [], [], 0.02)[0]:
            self.seen += os.read(self.master, 65536).decode(errors="replace")

    def shows(self, text):
        def seen():
            self.read()
            return text in self.seen

        self.test.until(seen, f"the view shows {text!r}")

    def press(self, keys):
        os.write(self.master, keys.encode())

    def ends(self):
        def ended():
            self.read()
            return self.process.poll() is not None

        self.test.until(ended, "the demo ends", seconds=60)
        self.read()
        return self.process.returncode

    def as_before(self):
        self.test.assertEqual(self.before, termios.tcgetattr(self.slave))
        self.test.assertEqual(self.seen.count("\x1b[?25l"), self.seen.count("\x1b[?25h"))
        self.test.assertEqual(self.seen.count("\x1b[?1049h"), self.seen.count("\x1b[?1049l"))


class OnATerminal(DemoTest):
    def test_keys(self):
        screen = Screen(self, "--work", "500ms")
        screen.shows("finished post-")
        self.assertIn("keys: 1-7 kill an agent", screen.seen)
        self.assertIn("\x1b[36m", screen.seen)
        self.assertNotEqual(screen.before, termios.tcgetattr(screen.slave))
        screen.press("dc")
        screen.shows("you published post-")
        screen.shows("with another title, refused")
        for key in "1234567":
            screen.press(key)
        screen.shows("killed with -9 by you")
        screen.press("q")
        self.assertEqual(0, screen.ends())
        table = screen.seen.split("\x1b[?1049l")[1]
        self.assertIn("duplicates would have cost", table)
        screen.as_before()
        self.nothing_left()

    def test_an_interrupt_restores_the_terminal(self):
        screen = Screen(self, rows=12, columns=40, NO_COLOR="1")
        screen.shows("agent-7")
        time.sleep(0.2)  # in the middle of anything
        screen.press("\x03")
        self.assertEqual(1, screen.ends())
        self.assertIn("interrupted; nothing was counted", screen.seen.split("\x1b[?1049l")[1])
        self.assertNotRegex(screen.seen, r"\x1b\[[0-9;]*m")
        frames = screen.seen.split("\x1b[?1049h")[1].split("\x1b[?25h")[0].split("\x1b[H")[1:]
        for frame in frames:
            lines = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|\r", "", frame).split("\n")
            self.assertLessEqual((len(lines), max(map(len, lines))), (12, 39))
        screen.as_before()
        self.nothing_left()


@unittest.skipIf(nats_cluster.program() is None, nats_cluster.NONE)
class OnNats(DemoTest):
    def setUp(self):
        super().setUp()
        self.server = nats_cluster.Cluster().__enter__()
        self.addCleanup(self.server.end)

    def streams(self):
        return set(self.server.ask("STREAM.NAMES").get("streams") or [])

    def test_the_same_in_a_zone_of_its_own_which_goes(self):
        measures = self.measures("--store", self.server.url(), "--seconds", "6", "--tasks", "8", "--work", "900ms",
                                 "--agents", "3")  # fmt: skip
        self.assertEqual(8, measures["completed"]["once"])
        self.assertGreaterEqual(measures["kills"]["once"], 1)
        self.assertEqual(set(), self.streams())
        self.nothing_left()

    def test_a_zone_that_holds_tasks_is_refused_and_stays(self):
        self.ok("queue", "add", "q", "--topic", "other", "--store", self.server.url("mine"))
        self.ok("publish", "a", "-q", "--store", self.server.url("mine"))
        before = self.streams()
        answer = self.once("demo", "-q", "--json", "--store", self.server.url("mine"))
        self.assertEqual(2, answer.code)
        self.assertIn("holds tasks", answer.err)
        self.assertEqual(before, self.streams())


if __name__ == "__main__":
    unittest.main()
