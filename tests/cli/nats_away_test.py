#!/usr/bin/env -S python3 -B
"""A NATS server that is away: commands that end give it a few seconds, those that stay wait it out."""

import json
import signal
import sys
import time
import unittest
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import nats_cluster  # noqa: E402
from nats_node import MISSING, PROGRAM, NatsNode  # noqa: E402
from once_command import OnceTest  # noqa: E402


@unittest.skipUnless(PROGRAM, MISSING)
class NatsTest(OnceTest):
    MONITORS = (["status", "--watch", "--json"], ["log", "-f", "--json"], ["audit", "--watch=1s", "--json"])

    def stay(self, *arguments, name="said"):
        """Starts a command whose standard error can be read while it runs."""
        self.said = self.folder / name
        self.printed = self.folder / f"{name}-printed"
        with open(self.said, "wb") as err, open(self.printed, "wb") as out:
            return self.start(*arguments, stdout=out, stderr=err)

    def says(self, text):
        self.until(lambda: text in self.said.read_text(), f"{text!r} on standard error", 60)

    def start_monitors(self):
        """Their processes, each with what it prints and what it says."""
        started = []
        for command in self.MONITORS:
            started.append((self.stay(*command, name="-".join(command[:2])), self.printed, self.said))
        return started

    def end_monitors(self, monitors):
        for process, printed, said in monitors:
            self.until(lambda: printed.read_text() or process.poll() is not None, f"{printed.name}", 60)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(0, process.wait(60), said.read_text())

    def runs(self):
        path = self.folder / "runs"
        return sorted(path.read_text().split()) if path.exists() else []


class Away(NatsTest):
    def setUp(self):
        super().setUp()
        self.node = NatsNode()
        self.addCleanup(self.node.close)
        self.environment["ONCE_STORE"] = self.node.url

    def begin(self):
        """A server with a zone."""
        self.node.start()
        self.ok("queue", "add", "q", "--topic", "t", "--lease", "2s")

    def test_a_command_that_ends_is_told_after_a_few_seconds(self):
        for command in (["publish", "t", "--id", "a"], ["status"]):
            began = time.monotonic()
            said = self.refused(5, *command)
            self.assertLess(time.monotonic() - began, 30)
            self.assertIn("cannot be reached", said)
            self.assertIn(self.node.url, said, "which server")
        self.begin()
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
        self.begin()
        self.ok("publish", "t", "--id", "before", "-q")
        program = self.script("run", 'echo "$ONCE_ID" >>runs\n')
        worker = self.stay("work", "q", "--", program)
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
        self.begin()
        self.node.kill()
        program = self.script("run", 'echo "$ONCE_ID" >>runs\n')
        worker = self.stay("work", "q", "--", program)
        self.says("trying again until it answers")
        self.node.start()
        self.until(lambda: self.once("publish", "t", "--id", "a", "-q").code == 0, "a publish")
        self.until(lambda: self.runs() == ["a"], "the task")
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(0, worker.wait(60), self.said.read_text())

    def test_monitors_that_come_before_the_server_wait_for_it(self):
        self.begin()
        self.ok("publish", "t", "--id", "a", "-q")
        self.node.kill()
        monitors = self.start_monitors()
        told_to_end = self.stay("status", "--watch")
        self.says("trying again until it answers")
        for process, _, said in monitors:
            self.until(lambda: "until it answers" in said.read_text() or process.poll(), "its wait", 60)
            self.assertIn(f"waiting for {self.node.url}: ", said.read_text())
            self.assertIsNone(process.poll(), said.read_text())
        told_to_end.send_signal(signal.SIGTERM)
        self.assertEqual(0, told_to_end.wait(60), self.said.read_text())
        self.assertIn("ended by a signal", self.said.read_text())
        self.node.start()
        self.end_monitors(monitors)

    def test_a_monitor_does_not_wait_for_a_zone_that_nobody_made(self):
        self.node.start()
        for command in self.MONITORS:
            answer = self.once(*command)
            self.assertEqual(5, answer.code, answer.err)
            self.assertIn("there is no zone", answer.err)

    def test_a_worker_does_not_go_on_in_a_zone_that_lost_its_data(self):
        self.begin()
        self.ok("publish", "t", "--id", "a", "-q")
        program = self.script("run", 'echo "$ONCE_ID" >>runs\n')
        worker = self.stay("work", "q", "--", program)
        self.until(lambda: self.runs() == ["a"], "the task")
        self.ok("wait", "a", "-q")
        self.node.kill()
        self.node.wipe()
        self.node.start()
        self.assertEqual(5, worker.wait(60), self.said.read_text())
        self.assertIn("lost its data", self.said.read_text())
        self.assertEqual(["a"], self.runs())

    def test_followers_wait_too_and_quiet_ones_say_nothing(self):
        self.begin()
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

    def test_a_worker_waits_for_a_stream_of_others_unless_it_ends_by_itself(self):
        self.begin()
        bound = ["work", "orders", "--stream", "ORDERS", "--key", "{id}"]
        self.assertIn("ORDERS", self.refused(6, *bound, "--until-empty", "--", "true"))
        worker = self.stay(*bound, "--", self.script("run", 'echo "$ONCE_KEY" >>runs\n'))
        self.says("there is no stream 'ORDERS'")
        with nats_cluster.Connection(self.node.port) as line:
            line.api("STREAM.CREATE.ORDERS", name="ORDERS", subjects=["orders.>"])
            line.request("orders.new", b'{"id":"a"}')
        self.until(lambda: self.runs() == ["a"], "the message")
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(0, worker.wait(60), self.said.read_text())

    def test_a_login_that_is_refused_is_not_waited_for(self):
        with open(self.node.folder / "users", "w") as users:
            users.write('authorization { user: "a", password: "b" }\n')
        self.node.start("-c", self.node.folder / "users")
        self.assertIn("refused the login", self.refused(5, "work", "q", "--topic", "t", "--", "true"))
        self.assertIn("refused the login", self.refused(5, "flow", "work"))


class WithoutQuorum(NatsTest):
    """Three nodes. Two of them are paused: the third leads everything, answers and stores nothing."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = nats_cluster.Cluster(3)
        (cls.monitor,) = nats_cluster.free_ports(1)
        with open(cls.cluster.nodes[0].configuration, "a") as more:
            more.write(f"http: 127.0.0.1:{cls.monitor}\n")
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.end)

    def setUp(self):
        super().setUp()
        self.environment["ONCE_STORE"] = self.cluster.url(self.folder.name)

    def leader_of_the_cluster(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}/jsz", timeout=5) as answer:
            name = json.load(answer).get("meta_cluster", {}).get("leader")
        return next((node for node in self.cluster.nodes if node.name == name), None)

    def lead_everything(self, node):
        for stream in self.cluster.ask("STREAM.NAMES")["streams"]:
            def leads():
                leader = self.cluster.leader(stream)
                if leader is not None and leader is not node:
                    self.cluster.ask(f"STREAM.LEADER.STEPDOWN.{stream}", placement={"preferred": node.name})
                return leader is node

            self.until(leads, f"{node.name} leads {stream}", 60)

    def test_services_that_start_without_a_quorum_wait_for_it(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.ok("flow", "add", "-", stdin='{"name":"w","steps":[{"id":"paid","signal":"paid"}]}')
        self.ok("publish", "unrouted", "--id", "before", "-q")
        leader = nats_cluster.until(self.leader_of_the_cluster, "a leader")
        self.lead_everything(leader)
        url = f"nats://127.0.0.1:{leader.port}/{self.folder.name}"
        self.environment["ONCE_STORE"] = url
        others = [node for node in self.cluster.nodes if node is not leader]
        for node in others:
            node.pause()
        services = {
            "working on queue q,": ["work", "q", "--", self.script("run", 'echo "$ONCE_ID" >>runs\n')],
            "working on queue new,": ["work", "new", "--topic", "n", "--", "true"],
            "driving runs": ["flow", "work"],
            "ended by a signal": ["work", "q", "--", "true"],
        }
        started = []
        try:
            # A leader that has not yet noticed its loss may still answer those that only read.
            monitors = self.start_monitors()
            for says, command in services.items():
                started.append((self.stay(*command, name=f"said-{len(started)}"), self.said, says))
            for process, said, _ in started:
                self.until(lambda: "until it answers" in said.read_text() or process.poll(), "its wait", 60)
                self.assertIn(f"waiting for {url}: ", said.read_text())
                self.assertIsNone(process.poll(), said.read_text())
            for process, _, said in monitors:
                self.assertIsNone(process.poll(), said.read_text())
            started[-1][0].send_signal(signal.SIGTERM)
            self.assertEqual(0, started[-1][0].wait(60), started[-1][1].read_text())
        finally:
            for node in others:
                node.resume()
        self.end_monitors(monitors)
        for process, said, says in started:
            self.until(lambda: says in said.read_text(), says, 60)
        self.until(lambda: self.once("publish", "t", "--id", "a", "-q").code == 0, "a publish", 60)
        self.until(lambda: self.runs() == ["a"], "the task", 60)
        for process, said, _ in started[:-1]:
            process.send_signal(signal.SIGTERM)
            self.assertEqual(0, process.wait(60), said.read_text())


if __name__ == "__main__":
    unittest.main()
