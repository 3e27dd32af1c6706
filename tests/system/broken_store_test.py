#!/usr/bin/env -S python3 -B
"""Stores that cannot be used: each is exit 5 with one clear line, and what was in them stays."""

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from real_processes import (  # noqa: E402
    BIN,
    SystemTest,
    in_state,
    skip_loudly,
    waits_for_a_flock,
    without_right_to_override,
)

READERS = [
    ["status"], ["list"], ["log"], ["inspect", "a"], ["queue", "list"], ["retention"],
    ["wait", "a", "--timeout", "1ms"],
]  # fmt: skip
WRITERS = [
    ["publish", "t", "1", "--id", "new"], ["queue", "add", "new", "--topic", "t"],
    ["retention", "--bodies", "1h"], ["work", "q", "-q", "--until-empty", "--", "true"],
    ["queue", "remove", "q", "--force"],
]  # fmt: skip


class WithTasks(SystemTest):
    def setUp(self):
        super().setUp()
        self.database = self.folder / "once.db"
        self.queue()
        self.each(["a"])

    def refused_by_all(self, *words, commands=READERS + WRITERS):
        for command in commands:
            with self.subTest(command=command):
                said = self.refused(5, *command)
                self.assertIn("once.db", said)
                for word in words:
                    self.assertIn(word, said)

    def unharmed(self):
        self.settle("sh", "-c", "echo $ONCE_ATTEMPT")
        self.assertEqual("1\n", self.ok("wait", "a").out)
        self.assertTrue(self.ok("publish", "t", "--id", "a", "--json").line["duplicate"])
        self.assertEqual(1, len(self.ok("log", "--json").lines))

    def set_version(self, version):
        """Returns the version that the file had."""
        with sqlite3.connect(self.database) as connection:
            had = connection.execute("PRAGMA user_version").fetchone()[0]
            connection.execute(f"PRAGMA user_version={version}")
        connection.close()
        return had


class Content(WithTasks):
    def test_of_a_newer_version(self):
        had = self.set_version(99)
        before = self.database.read_bytes()
        self.refused_by_all("newer")
        self.assertEqual(before, self.database.read_bytes())
        self.set_version(had)
        self.unharmed()

    def test_that_is_another_programs(self):
        self.database.unlink()
        connection = sqlite3.connect(self.database)
        connection.execute("CREATE TABLE contact (name TEXT)")
        connection.execute("INSERT INTO contact VALUES ('Ada')")
        connection.commit()
        connection.close()
        before = self.database.read_bytes()
        self.refused_by_all()
        self.assertEqual(before, self.database.read_bytes())

    def test_that_is_no_database(self):
        before = b"dear diary, " * 1000
        self.database.write_bytes(before)
        self.refused_by_all("not a database")
        self.assertEqual(before, self.database.read_bytes())

    def test_that_is_damaged(self):
        size = self.database.stat().st_size
        with open(self.database, "r+b") as file:
            file.seek(4096)
            file.write(b"\xa5" * (size - 4096))
        before = self.database.read_bytes()
        self.refused_by_all("damaged")
        self.assertEqual(before, self.database.read_bytes())

    def test_that_was_cut_off(self):
        os.truncate(self.database, 4096)
        self.refused_by_all("damaged")


class Place(WithTasks):
    def test_that_is_missing(self):
        for command in READERS + WRITERS + [["work", "q", "--topic", "t", "--", "true"]]:
            with self.subTest(command=command):
                self.refused(5, "--store", "no/folder/once.db", *command)
        self.assertFalse((self.folder / "no").exists())

    def test_that_is_no_file(self):
        (self.folder / "folder.db").mkdir()
        os.mkfifo(self.folder / "pipe.db")
        for name in ["folder.db", "pipe.db", "/dev/null", "/dev/full"]:
            for command in [["status"], ["publish", "t"]]:
                with self.subTest(name=name, command=command):
                    self.refused(5, "--store", name, *command)
        self.assertEqual([], list((self.folder / "folder.db").iterdir()))

    def test_that_is_read_only(self):
        (self.folder / "work").mkdir()
        inner = self.folder / "work" / "once.db"
        self.ok("queue", "add", "q", "--topic", "t", "--store", str(inner))
        self.ok("publish", "t", "--id", "a", "--store", str(inner))
        writable = subprocess.run(
            without_right_to_override(["/bin/sh", "-c", "echo > probe; chmod 444 probe; echo > probe"]),
            cwd=self.folder, capture_output=True,
        )  # fmt: skip
        if writable.returncode == 0 or b"setpriv" in writable.stderr:
            skip_loudly(self, f"nothing is read-only for this user: {writable.stderr!r}")
        for what, mode in [(inner, 0o444), (inner.parent, 0o555)]:
            before = what.stat().st_mode & 0o777
            what.chmod(mode)
            for command in READERS + WRITERS:
                with self.subTest(what=what.name, command=command):
                    ended = subprocess.run(
                        without_right_to_override([BIN, "--store", str(inner), *command]),
                        cwd=self.folder, env=self.environment, capture_output=True, timeout=60, text=True,
                    )  # fmt: skip
                    self.assertEqual(5, ended.returncode, ended.stderr)
                    self.assertRegex(ended.stderr, r"\Aonce: [^\n]*read-only[^\n]*\n\Z")
            what.chmod(before)
        self.environment["ONCE_STORE"] = str(inner)
        self.unharmed()


class Lock(WithTasks):
    """A process that holds the write lock and is stopped."""

    def test_of_a_stopped_process_is_not_waited_for_for_ever(self):
        # A worker that was there before has to live through it.
        self.each(["slow"])
        program = self.script(
            "slow",
            '[ $ONCE_ID = a ] || { echo $$ > began; until [ -e go ]; do sleep 0.01; done; }\n'
            "echo $ONCE_ATTEMPT",
        )
        worker = self.worker("w", "--", program)
        self.pids("began")

        lock = self.folder / "once.db-lock"
        self.assertTrue(lock.exists())
        hold = (
            "import fcntl, sys\n"
            "file = open(sys.argv[1], 'rb')\n"
            "fcntl.flock(file, fcntl.LOCK_EX)\n"
            "print('held', flush=True)\n"
            "sys.stdin.read()\n"
        )
        holder = subprocess.Popen(
            [sys.executable, "-c", hold, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.addCleanup(self._end, holder)
        self.assertEqual(b"held\n", holder.stdout.readline())
        holder.send_signal(signal.SIGSTOP)
        self.until(lambda: in_state(holder.pid, "T"), "the holder is stopped")
        self.touch("go")

        began = time.monotonic()
        waiting = [self.background(*command) for command in WRITERS]
        for command in READERS[:-1]:
            self.ok(*command)
        self.assertLess(time.monotonic() - began, 5, "readers need no lock")
        for process in waiting:
            process.wait(timeout=60)
            said = self.said(process)
            self.assertEqual(5, process.returncode, said)
            self.assertRegex(said, r"\Aonce: [^\n]+\n\Z")
            self.assertIn(f"process {holder.pid} ", said)
            self.assertIn("stopped", said)
        self.assertLess(time.monotonic() - began, 30)
        self.assertIsNone(worker.poll(), self.said(worker))

        holder.send_signal(signal.SIGCONT)
        holder.stdin.close()
        self.until(lambda: self.story("slow")["state"] == "completed", "what ran meanwhile is recorded")
        worker.send_signal(signal.SIGTERM)
        self.ends(worker)
        self.assertEqual(["completed"], self.outcomes("slow"))
        self.assertEqual("1\n", self.ok("wait", "slow").out)
        self.assertEqual(["q"], [queue["queue"] for queue in self.ok("queue", "list", "--json").lines])
        self.assertEqual(2, len(self.ok("log", "--json").lines), "nothing of what was refused was done")
        self.ok("publish", "t", "1", "--id", "new")

    def test_that_is_passed_on_is_waited_for(self):
        with open(self.folder / "once.db-lock", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            waiting = self.background("publish", "t", "1", "--id", "new")
            self.until(lambda: waits_for_a_flock(waiting.pid), "it waits for its turn")
        self.ends(waiting)


if __name__ == "__main__":
    unittest.main()
