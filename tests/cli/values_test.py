#!/usr/bin/env -S python3 -B
"""Large results and steps: whole up to the limit, an error above it, never a part."""

import gzip
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import NATS, OnceTest  # noqa: E402

LARGE = 3_000_000
LIMIT = 16 << 20
FORMAT_4 = Path(__file__).parent / "support" / "format4.db.gz"


def talk(size, before=""):
    return f"sh -c \"{before}head -c {size} /dev/zero | tr '\\\\0' x\""


class Values(OnceTest):
    def work(self, script, *options):
        program = self.script("program", script)
        return self.once(
            "work", "q", "-q", "--until-empty", "--topic", "t", "--backoff", "1ms", *options,
            "--", program,
        )  # fmt: skip

    def story(self, task="a"):
        return self.ok("inspect", task, "--json").line["queues"][0]

    def text(self, name):
        path = self.folder / name
        return path.read_text() if path.exists() else None

    def test_a_result_of_megabytes_is_printed_whole(self):
        self.ok("publish", "t", "--id", "a", "-q")
        self.work(talk(LARGE))
        self.assertEqual("x" * LARGE + "\n", self.ok("wait", "a").out)
        self.assertEqual("x" * LARGE, self.story()["result"])

    def test_a_step_of_megabytes_is_remembered_whole(self):
        self.ok("publish", "t", "--id", "a", "-q")
        self.work(
            f"$ONCE_BIN step fetch -- {talk(LARGE, 'echo ran >> ran; ')} > out.$ONCE_ATTEMPT\n"
            "[ $ONCE_ATTEMPT = 2 ]"
        )
        self.assertEqual("ran\n", self.text("ran"))
        self.assertEqual("x" * LARGE, self.text("out.1"))
        self.assertEqual("x" * LARGE, self.text("out.2"))
        self.assertEqual("completed", self.story()["state"])

    def test_a_result_above_the_limit_fails_the_task_and_is_not_run_again(self):
        for to in ("", " > $ONCE_RESULT"):
            with self.subTest(to=to):
                self.begin_anew()
                self.ok("publish", "t", "--id", "a", "-q")
                (self.folder / "ran").unlink(missing_ok=True)
                self.work(f"echo ran >> ran; {talk(LIMIT + 1)}{to}")
                self.assertEqual("ran\n", self.text("ran"))
                story = self.story()
                self.assertEqual("dead", story["state"])
                self.assertIsNone(story["result"])
                error = self.refused(1, "wait", "a")
                for part in (str(LIMIT + 1), f"max_result of {LIMIT}"):
                    self.assertIn(part, error)

    def test_a_step_above_the_limit_is_held_and_not_run_again(self):
        self.ok("publish", "t", "--id", "a", "-q")
        self.work(
            f"echo ran >> ran; $ONCE_BIN step fetch -- {talk(LIMIT + 1)} > out\n"
            "$ONCE_BIN step after -- touch after",
            "--in-doubt", "retry",
        )  # fmt: skip
        self.assertEqual("ran\n", self.text("ran"))
        self.assertEqual(LIMIT + 1, len(self.text("out")))
        self.assertIsNone(self.text("after"))
        story = self.story()
        self.assertEqual("in_doubt", story["state"])
        self.assertIn(f"result of {LIMIT + 1} bytes", story["reason"])
        self.assertIn(f"max_result of {LIMIT}", story["reason"])
        self.refused(7, "wait", "a")

    def test_the_limit_is_the_queues_own(self):
        self.ok("publish", "t", "--id", "a", "-q")
        self.work(talk(1025), "--max-result", "1KiB")
        self.assertEqual("dead", self.story()["state"])
        self.ok("queue", "set", "q", "--max-result", "1025")
        self.assertEqual(1025, self.ok("queue", "show", "q", "--json").line["max_result"])
        self.ok("dead", "retry", "a")
        self.ok("work", "q", "-q", "--until-empty", "--", self.script("again", talk(1025)))
        self.assertEqual("x" * 1025 + "\n", self.ok("wait", "a").out)
        for wrong in ("0", "257MiB", "1GiB", "-1", "much", ""):
            self.refused(2, "queue", "set", "q", "--max-result", wrong)

    def test_a_person_gives_no_more_than_the_limit(self):
        self.ok("publish", "t", "--id", "a", "-q")
        self.work("exit 74", "--in-doubt", "hold", "--max-result", "1MiB")
        (self.folder / "big").write_bytes(b"x" * ((1 << 20) + 1))
        error = self.refused(2, "doubt", "complete", "a", "--raw", "--result", "@big")
        self.assertIn("once queue set q --max-result", error)
        self.assertEqual("in_doubt", self.story()["state"])
        (self.folder / "big").write_bytes(b"y" * (1 << 20))
        self.ok("doubt", "complete", "a", "--raw", "--result", "@big")
        self.assertEqual("y" * (1 << 20) + "\n", self.ok("wait", "a").out)

    def test_a_person_and_a_loop_of_ones_own_give_as_much_as_the_queue_allows(self):
        size = LIMIT + 5
        (self.folder / "big").write_text('"' + "x" * size + '"')
        self.ok("publish", "t", "--id", "a", "-q")
        self.work("exit 74", "--in-doubt", "hold", "--max-result", "17MiB")
        self.ok("doubt", "complete", "a", "--result", "@big")
        self.assertEqual(size, len(self.story()["result"]))
        self.ok("queue", "add", "l", "--ledger", "--max-result", "17MiB")
        token = str(self.ok("claim", "l", "k", "--json").line["token"])
        self.ok("complete", "l", "k", "--token", token, "--result", "@big")

    def test_a_loop_of_ones_own_gives_no_more_than_the_limit(self):
        self.ok("queue", "add", "l", "--ledger", "--max-result", "1000")
        token = str(self.ok("claim", "l", "k", "--json").line["token"])
        big = '"' + "x" * 999 + '"'
        error = self.refused(2, "complete", "l", "k", "--token", token, "--result", big)
        self.assertIn("Nothing was recorded", error)
        self.ok("complete", "l", "k", "--token", token, "--result", big[:-2] + '"')


@unittest.skipIf(NATS, "a file of SQLite")
class Format4(OnceTest):
    """A zone that the version before made, with results of which it kept the first MiB."""

    def setUp(self):
        super().setUp()
        (self.folder / "once.db").write_bytes(gzip.decompress(FORMAT_4.read_bytes()))

    def test_whole_results_are_there(self):
        self.assertEqual('{"ok":true}\n', self.ok("wait", "small").out)
        self.assertEqual("m" * 20_000 + "\n", self.ok("wait", "middle").out)
        self.ok("audit")
        self.ok("doctor")

    def test_a_cut_result_is_shown_as_cut_and_not_passed_on(self):
        error = self.refused(2, "wait", "cut")
        self.assertIn("its result is not whole", error)
        self.assertTrue(self.ok("inspect", "cut", "--json").line["queues"][0]["result_cut"])

    def test_a_whole_step_is_remembered_and_moved_out_of_its_record(self):
        self.ok("dead", "retry", "steps")
        self.ok("dead", "retry", "cut-step")
        program = self.script("program", "$ONCE_BIN step fetch -- touch ran > out.$ONCE_ID 2> err.$ONCE_ID")
        self.once("work", "q", "-q", "--until-empty", "--", program)
        self.assertFalse((self.folder / "ran").exists())
        self.assertEqual("s" * 30_000, (self.folder / "out.steps").read_text())
        self.assertEqual("", (self.folder / "out.cut-step").read_text())
        self.assertIn("only the first MiB of its output", (self.folder / "err.cut-step").read_text())
        self.assertEqual("completed", self.ok("inspect", "steps", "--json").line["queues"][0]["state"])


if __name__ == "__main__":
    unittest.main()
