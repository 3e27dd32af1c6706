#!/usr/bin/env -S python3 -B
"""The well-known recipes on JetStream that lose or repeat tasks, those that need processes which are
killed; the others are in tests/unit/nats/recipes_test.cpp. First the recipe, then Once."""

import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / folder) for folder in ("system/support", "cli/support", "support")]
import nats_cluster  # noqa: E402
import once_command  # noqa: E402
from real_processes import SystemTest, alive, parent_of  # noqa: E402

server = None


def setUpModule():
    global server
    server = nats_cluster.Cluster().__enter__()
    unittest.addModuleCleanup(server.end)
    once_command.NATS = server.url()


class Recipe(SystemTest):
    def job_queue(self, name):
        """A work queue and its consumer, and a connection to both."""
        connection = server.nodes[0].connect()
        self.addCleanup(connection.close)
        for question, body in (
            (f"STREAM.CREATE.{name}", {"name": name, "subjects": [name], "retention": "workqueue"}),
            (
                f"CONSUMER.DURABLE.CREATE.{name}.c",
                {"stream_name": name, "config": {"durable_name": "c", "ack_policy": "explicit", "ack_wait": 10**9}},
            ),
        ):
            self.assertNotIn("error", connection.api(question, **body))
        connection.request(name, b"a")
        return connection


class R15_AnAgentKilledForItsMemory(Recipe):
    # It has its effect, and is killed before it can say so.
    AGENT = 'echo "$1$ONCE_ATTEMPT $ONCE_IDEMPOTENCY_KEY" >> effects; [ "$1$ONCE_ATTEMPT" = 2 ] || kill -9 $$'

    def setUp(self):
        super().setUp()
        self.agent = self.script("agent", self.AGENT)

    def test_the_recipe_counts_it_as_a_failure_and_has_the_effect_twice(self):
        jobs = self.job_queue("R15")
        for attempt in ("1", "2"):
            reply, data = jobs.pull("R15", "c")
            self.assertEqual(b"a", data)
            ended = subprocess.run([self.agent, attempt], cwd=self.folder)
            jobs.request(reply, b"+ACK" if ended.returncode == 0 else b"-NAK")
        self.assertEqual(2, len(self.read("effects").splitlines()))

    def test_once_holds_it_for_a_person(self):
        self.queue("--in-doubt", "hold")
        self.each(["a"])
        self.settle(self.agent, "", exits=1)
        self.assertEqual(1, len(self.read("effects").splitlines()))
        story = self.story("a")
        self.assertEqual("in_doubt", story["state"])
        self.assertEqual(True, story["attempts"][0]["in_doubt"])
        self.ok("doubt", "complete", "a", "--queue", "q", "--result", '"it is there"', "--yes")
        self.assertEqual("completed", self.story("a")["state"])
        self.assertEqual(1, len(self.read("effects").splitlines()))

    def test_once_that_may_retry_says_that_it_is_in_doubt(self):
        self.queue("--in-doubt", "retry", "--backoff", "10ms")
        self.each(["a"])
        self.settle(self.agent, "")
        effects = [line.split() for line in self.read("effects").splitlines()]
        self.assertEqual(["1", "2"], [attempt for attempt, _ in effects])
        self.assertEqual(1, len({key for _, key in effects}), "the outside world can tell")
        first, second = self.story("a")["attempts"]
        self.assertTrue(first["in_doubt"])
        self.assertEqual("completed", second["outcome"])


class R16_AWorkerKilledWhoseChildRunsOn(Recipe):
    # The first attempt holds a lock for as long as any of it lives; the second sees whether it does.
    AGENT = """
exec 9> "lock.$2"; flock -n 9 || touch overlap
if [ "$1$ONCE_ATTEMPT" = 1 ]; then
  trap '' TERM HUP INT
  (setsid sh -c 'trap "" TERM HUP; echo $$ > escaped; exec sleep 1000' &)
  echo $$ > program
  exec sleep 1000
fi
echo "$1$ONCE_ATTEMPT" >> effects
"""

    def setUp(self):
        super().setUp()
        self.agent = self.script("agent", self.AGENT)

    def test_the_recipes_child_runs_beside_its_successor(self):
        jobs = self.job_queue("R16")
        self.assertEqual(b"a", jobs.pull("R16", "c")[1])
        worker = subprocess.Popen(
            ["sh", "-c", f"{self.agent} 1 a & wait"],
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        family = self.pids("program", "escaped")
        for pid in family:
            self.addCleanup(os.kill, pid, signal.SIGKILL)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        self.assertEqual(b"a", jobs.pull("R16", "c", 30)[1], "it is redelivered to the next worker")
        subprocess.run([self.agent, "2", "a"], cwd=self.folder, check=True)
        self.assertTrue(all(map(alive, family)))
        self.assertTrue((self.folder / "overlap").exists())

    def test_onces_child_is_gone_before_its_successor_begins(self):
        self.queue("--lease", "2s")
        self.each(["a"])
        first = self.worker("first", "--", self.agent, "", "b")
        family = self.pids("program", "escaped")
        family.append(parent_of(family[0]))  # the supervisor
        second = self.worker("second", "--until-empty", "--", self.agent, "", "b")
        first.kill()
        self.gone(family)
        self.ends(second, seconds=60)
        self.assertFalse((self.folder / "overlap").exists(), "two attempts ran at once")
        self.assertEqual(["lost", "completed"], self.outcomes("a"))
        self.assertEqual("2\n", self.read("effects"))


if __name__ == "__main__":
    nats_cluster.end_without_server()
    unittest.main()
