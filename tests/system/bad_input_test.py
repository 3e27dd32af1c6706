#!/usr/bin/env -S python3 -B
"""Bad input of every kind, one after the other, on a zone in use: each is refused with one line and
its exit status, and afterwards the zone is what it was.
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from real_processes import SystemTest  # noqa: E402

PUBLISH = [
    "", "{", "[1,]", "nul", "'a'", "{} {}", '{"a":1,"a":1}', '{"a":{"b":1,"\\u0062":2}}',
    '"\\ud800"', '"\\udc00\\ud800"', '{"\\ud834":1}', "9007199254740993", "1e400", "-1e400",
    "[" * 5000 + "]" * 5000, "NaN", "01", "\x00",
]  # fmt: skip


class ZoneInUse(SystemTest):
    def setUp(self):
        super().setUp()
        self.queue("--attempts", "2", "--backoff", "1ms")
        self.each(["done", "dead"])
        self.settle("sh", "-c", "[ $ONCE_ID = done ] || exit 65", exits=1)
        self.each(["waiting"])
        self.before = self.snapshot()

    def unharmed(self):
        self.assertEqual(self.before, self.snapshot())
        self.settle()
        self.assertEqual("completed", self.story("waiting")["state"])
        self.assertEqual([1, 1], [len(self.story(task)["attempts"]) for task in ("waiting", "done")])

    def test_bodies(self):
        for text in PUBLISH:
            with self.subTest(text=text[:40]):
                self.refused(2, "publish", "t", "-", "--id", "new", stdin=text)
        self.refused(2, "publish", "t", "-", "--id", "new", stdin=b'"\xed\xa0\x80"')
        for size in [(1 << 20) + 1, 20 << 20]:
            self.refused(2, "publish", "t", "-", "--raw", "--id", "new", stdin=b"x" * size)
            self.refused(2, "publish", "t", "-", "--id", "new", stdin=b'"' + b"x" * size + b'"')
        self.unharmed()

    def test_names(self):
        for task in ["", "a\nb", "\x7f", "a\x01", "é" * 513]:
            self.refused(2, "publish", "t", f"--id={task}")
        for topic in ["", ".", "t.", "a b", "a\tb", "*", "t.>", "$once.queue", "é" * 257]:
            self.refused(2, "publish", "--id", "new", "--", topic)
        self.unharmed()

    def test_queues(self):
        self.refused(6, "work", "nobody", "--", "true")
        self.refused(6, "queue", "remove", "nobody")
        self.refused(6, "wait", "waiting", "--queue", "nobody")
        self.refused(2, "queue", "remove", "q")
        for other in [["--topic", "t.>"], ["--topic", "t", "--key", "{a}"], ["--topic", "t", "--attempts", "9"]]:
            self.refused(2, "queue", "add", "q", *other)
            self.refused(2, "work", "q", *other, "--until-empty", "--", "true")
        self.unharmed()

    def test_conflicts(self):
        for content in [["t", "1"], ["t.other"], ["t", "null", "--raw"]]:
            self.refused(3, "publish", *content, "--id", "waiting")
            self.refused(3, "publish", *content, "--id", "done")
        lines = '{"topic":"t","id":"waiting","body":1}\n{"topic":"t","id":"dead","body":"\\ud800"}\n'
        self.assertEqual(3, self.once("publish", "--batch", "-", stdin=lines).code)
        self.unharmed()

    def test_programs_that_are_none_claim_nothing(self):
        self.script("text", "")
        (self.folder / "text").chmod(0o644)
        for command in ["no-such-command", "./no-such-file", "./text", "./text/below", "/", ""]:
            with self.subTest(command=command):
                self.refused(2, "work", "q", "-q", "--", command)
                self.assertEqual([], self.story("waiting")["attempts"])
        self.unharmed()

    def test_a_program_without_an_interpreter_stops_the_worker_and_costs_no_attempt(self):
        # Only execution tells. Two attempts are allowed, three are begun in vain.
        program = self.folder / "lost"
        program.write_text("#!/no/such/interpreter\n")
        program.chmod(0o755)
        for _ in range(3):
            self.assertIn("lost", self.refused(2, "work", "q", "-q", "--", "./lost"))
        self.assertEqual("waiting", self.story("waiting")["state"])
        self.assertEqual(["released"] * 3, self.outcomes("waiting"))
        self.settle("sh", "-c", "echo $ONCE_ATTEMPT $ONCE_IN_DOUBT")
        self.assertEqual("4 0\n", self.ok("wait", "waiting").out)


if __name__ == "__main__":
    unittest.main()
