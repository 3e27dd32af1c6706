#!/usr/bin/env -S python3 -B
"""docs/ordering.md: what it says about order is so."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import BIN, OnceTest  # noqa: E402

DOC = (Path(__file__).resolve().parents[2] / "docs/ordering.md").read_text()


class Order(OnceTest):
    def ran(self):
        return (self.folder / "ran").read_text().split()

    def test_one_at_a_time_runs_in_order_while_nothing_fails(self):
        self.ok("queue", "add", "q", "--topic", "t", "--max-running", "1")
        for number in range(12):
            self.ok("publish", "t", str(number), "--id", f"n{number}")
        program = self.script("note", 'mkdir running || echo twice >> ran; cat >> ran; echo >> ran; rmdir running')
        workers = [self.start("work", "q", "-q", "--concurrency", "4", "--until-empty", "--", program) for _ in range(2)]
        for worker in workers:
            self.assertEqual(0, worker.wait(timeout=60))
        self.assertEqual([str(number) for number in range(12)], self.ran())

    def test_a_task_that_failed_is_overtaken(self):
        self.ok("queue", "add", "q", "--topic", "t", "--max-running", "1", "--backoff", "1s")
        for number in range(3):
            self.ok("publish", "t", str(number), "--id", f"n{number}")
        program = self.script("note", 'test "$ONCE_ID$ONCE_ATTEMPT" != n01 || exit 1; cat >> ran; echo >> ran')
        self.ok("work", "q", "-q", "--until-empty", "--", program)
        self.assertEqual(["1", "2", "0"], self.ran())

    def test_a_key_is_no_lane(self):
        self.ok("queue", "add", "q", "--topic", "t", "--key", "{customer}")
        self.ok("publish", "t", '{"customer":1}', "--id", "a")
        self.ok("publish", "t", '{"customer":1}', "--id", "b")
        self.ok("work", "q", "-q", "--until-empty", "--", "true")
        states = {item["id"]: item["state"] for item in self.ok("list", "--json").lines}
        self.assertEqual({"a": "completed", "b": "duplicate"}, states)

    def test_the_workflow_of_the_page_is_sound(self):
        definition = DOC.split("```json\n")[1].split("```")[0]
        self.assertEqual("release", json.loads(definition)["name"])
        self.ok("flow", "add", "--check", "-", stdin=definition)

    def test_the_chain_of_the_page(self):
        program = DOC.split("```sh\n")[1].split("```")[0]
        program = program.replace('do-the-work "$n"', 'echo "$n" >> ran; test "$n" -lt 5')
        program = program.replace("once publish", f"{BIN} -q publish")
        self.ok("queue", "add", "q", "--topic", "chain.*", "--attempts", "1")
        self.ok("publish", "chain.next", "1", "--id", "chain-1")
        self.once("work", "q", "-q", "--concurrency", "4", "--until-empty", "--", self.script("link", program))
        self.assertEqual(["1", "2", "3", "4", "5"], self.ran())


if __name__ == "__main__":
    unittest.main()
