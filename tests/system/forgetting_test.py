#!/usr/bin/env -S python3 -B
"""What is forgotten and what is not: ids outlive bodies and records, unrouted tasks do not age."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from real_processes import SystemTest  # noqa: E402


class Forgetting(SystemTest):
    def retire(self, what, *ages):
        """Runs the retention until it has taken one of them."""
        self.ok("retention", *ages)
        taken = {}

        def run():
            taken.update(self.ok("retention", "--run", "--json").line)
            return taken[what] == 1

        self.until(run, what)

    def still_known(self, receipt):
        self.assertEqual(
            {**receipt, "duplicate": True}, self.ok("publish", "t", '{"n":1}', "--id", "a", "--json").line
        )
        for other in [["t", '{"n":2}'], ["u", '{"n":1}'], ["t", '{"n":1}', "--raw"]]:
            answer = self.once("publish", *other, "--id", "a", "--json")
            self.assertEqual((3, "conflicting_duplicate"), (answer.code, answer.line["error"]))
            self.assertIsNone(answer.line["differs"])
            self.assertEqual((1, receipt["digest"]), (answer.line["sequence"], answer.line["digest"]))
        self.settle(self.program)
        self.assertEqual("ran\n", self.read("ran"), "it ran once")

    def test_a_duplicate_is_one_after_the_body_and_after_the_records_went(self):
        self.queue()
        receipt = self.ok("publish", "t", '{"n":1}', "--id", "a", "--json").line
        self.program = self.script("count", "echo ran >> ran")
        self.settle(self.program)
        self.retire("retired_bodies", "--bodies", "0s")
        self.still_known(receipt)
        self.retire("retired_records", "--records", "0s")
        self.still_known(receipt)
        self.assertEqual([], self.ok("list", "--json").lines)
        # Who asks is told, and nobody waits for a result that will not come.
        self.assertIn("settled long ago", self.ok("inspect", "a").out)
        for words in (("wait", "a"), ("wait", "a", "--queue", "q")):
            answer = self.once(*words)
            self.assertEqual(6, answer.code)
            self.assertIn("settled long ago", answer.err)
        # A queue that comes now has no body to run.
        self.queue(name="late")
        self.settle(self.program, queue="late")
        self.assertEqual("ran\n", self.read("ran"))
        # Only when ids are to go as well may it come again.
        self.retire("retired_ids", "--ids", "0s")
        again = self.ok("publish", "t", '{"n":1}', "--id", "a", "--json").line
        self.assertEqual((False, 2), (again["duplicate"], again["sequence"]))

    def test_an_unrouted_task_is_kept_counted_and_taken_by_a_later_queue(self):
        self.ok("retention", "--bodies", "0s", "--records", "0s", "--ids", "0s")
        for n in range(3):
            self.ok("publish", f"t.{n}", str(n), "--id", f"i{n}", "-q")
        for _ in range(3):
            self.assertEqual({0}, set(self.ok("retention", "--run", "--json").line.values()))
        self.assertEqual({"unrouted": 3}, self.ok("status", "--json").line)
        self.assertEqual([], self.ok("inspect", "i0", "--json").line["queues"])
        self.assertTrue(self.ok("publish", "t.0", "0", "--id", "i0", "--json", "-q").line["duplicate"])

        self.assertEqual(1, self.ok("queue", "add", "q", "--topic", "t.1", "--json").line["found"])
        self.assertEqual({"unrouted": 2}, self.ok("status", "--json").lines[-1])
        self.settle("cat")
        self.assertEqual("1\n", self.ok("wait", "i1").out)
        self.queue(name="rest", topic="t.>")
        self.assertEqual({"unrouted": 0}, self.ok("status", "--json").lines[-1])
        self.settle("cat", queue="rest")
        self.assertEqual(["0\n", "2\n"], [self.ok("wait", task).out for task in ("i0", "i2")])


if __name__ == "__main__":
    unittest.main()
