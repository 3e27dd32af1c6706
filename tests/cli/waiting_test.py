#!/usr/bin/env -S python3 -B
"""Services that start before there is anything to work on: they say what they wait for."""

import signal
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import NATS, OnceTest  # noqa: E402

WORKFLOW = '{"name":"w","steps":[{"id":"paid","signal":"paid"}]}'


class Waiting(OnceTest):
    def setUp(self):
        super().setUp()
        self.leave_zone()

    def stay(self, *arguments):
        self.said = self.folder / "said"
        with open(self.said, "wb") as err:
            return self.start(*arguments, stderr=err)

    def says(self, process, text):
        def said():
            self.assertIsNone(process.poll(), self.said.read_text())
            return text in self.said.read_text()

        self.until(said, f"{text!r} on standard error")

    def drain(self, process):
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(30), self.said.read_text())

    def test_a_runner_waits_for_the_zone_then_for_a_workflow_then_drives_its_runs(self):
        runner = self.stay("flow", "work")
        self.says(runner, "there is no ")
        self.says(runner, "waiting until it is there")
        self.ok("queue", "add", "q", "--topic", "t")
        self.says(runner, "there is no workflow yet")
        self.ok("flow", "add", "-", stdin=WORKFLOW)
        self.says(runner, "driving runs")
        run = self.ok("flow", "start", "w", "--json").line["run"]
        self.ok("flow", "signal", run, "paid", "--id", "1")
        self.ok("flow", "wait", run, "-q", "--timeout", "30s")
        self.drain(runner)

    def test_a_runner_that_is_told_to_end_while_it_waits_has_not_failed(self):
        runner = self.stay("flow", "work")
        self.says(runner, "waiting until it is there")
        self.drain(runner)
        self.assertIn("ended by a signal before it could start", self.said.read_text())

    def test_a_runner_that_ends_when_nothing_is_left_waits_for_nothing(self):
        self.assertIn("there is no", self.refused(5, "flow", "work", "--until-empty"))
        self.ok("queue", "add", "q", "--topic", "t")
        self.assertIn("there is no workflow yet", self.refused(6, "flow", "work", "--until-empty"))

    def test_a_worker_with_a_topic_makes_its_queue_and_waits_for_tasks(self):
        program = self.script("run", 'echo "$ONCE_ID" >>runs\n')
        worker = self.stay("work", "q", "--topic", "t", "--", program)
        if NATS:  # a zone that is missing there may be one that was lost: nobody makes it in passing
            self.says(worker, "waiting until it is there")
            self.ok("queue", "add", "other", "--topic", "u")
        self.says(worker, "working on queue q")
        self.ok("publish", "t", "--id", "a", "-q")
        self.ok("wait", "a", "-q", "--timeout", "30s")
        self.drain(worker)

    def test_a_worker_does_not_wait_for_a_queue_that_nobody_described(self):
        self.refused(5, "work", "q", "--", "true")
        self.ok("queue", "add", "other", "--topic", "t")
        self.assertIn("no queue", self.refused(6, "work", "q", "--", "true"))


if __name__ == "__main__":
    unittest.main()
