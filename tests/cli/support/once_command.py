"""Runs the `once` command in a folder of its own and looks at what it says.

ONCE_BIN names the executable. ONCE_UPDATE_GOLDEN=1 writes the golden files instead of comparing.
ONCE_TEST_NATS names a nats-server: then every test has a zone of its own there instead of a file.
"""

import json
import os
import pty
import re
import shutil
import subprocess
import tempfile
import termios
import time
import unittest
from pathlib import Path

BIN = os.environ.get("ONCE_BIN", "")
NATS = os.environ.get("ONCE_TEST_NATS", "")
GOLDEN = Path(__file__).resolve().parents[2] / "golden"


class Answer:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def line(self):
        (only,) = self.lines
        return only


class OnceTest(unittest.TestCase):
    maxDiff = None
    binary = BIN  # the executable that once() and start() run

    def setUp(self):
        self.assertTrue(BIN, "ONCE_BIN names no executable")
        self.folder = Path(tempfile.mkdtemp(prefix="once-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("ONCE_") and name != "NO_COLOR"
        }
        self.store = "once.db"  # that is used when nothing else is said
        if NATS:
            self.store = self.environment["ONCE_STORE"] = f"{NATS}/{self.folder.name}"
            self.make_zone()

    def make_zone(self):
        """On a server, only commands that define something make a zone."""
        self.ok("queue", "add", "first", "--topic", "first")
        self.ok("queue", "remove", "first")

    def leave_zone(self):
        """From now on the test's store is one that nobody has made."""
        if NATS:
            self.environment["ONCE_STORE"] = self.store + "-none"

    def begin_anew(self):
        """An empty store in the place of the test's own."""
        if NATS:
            self.store = self.environment["ONCE_STORE"] = self.store + "-"
            self.make_zone()
        for file in self.folder.glob("once.db*"):
            file.unlink()

    def start(self, *arguments, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("env", self.environment)
        process = subprocess.Popen([self.binary, *arguments], cwd=self.folder, **options)
        self.addCleanup(self._end, process)
        return process

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def once(self, *arguments, stdin=b"", **environment):
        if isinstance(stdin, str):
            stdin = stdin.encode()
        done = subprocess.run(
            [self.binary, *arguments],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            timeout=60,
            env={**self.environment, **environment},
        )
        return Answer(
            done.returncode,
            done.stdout.decode(errors="surrogateescape"),
            done.stderr.decode(errors="surrogateescape"),
        )

    def ok(self, *arguments, **options):
        answer = self.once(*arguments, **options)
        self.assertEqual(answer.code, 0, answer.err)
        return answer

    def drained(self, *arguments, exits, **options):
        """A worker that ran until its queue was empty. It exits with 1 if tasks ended dead or in doubt."""
        answer = self.once(*arguments, **options)
        self.assertEqual(exits, answer.code, answer.err)
        return answer

    def refused(self, code, *arguments, **options):
        """It ends with `code` and one line on standard error, which is returned."""
        answer = self.once(*arguments, **options)
        self.assertEqual(answer.code, code, (answer.out, answer.err))
        self.assertRegex(answer.err, r"\Aonce: [^\n]+\n\Z")
        return answer.err

    def terminal(self, *arguments, columns=80, **environment):
        """What a command prints on a terminal of that width."""
        parent, child = pty.openpty()
        termios.tcsetwinsize(child, (50, columns))
        process = self.start(*arguments, stdout=child, env={**self.environment, **environment})
        os.close(child)
        out = b""
        while True:
            try:
                piece = os.read(parent, 4096)
            except OSError:
                break
            if not piece:
                break
            out += piece
        os.close(parent)
        self.assertEqual(0, process.wait(timeout=60))
        return out.decode().replace("\r\n", "\n")

    def until(self, condition, what, seconds=30):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return
            time.sleep(0.01)
        self.fail(f"not within {seconds} s: {what}")

    def script(self, name, text):
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return "./" + name

    def golden(self, name, text):
        path = GOLDEN / name
        if os.environ.get("ONCE_UPDATE_GOLDEN"):
            path.write_text(text)
        self.assertEqual(path.read_text(), text)


def waits_for_a_flock(pid):
    # 4: -> FLOCK  ADVISORY  WRITE 4242 fe:00:131 0 EOF
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(words[1:3] == ["->", "FLOCK"] and words[5] == str(pid) for words in locks)


def steady(text):
    """Without what differs from run to run: times, durations, random ids, process ids, tokens."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "2024-05-01T09:30:00.000Z", text)
    text = re.sub(r"after [0-9hms]+", "after 5ms", text)
    text = re.sub(r"token \d+", "token 1", text)
    return re.sub(r"ends in \d+m?s", "ends in 30s", text)
