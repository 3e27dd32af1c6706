#!/usr/bin/env -S python3 -B
"""Programs that behave badly, run by the worker that people run: they talk too much, do not end,
do not listen, and leave processes behind.
"""

import sys
import unittest
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from real_processes import SystemTest  # noqa: E402

MEBIBYTE = 1 << 20


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Output(SystemTest):
    def test_ten_mebibytes_are_kept_whole(self):
        self.queue()
        self.each(["a", "b"])
        program = self.script(
            "talk", 'head -c 10485760 /dev/zero | tr "\\0" e >&2\nhead -c 10485760 /dev/zero | tr "\\0" x'
        )
        self.settle(program)
        for task in ["a", "b"]:
            story = self.story(task)
            self.assertEqual("completed", story["state"])
            self.assertEqual(["completed"], self.outcomes(task))
            self.assertEqual(b"x" * 10 * MEBIBYTE, self.raw_result(task))
        self.assertEqual(10 * MEBIBYTE, len(self.ok("wait", "a").out.rstrip("\n")))

    def test_a_failure_that_talks_too_much_keeps_its_last_words(self):
        self.queue("--attempts", "1")
        self.each(["a"])
        self.settle("sh", "-c", 'head -c 10485760 /dev/zero | tr "\\0" e >&2; echo last words >&2; exit 3', exits=1)
        error = self.story("a")["attempts"][0]["error"]
        self.assertTrue(error.startswith("exit 3"), error[:80])
        self.assertTrue(error.endswith("last words"), error[-80:])
        self.assertLessEqual(len(error), 4096)


class Ending(SystemTest):
    FAMILY = (
        "trap '' TERM HUP INT\n"
        "echo $$ > program; sleep 1000 & echo $! > child\n"
        "(setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > escaped; while :; do sleep 1000; done' &)\n"
        "until [ -s escaped ]; do sleep 0.01; done\n"
    )

    def test_a_timeout_ends_all_of_it_and_tries_again_after_the_backoff(self):
        self.queue("--timeout", "1s", "--backoff", "500ms", "--attempts", "2")
        self.each(["a"])
        program = self.script(
            "deaf",
            '[ "$ONCE_ATTEMPT" = 2 ] && exec echo "$ONCE_ATTEMPT $ONCE_IN_DOUBT"\n'
            + self.FAMILY + "while :; do sleep 1000; done",
        )  # fmt: skip
        worker = self.worker("w", "--until-empty", "--grace", "200ms", "--", program)
        family = self.pids("program", "child", "escaped")
        self.gone(family)
        self.ends(worker)
        first, second = self.story("a")["attempts"]
        self.assertEqual(("timed_out", True), (first["outcome"], first["in_doubt"]))
        self.assertEqual(("completed", False), (second["outcome"], second["in_doubt"]))
        lasted = moment(first["ended_at"]) - moment(first["started_at"])
        self.assertGreaterEqual(lasted, 1.1, "the timeout and the grace")
        self.assertLess(lasted, 15)
        self.assertGreaterEqual(moment(second["started_at"]) - moment(first["ended_at"]), 0.499)
        self.assertEqual("2 1\n", self.ok("wait", "a").out)

    def test_the_last_attempt_that_times_out_is_a_dead_letter(self):
        self.queue("--timeout", "100ms", "--attempts", "1")
        self.each(["a"])
        self.settle("sleep", "1000", exits=1)
        story = self.story("a")
        self.assertEqual(("dead", ["timed_out"]), (story["state"], self.outcomes("a")))
        self.assertTrue(story["attempts"][0]["in_doubt"])

    def test_what_a_program_leaves_behind_ends_with_it(self):
        self.queue()
        self.each(["a"])
        self.settle(self.script("parent", self.FAMILY + "echo 5"))
        self.assertEqual("5\n", self.ok("wait", "a").out)
        self.gone(self.pids("program", "child", "escaped"), seconds=0.1)

    def test_a_program_killed_from_outside_takes_the_rest_along_and_is_in_doubt(self):
        self.queue("--backoff", "10ms")
        self.each(["a"])
        program = self.script(
            "victim",
            '[ "$ONCE_ATTEMPT" = 2 ] && exec echo "$ONCE_ATTEMPT $ONCE_IN_DOUBT"\n'
            + self.FAMILY + "kill -KILL $$",
        )  # fmt: skip
        self.settle(program)
        first = self.story("a")["attempts"][0]
        self.assertEqual(("unknown", True), (first["outcome"], first["in_doubt"]))
        self.assertIn("SIGKILL", first["error"])
        self.assertEqual("2 1\n", self.ok("wait", "a").out)
        self.gone(self.pids("program", "child", "escaped"), seconds=0.1)


if __name__ == "__main__":
    unittest.main()
