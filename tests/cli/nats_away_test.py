#!/usr/bin/env -S python3 -B
"""A NATS server that is away: commands that end give it a few seconds, those that stay wait it out."""

import json
import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from nats_node import MISSING, PROGRAM, NatsNode  # noqa: E402
from once_command import OnceTest  # noqa: E402


@unittest.skipUnless(PROGRAM, MISSING)
class Away(OnceTest):
    def setUp(self):
        super().setUp()
        self.node = NatsNode()
        self.addCleanup(self.node.close)
        self.environment["ONCE_STORE"] = self.node.url

    def stay(self, *arguments):
        """Starts a command whose standard error can be read while it runs."""
        self.said = self.folder / "said"
        self.printed = self.folder / "printed"
        with open(self.said, "wb") as err, open(self.printed, "wb") as out:
            return self.start(*arguments, stdout=out, stderr=err)

    def says(self, text):
        self.until(lambda: text in self.said.read_text(), f"{text!r} on standard error", 60)

    def runs(self):
        path = self.folder / "runs"
        return sorted(path.read_text().split()) if path.exists() else []

    def test_a_command_that_ends_is_told_after_a_few_seconds(self):
        for command in (["publish", "t", "--id", "a"], ["status"]):
            began = time.monotonic()
            said = self.refused(5, *command)
            self.assertLess(time.monotonic() - began, 30)
            self.assertIn("cannot be reached", said)
        self.node.start()
        self.ok("publish", "t", "--id", "a", "-q")
        self.node.pause()
        began = time.monotonic()
        self.refused(5, "publish", "t", "--id", "b")
        self.assertLess(time.monotonic() - began, 40)
        self.node.resume()

    def test_a_runner_of_workflows_waits_for_its_server(self):
        self.node.start()
        definition = '{"name":"w","steps":[{"id":"paid","signal":"paid"}]}'
        self.ok("flow", "add", "-", stdin=definition)
        run = self.ok("flow", "start", "w", "--json").line["run"]
        self.node.kill()
        runner = self.stay("flow", "work", "--until-empty")
        self.says("trying again until it answers")
        self.node.start()
        self.says("driving runs")
        self.ok("flow", "signal", run, "paid", "--id", "1")
        self.assertEqual(0, runner.wait(60), self.said.read_text())

    def test_a_worker_waits_a_dead_server_out_and_runs_each_task_once(self):
        self.node.start()
        self.ok("publish", "t", "--id", "before", "-q")
        program = self.script("run", 'echo "$ONCE_ID" >>runs\n')
        worker = self.stay("work", "q", "--topic", "t", "--lease", "2s", "--", program)
        self.until(lambda: self.runs() == ["before"], "the first task")
        self.ok("wait", "before", "-q")
        self.node.kill()
        self.says(f"once: connection to {self.node.url} lost; trying again\n")
        self.node.start()
        self.says(f"once: connected again to {self.node.url} after ")
        self.ok("publish", "t", "--id", "later", "-q")
        self.ok("wait", "later", "-q", "--timeout", "60s")
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(0, worker.wait(60), self.said.read_text())
        self.assertEqual(["before", "later"], self.runs())
        for task in ("before", "later"):
            attempts = self.ok("inspect", task, "--json").line["queues"][0]["attempts"]
            self.assertEqual(["completed"], [each["outcome"] for each in attempts])

    def test_a_worker_that_comes_before_the_server_waits_for_it(self):
        program = self.script("run", 'echo "$ONCE_ID" >>runs\n')
        worker = self.stay("work", "q", "--topic", "t", "--", program)
        self.says("trying again until it answers")
        self.node.start()
        self.until(lambda: self.once("publish", "t", "--id", "a", "-q").code == 0, "a publish")
        self.until(lambda: self.runs() == ["a"], "the task")
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(0, worker.wait(60), self.said.read_text())

    def test_a_worker_does_not_go_on_in_a_zone_that_lost_its_data(self):
        self.node.start()
        self.ok("publish", "t", "--id", "a", "-q")
        program = self.script("run", 'echo "$ONCE_ID" >>runs\n')
        worker = self.stay("work", "q", "--topic", "t", "--", program)
        self.until(lambda: self.runs() == ["a"], "the task")
        self.ok("wait", "a", "-q")
        self.node.kill()
        self.node.wipe()
        self.node.start()
        self.assertEqual(5, worker.wait(60), self.said.read_text())
        self.assertIn("lost its data", self.said.read_text())
        self.assertEqual(["a"], self.runs())

    def test_followers_wait_too_and_quiet_ones_say_nothing(self):
        self.node.start()
        self.ok("publish", "t", "--id", "a", "-q")
        follower = self.stay("log", "-f", "--json", "-q")
        self.until(lambda: self.printed.read_text().count("\n") == 1, "the first entry")
        self.node.kill()
        self.node.start()
        self.until(lambda: self.once("publish", "t", "--id", "b", "-q").code == 0, "a publish")
        self.until(lambda: self.printed.read_text().count("\n") == 2, "the second entry", 60)
        follower.send_signal(signal.SIGTERM)
        self.assertEqual(0, follower.wait(60))
        ids = [json.loads(line)["id"] for line in self.printed.read_text().splitlines()]
        self.assertEqual(["a", "b"], ids)
        self.assertEqual("", self.said.read_text())


if __name__ == "__main__":
    unittest.main()
