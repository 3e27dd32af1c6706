#!/usr/bin/env -S python3 -B
"""The C++ examples, each with its bad moment: killed, delivered twice, or refused."""

import json
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from example import ExampleTest  # noqa: E402

PROGRAMS = Path(os.environ["ONCE_CPP_EXAMPLES"])


class CppTest(ExampleTest):
    def program(self, name, *arguments, stdin="", code=0):
        """Runs the example to its end and returns the lines that it printed."""
        done = subprocess.run(
            [PROGRAMS / f"example_{name}", self.store, *arguments],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        return done.stdout.splitlines()

    def ids(self):
        return [line["id"] for line in self.ok("log", "--json").lines]


class Worker(CppTest):
    def test_a_worker_killed_after_the_charge_charges_once(self):
        said = self.program("worker", "bank", "--die-after-charge", code=-signal.SIGKILL)
        self.assertEqual(["attempt 1"], said)
        charges = self.lines("bank")
        self.assertEqual(1, len(charges), charges)
        said = self.program("worker", "bank")
        number = "charge-" + charges[0][:8]
        self.assertEqual(
            [
                "attempt 2, in doubt",
                "the probe asks the bank",
                f"receipt for {number}",
                "attempt 1: lost",
                "attempt 2: completed",
            ],
            said,
        )
        self.assertEqual(charges, self.lines("bank"))
        self.assertEqual(
            [("charge", "done", 1), ("receipt", "done", 1)], self.steps("order-1", "payments")
        )

    def test_a_second_start_finds_the_task_done(self):
        self.program("worker", "bank")
        self.assertEqual(["attempt 1: completed"], self.program("worker", "bank"))
        self.assertEqual(1, len(self.lines("bank")))


class Publisher(CppTest):
    REQUESTS = [f'r-{n} {{"n":{n}}}\n' for n in range(200)]

    def test_each_request_gets_one_result_also_above_the_limit(self):
        same, other = self.REQUESTS[7], 'r-8 {"n":80}\n'
        said = self.program("publisher", stdin="".join([*self.REQUESTS, same, other]))
        self.assertEqual(
            ["first result", "r-8: conflicting_duplicate", "200 accepted, 1 duplicates, 1 refused"],
            said,
        )
        self.assertEqual([f"r-{n}" for n in range(200)], self.ids())

    def test_a_publisher_that_was_killed_publishes_the_rest_when_it_starts_again(self):
        process = subprocess.Popen(
            [PROGRAMS / "example_publisher", self.store],
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self._end, process)
        process.stdin.write("".join(self.REQUESTS[:100]))
        process.stdin.flush()
        self.assertEqual("first result\n", process.stdout.readline())
        process.kill()
        self.assertEqual(-signal.SIGKILL, process.wait(timeout=30))
        published = self.ids()
        said = self.program("publisher", stdin="".join(self.REQUESTS))
        self.assertEqual(
            f"{200 - len(published)} accepted, {len(published)} duplicates, 0 refused", said[-1]
        )
        self.assertEqual([f"r-{n}" for n in range(200)], self.ids())


class LedgerLoop(CppTest):
    def test_a_message_that_is_delivered_twice_has_one_effect(self):
        said = self.program("ledger_loop", "effects", stdin="m-1 m-2 m-1")
        self.assertEqual(["m-1: sent", "m-2: sent", "m-1: completed"], said)
        self.assertEqual(["m-1", "m-2"], self.lines("effects"))

    def test_a_loop_killed_after_the_effect_does_not_repeat_it(self):
        said = self.program(
            "ledger_loop", "effects", "--die-after", "m-2", stdin="m-1 m-2", code=-signal.SIGKILL
        )
        self.assertEqual(["m-1: sent"], said)
        said = self.program("ledger_loop", "effects", stdin="m-1 m-2 m-3")
        self.assertEqual(["m-1: completed", "m-2: found, not sent again", "m-3: sent"], said)
        self.assertEqual(["m-1", "m-2", "m-3"], self.lines("effects"))


class Workflow(CppTest):
    def test_repeated_starts_are_one_run_and_a_changed_order_is_refused(self):
        said = self.program("workflow")
        self.assertEqual(
            [
                "changed start: conflicting_duplicate at $.order.amount",
                "charge 120 in attempt 2",
                'completed {"charge":"pay_1","receipt":"sent"}',
                "receipt for pay_1",
                "second start: the same run",
            ],
            sorted(said),
        )
        again = self.program("workflow")
        self.assertIn('completed {"charge":"pay_1","receipt":"sent"}', again)
        self.assertFalse([line for line in again if line.startswith("charge")], again)
        runs = [json.loads(line) for line in self.ok("flow", "runs", "--json").out.splitlines()]
        self.assertEqual(1, len(runs), runs)


if __name__ == "__main__":
    unittest.main()
