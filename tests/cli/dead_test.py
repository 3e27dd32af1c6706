#!/usr/bin/env -S python3 -B
"""once dead list, show, retry, drop; and what all commands by id or filter have in common."""

import os
import pty
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import OnceTest, steady  # noqa: E402


class Dead(OnceTest):
    """Tasks a (rate limit), b and [c,d] (no such order) are dead in q; a waits in r."""

    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t.>", "--attempts", "1")
        self.ok("queue", "add", "r", "--topic", "t.a")
        for topic, task in [("a", "a"), ("b", "b"), ("c", "[c,d]"), ("d", "fine")]:
            self.ok("publish", "t." + topic, "--id", task)
        self.program = self.script(
            "judge",
            "[ -e healed ] && { echo $ONCE_ATTEMPT; exit; }\n"
            'case $ONCE_ID in fine) ;; a) echo "rate limit" >&2; exit 1 ;;'
            ' *) echo "no such order" >&2; exit 65 ;; esac\n',
        )
        self.work(exits=1)

    def work(self, exits):
        self.drained("work", "q", "-q", "--worker", "w", "--until-empty", "--", self.program, exits=exits)

    def dead(self, *arguments):
        return [item["id"] for item in self.ok("dead", "list", "--json", *arguments).lines]

    def queue(self, task, name="q"):
        queues = self.ok("inspect", task, "--json").line["queues"]
        return next(queue for queue in queues if queue["queue"] == name)

    def test_list(self):
        self.assertEqual(["a", "b", "[c,d]"], self.dead())
        self.assertEqual(["a"], self.dead("--error", "rate"))
        self.assertEqual([], self.dead("--error", "nothing like it"))
        self.assertEqual(["b"], self.dead("--topic", "t.b"))
        self.assertEqual([], self.dead("--queue", "r"))
        self.assertEqual(["a", "b"], self.dead("--limit", "2"))
        self.assertEqual(3, len(self.dead("--since", "1h")))
        self.assertEqual([], self.dead("--older-than", "1h"))
        self.assertEqual(3, len(self.dead("--older-than", "2999-01-01")))
        self.refused(6, "dead", "list", "--queue", "nope")
        self.refused(2, "dead", "list", "--topic", "a..b")
        self.assertEqual(
            self.ok("list", "--json", "--state", "dead", "--error", "rate", "--older-than", "0s").out,
            self.ok("dead", "list", "--json", "--error", "rate").out,
        )

    def test_show(self):
        shown = self.ok("dead", "show", "a", "--json").line
        self.assertEqual(["q"], [queue["queue"] for queue in shown["queues"]])
        self.assertIn("rate limit", self.ok("dead", "show", "a").out)
        self.ok("dead", "show", "a", "--queue", "q")
        self.assertIn("waiting in queue r", self.refused(1, "dead", "show", "a", "--queue", "r"))
        self.assertIn("completed in queue q", self.refused(1, "dead", "show", "fine"))
        self.refused(6, "dead", "show", "nope")

    def test_retry_is_part_of_the_story(self):
        answer = self.ok("dead", "retry", "a", "--reason", "limit raised", "--by", "ada", "--json")
        self.assertEqual({"id": "a", "queue": "q", "outcome": "retried"}, answer.line)
        self.assertEqual("waiting", self.queue("a")["state"])
        self.assertEqual(["b", "[c,d]"], self.dead())
        self.assertIn("waiting in queue q", self.refused(1, "dead", "retry", "a"))
        (self.folder / "healed").touch()
        self.work(exits=0)
        story = self.queue("a")
        self.assertEqual(("completed", 2, ["failed", "completed"]),
                         (story["state"], story["result"], [a["outcome"] for a in story["attempts"]]))  # fmt: skip
        (action,) = story["story"]
        self.assertEqual(["what", "at", "by", "why", "step"], list(action))
        self.assertEqual(("retried", "ada", "limit raised", None),
                         tuple(action[n] for n in ("what", "by", "why", "step")))  # fmt: skip
        self.assertEqual(["b", "[c,d]"], self.dead())
        self.assertIn("retried by ada: limit raised", self.ok("inspect", "a").out)

    def test_a_bad_one_does_not_stop_the_others(self):
        answer = self.once("dead", "retry", "fine", "nope", "b", "b", "[c,d]", "--json")
        self.assertEqual(1, answer.code)
        self.assertEqual(
            [("fine", "wrong_state"), ("nope", "not_found"), ("b", "retried"), ("[c,d]", "retried")],
            [(line["id"], line.get("outcome", line.get("error"))) for line in answer.lines],
        )
        self.assertEqual(["a"], self.dead())
        self.assertEqual(6, self.once("dead", "retry", "nope", "fine").code)

    def test_drop(self):
        self.assertIn("a in queue q is dropped", self.ok("dead", "drop", "a").out)
        dropped = self.queue("a")
        self.assertEqual(("cancelled", "dropped"), (dropped["state"], dropped["story"][0]["what"]))
        self.assertRegex(dropped["story"][0]["by"], r"\A[^@]+@.+\Z")
        self.assertEqual("waiting", self.queue("a", "r")["state"])
        self.refused(1, "dead", "retry", "a")
        self.refused(1, "wait", "a", "--queue", "q")

    def test_only_in_a_queue(self):
        self.assertIn("there is no queue nope", self.refused(6, "dead", "retry", "a", "--queue", "nope"))
        self.refused(1, "dead", "retry", "a", "--queue", "r")
        self.refused(6, "dead", "retry", "b", "--queue", "r")
        self.ok("dead", "retry", "a", "--queue", "q")

    def test_filters(self):
        answer = self.ok("dead", "retry", "--error", "no such", "--yes", "--json")
        self.assertEqual(["b", "[c,d]"], [line["id"] for line in answer.lines])
        self.assertEqual(["a"], self.dead())
        answer = self.ok("dead", "drop", "--queue", "q", "--yes")
        self.assertEqual(1, answer.out.count("dropped"))
        answer = self.ok("dead", "drop", "--all", "--yes")
        self.assertEqual(("", "once: no dead tasks match\n"), (answer.out, answer.err))

    def test_a_limit_and_a_time(self):
        self.ok("dead", "retry", "--limit", "2", "--yes")
        self.assertEqual(["[c,d]"], self.dead())
        self.ok("dead", "retry", "--older-than", "1h", "--yes")
        self.ok("dead", "retry", "--since", "2999-01-01", "--yes")
        self.assertEqual(["[c,d]"], self.dead())
        self.ok("dead", "retry", "--topic", "t.*", "--since", "1h", "--yes")
        self.assertEqual([], self.dead())

    def test_more_than_a_page(self):
        self.ok("queue", "add", "many", "--topic", "m", "--attempts", "1")
        lines = "".join(f'{{"topic":"m","id":"m{n}"}}\n' for n in range(1100))
        self.ok("publish", "--batch", "-", stdin=lines)
        self.ok("queue", "pause", "many")
        answer = self.ok("cancel", "--queue", "many", "--dry-run", "--json")
        self.assertEqual({f"m{n}" for n in range(1100)}, {line["id"] for line in answer.lines})

    def test_dry_run(self):
        answer = self.ok("dead", "retry", "--all", "--dry-run", "--json")
        self.assertEqual(
            [{"id": task, "queue": "q", "outcome": "retried", "dry_run": True} for task in ["a", "b", "[c,d]"]],
            answer.lines,
        )
        self.assertIn("a in queue q would be dropped", self.ok("dead", "drop", "a", "--dry-run").out)
        self.refused(1, "dead", "drop", "fine", "--dry-run")
        self.assertEqual(3, len(self.dead()))

    def test_off_a_terminal_yes_is_needed(self):
        message = self.refused(2, "dead", "retry", "--queue", "q")
        self.assertIn("3 dead tasks match; nothing was done", message)
        self.assertIn("--yes", message)
        self.assertIn("1 dead task matches", self.refused(2, "dead", "drop", "--error", "rate"))
        self.assertEqual(3, len(self.dead()))

    def asked(self, answer):
        parent, child = pty.openpty()
        process = self.start("dead", "drop", "--queue", "q", stdin=child, stderr=child)
        os.close(child)
        said = b""
        while b"[y/N] " not in said:
            said += os.read(parent, 4096)
        os.write(parent, answer)
        out = process.stdout.read()
        code = process.wait(timeout=60)
        os.close(parent)
        self.assertIn(b"3 dead tasks match; drop them?", said)
        return code, out

    def test_on_a_terminal_it_asks(self):
        for answer in [b"n\n", b"\n", b"maybe\n", b"\x04"]:
            self.assertEqual((1, b""), self.asked(answer))
            self.assertEqual(3, len(self.dead()))
        code, out = self.asked(b"y\n")
        self.assertEqual((0, 3), (code, out.count(b"is dropped")))
        self.assertEqual([], self.dead())

    def test_what_people_see(self):
        said = ""
        for arguments in [
            ["dead", "list"],
            ["dead", "show", "a"],
            ["dead", "retry", "--error", "rate", "--dry-run"],
            ["dead", "retry", "a", "--reason", "limit raised", "--by", "ada"],
            ["dead", "drop", "b", "--reason", "a test", "--by", "ada"],
            ["inspect", "b"],
        ]:
            said += f"$ once {' '.join(arguments)}\n{self.ok(*arguments).out}"
        self.golden("dead.txt", steady(said))


if __name__ == "__main__":
    unittest.main()
