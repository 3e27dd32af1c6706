#!/usr/bin/env -S python3 -B
"""What is heard of programs: their standard error, their starts and ends, their files and their record."""

import os
import pty
import re
import stat
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import OnceTest  # noqa: E402

WAIT = 60


class Voices(OnceTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t", "--backoff", "1ms")

    def publish(self, *ids):
        for task in ids:
            self.ok("publish", "t", '{"password":"hunter2"}', "--id", task)

    def work(self, script, *options, tasks=("a",), exits=0):
        """The lines on standard error, without the hints of the command itself."""
        self.publish(*tasks)
        answer = self.drained("work", "q", "--until-empty", *options, "--", "sh", "-c", script, exits=exits)
        self.answer = answer
        return [line for line in answer.err.splitlines() if not line.startswith("once: ")]

    def attempt(self, task="a"):
        return self.ok("inspect", task, "--json").line["queues"][0]["attempts"][-1]

    def on_terminal(self, script, *options):
        """The same on a terminal."""
        self.publish("a")
        ours, theirs = pty.openpty()
        worker = self.start("work", "q", "--until-empty", *options, "--", "sh", "-c", script, stderr=theirs)
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the terminal has no other end any more
                break
            if not piece:
                break
            shown += piece
        os.close(ours)
        self.assertEqual(0, worker.wait(WAIT))
        return [line for line in shown.decode().split("\r\n") if line and not line.startswith("once: ")]


class StandardError(Voices):
    def test_is_passed_on_line_by_line_with_the_task_and_the_attempt(self):
        script = 'echo "one $ONCE_ATTEMPT" >&2; printf two >&2; [ $ONCE_ATTEMPT = 2 ]'
        self.assertEqual(
            ["[a attempt 1] one 1", "[a attempt 1] two", "[a attempt 2] one 2", "[a attempt 2] two"],
            self.work(script),
        )
        self.assertNotIn("hunter2", self.answer.err)

    def test_is_silent_with_q(self):
        self.publish("a")
        answer = self.ok("work", "q", "-q", "--until-empty", "--", "sh", "-c", "echo one >&2; echo two")
        self.assertEqual(("", ""), (answer.out, answer.err))

    def test_of_concurrent_tasks_is_not_mixed(self):
        tasks = [f"task-{n}" for n in range(4)]
        script = 'for n in 1 2 3 4 5 6 7 8; do printf "$ONCE_ID " >&2; sleep 0.01; echo $n >&2; done'
        lines = self.work(script, "--concurrency", "4", tasks=tasks)
        for task in tasks:
            mine = [line for line in lines if line.startswith(f"[{task} ")]
            self.assertEqual([f"[{task} attempt 1] {task} {n}" for n in range(1, 9)], mine)
        self.assertEqual(32, len(lines))

    def test_of_a_step_comes_through(self):
        self.assertEqual(
            ["[a attempt 1] from the step"],
            self.work('"$ONCE_BIN" step push -- sh -c "echo from the step >&2; echo pushed"'),
        )
        self.assertEqual("from the step", self.attempt()["stderr"])

    def test_of_a_probe_is_marked(self):
        self.ok("queue", "set", "q", "--in-doubt", "probe")
        lines = self.work("exit 74", "--probe", "echo asked >&2; exit 0")
        self.assertEqual(["[a attempt 2 probe] asked"], lines)

    def test_may_be_any_bytes(self):
        self.publish("a")
        script = 'printf "nul\\0 bad\\377 tab\\t esc\\033[2J cr\\r\\n" >&2; head -c 10000 /dev/zero | tr "\\0" x >&2'
        worker = self.start("work", "q", "--until-empty", "--", "sh", "-c", script)
        _, err = worker.communicate(timeout=WAIT)
        lines = [line for line in err.split(b"\n") if line.startswith(b"[a ")]
        self.assertEqual(b"[a attempt 1] nul\0 bad\xff tab\t esc\033[2J cr", lines[0])
        self.assertEqual(b"x" * 10000, b"".join(line.removeprefix(b"[a attempt 1] ") for line in lines[1:]))
        self.assertTrue(all(len(line) < 4096 for line in lines))
        self.assertTrue(self.attempt()["stderr"].startswith("nul\0 bad\ufffd tab\t esc\x1b[2J cr\r\nxxx"))

    def test_that_nobody_reads_holds_up_no_program(self):
        self.publish("a")
        script = "head -c 100000000 /dev/zero | tr '\\0' '\\n' >&2; echo last words >&2"
        worker = self.start("work", "q", "--until-empty", "--", "sh", "-c", script)
        self.until(lambda: any(l.get("completed") for l in self.ok("status", "--json").lines), "it is completed", WAIT)
        _, err = worker.communicate(timeout=WAIT)
        self.assertEqual(0, worker.returncode)
        self.assertRegex(err.decode(), r"once: \d+ lines of standard error not shown")
        self.assertLess(len(err), 4 << 20)
        self.assertTrue(self.attempt()["stderr"].endswith("\nlast words"))

    def test_that_is_never_read_does_not_hold_up_the_end(self):
        self.publish("a")
        worker = self.start("work", "q", "--until-empty", "--", "sh", "-c", "yes | head -c 1000000 >&2")
        self.assertEqual(0, worker.wait(WAIT))


class Terminal(Voices):
    def test_shows_each_start_and_end(self):
        lines = self.on_terminal("echo hello >&2; [ $ONCE_ATTEMPT = 2 ] || exit 3")
        self.assertEqual(6, len(lines), lines)
        for line, pattern in zip(lines, (
            r"\[a attempt 1\] started at 2\d{3}-.*Z", r"\[a attempt 1\] hello",
            r"\[a attempt 1\] failed after \d+ms: exit 3", r"\[a attempt 2\] started at .*",
            r"\[a attempt 2\] hello", r"\[a attempt 2\] completed after \d+ms: exit 0",
        )):  # fmt: skip
            self.assertTrue(re.fullmatch(pattern, line), (pattern, line))

    def test_is_not_moved_by_control_characters(self):
        lines = self.on_terminal('printf "\\033]0;title\\007 \\033[2J bad\\377\\t.\\n" >&2')
        self.assertIn("[a attempt 1] \\x1b]0;title\\x07 \\x1b[2J bad\\xff\t.", lines)

    def test_is_silent_with_q(self):
        self.assertEqual([], self.on_terminal("echo hello >&2", "-q"))

    def test_is_not_needed_with_v(self):
        started, hello, ended = self.work("echo hello >&2", "-v")
        self.assertIn("started", started)
        self.assertIn("completed after", ended)


class Events(Voices):
    def test_are_objects_on_standard_output(self):
        self.work('echo hello >&2; printf "bad\\377" >&2; [ $ONCE_ATTEMPT = 2 ] || exit 65', "--json", exits=1)
        *events, last = self.answer.lines
        self.assertEqual("failed", last["error"])
        self.assertEqual(["started", "stderr", "stderr", "ended"], [event["event"] for event in events])
        for event in events:
            self.assertEqual(("q", "a", 1), (event["queue"], event["id"], event["attempt"]))
        self.assertEqual(["hello", "bad\ufffd"], [event["text"] for event in events[1:3]])
        self.assertEqual(("dead", "exit 65"), (events[3]["verdict"], events[3]["how"]))
        self.assertGreaterEqual(events[3]["took_ms"], 0)
        self.assertNotIn("hello", self.answer.err)
        self.assertNotIn("hunter2", self.answer.out)


class Files(Voices):
    def test_keep_all_of_it(self):
        logs = self.folder / "made" / "logs"
        script = "echo out; echo err >&2; head -c 3000000 /dev/zero; [ $ONCE_ATTEMPT = 2 ]"
        self.work(script, "--log-dir", str(logs), tasks=("../ü x",))
        names = sorted(path.name for path in logs.iterdir())
        self.assertEqual([f"q.%2E./%C3%BC%20x.{n}.log".replace("./", ".%2F") for n in (1, 2)], names)
        for path in logs.iterdir():
            self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode))
            kept = path.read_bytes()
            self.assertEqual(3_000_008, len(kept))
            self.assertIn(b"out\n", kept)
            self.assertIn(b"err\n", kept)

    def test_of_long_names_differ(self):
        logs = self.folder / "logs"
        self.work("echo $ONCE_ID", "--log-dir", str(logs), tasks=("x" * 200 + "1", "x" * 200 + "2"))
        self.assertEqual(2, len(list(logs.iterdir())))

    def test_that_cannot_be_written_are_told_and_the_task_goes_on(self):
        logs = self.folder / "logs"
        (logs / "q.a.1.log").mkdir(parents=True)
        self.work("echo hello >&2", "--log-dir", str(logs))
        self.assertRegex(self.answer.err, "cannot write .*q.a.1.log: Is a directory; the program of task a goes on")
        self.assertEqual("completed", self.attempt()["outcome"])

    def test_follow_no_link(self):
        logs = self.folder / "logs"
        logs.mkdir()
        (logs / "q.a.1.log").symlink_to(self.folder / "elsewhere")
        self.work("echo hello", "--log-dir", str(logs))
        self.assertFalse((self.folder / "elsewhere").exists())
        self.assertIn("cannot write", self.answer.err)

    def test_that_are_pipes_hold_up_no_program(self):
        logs = self.folder / "logs"
        logs.mkdir()
        os.mkfifo(logs / "q.a.1.log")  # nobody reads it
        self.publish("a")
        worker = self.start("work", "q", "--until-empty", "--log-dir", str(logs), "--", "sh", "-c", "echo hello >&2")
        self.assertEqual(0, worker.wait(20))
        self.assertRegex(worker.stderr.read().decode(), "cannot write .*q.a.1.log: .*; the program of task a goes on")
        self.assertEqual("completed", self.attempt()["outcome"])

    def test_need_a_folder(self):
        self.publish("a")
        (self.folder / "file").touch()
        said = self.refused(2, "work", "q", "--until-empty", "--log-dir", "file", "--", "true")
        self.assertIn("cannot write to the folder 'file' of --log-dir", said)
        self.assertIn("nothing was run", said)
        self.assertEqual("waiting", self.ok("inspect", "a", "--json").line["queues"][0]["state"])


class Record(Voices):
    def test_keeps_the_end_of_a_success(self):
        self.work("yes 'a line' | head -n 10000 >&2; echo last words >&2", "-q")
        kept = self.attempt()["stderr"]
        self.assertEqual(16 << 10, len(kept))
        self.assertTrue(kept.endswith("a line\nlast words"))
        told = self.ok("inspect", "a").out.splitlines()
        first = next(n for n, line in enumerate(told) if line.startswith("  stderr"))
        self.assertRegex(told[first], r"\(\d+ earlier lines: once inspect --json\)")
        self.assertEqual(["a line"] * 19 + ["last words"], [line.strip() for line in told[first + 1 : first + 21]])
        self.assertTrue(told[first + 21].startswith("  result"))

    def test_of_a_failure_is_shown_once(self):
        self.work("echo first >&2; echo cannot reach the printer >&2; exit 65", "-q", exits=1)
        text = self.ok("inspect", "a").out
        self.assertEqual(1, text.count("cannot reach the printer"), text)
        self.assertRegex(text, r"(?m)^ +exit 65\n  stderr +first\n +cannot reach the printer$")

    def test_is_null_without_any(self):
        self.work("true", "-q")
        self.assertIsNone(self.attempt()["stderr"])


if __name__ == "__main__":
    unittest.main()
