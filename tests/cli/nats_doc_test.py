#!/usr/bin/env -S python3 -B
"""docs/nats.md: its server configurations start as they stand there, and its commands do what it says."""

import json
import re
import subprocess
import sys
import unittest
import urllib.request
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "cli" / "support"), str(TESTS / "support")]
import nats_cluster  # noqa: E402
from once_command import OnceTest  # noqa: E402

DOC = (TESTS.parent / "docs" / "nats.md").read_text()
CONFIGURATIONS = re.findall(r"```\n(server_name:.*?)```", DOC, re.DOTALL)
NAMES = ["nats-1", "nats-2", "nats-3"]
STREAMS = re.search(r"for stream in (.*); do", DOC).group(1).split()


@unittest.skipIf(nats_cluster.program() is None, nats_cluster.NONE)
class Configurations(OnceTest):
    def start_servers(self, configuration, names):
        """As it stands there, with ports and folders of this test's."""
        clients = dict(zip(names, nats_cluster.free_ports(len(names))))
        others = nats_cluster.free_ports(2 * len(names))
        monitors, routes = dict(zip(names, others)), dict(zip(names, others[len(names):]))
        for name in names:
            text = configuration.replace("server_name: nats-1", f"server_name: {name}")
            text = text.replace("0.0.0.0:4222", f"127.0.0.1:{clients[name]}")
            text = text.replace("127.0.0.1:8222", f"127.0.0.1:{monitors[name]}")
            text = text.replace("0.0.0.0:6222", f"127.0.0.1:{routes[name]}")
            text = text.replace("/var/lib/nats", str(self.folder / name))
            for other in names:
                text = text.replace(f"nats://{other}:6222", f"nats://127.0.0.1:{routes[other]}")
            file = self.folder / f"{name}.conf"
            file.write_text(text)
            server = subprocess.Popen([nats_cluster.program(), "-c", file],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(self._end, server)
        self.store = "nats://" + ",".join(f"127.0.0.1:{port}" for port in clients.values()) + "/shop"
        self.port = clients[names[0]]
        self.monitor = f"http://127.0.0.1:{monitors[names[0]]}"

    def ask(self, question, **body):
        with nats_cluster.Connection(self.port) as connection:
            return connection.api(question, **body)

    def replicas(self, name):
        """How many a new stream can have, of those that are asked for; none while there is no leader."""
        try:
            made = self.ask(f"STREAM.CREATE.{name}", name=name, subjects=[name], num_replicas=len(NAMES))
            self.ask(f"STREAM.DELETE.{name}")
            return made.get("config", {}).get("num_replicas")
        except OSError:
            return None

    def add_workflow(self):
        """The first one makes the stream of values."""
        file = self.folder / "workflow.json"
        file.write_text('{"name":"w","on_missing_key":"run_unprotected","steps":[{"id":"go","signal":"go"}]}')
        self.ok("flow", "add", file, "--store", self.store)

    def test_both_pass_the_servers_own_check(self):
        self.assertEqual(2, len(CONFIGURATIONS))
        for configuration in CONFIGURATIONS:
            file = self.folder / "nats.conf"
            file.write_text(configuration.replace("/var/lib/nats", str(self.folder / "data")))
            checked = subprocess.run([nats_cluster.program(), "-t", "-c", file], capture_output=True, text=True)
            self.assertEqual(0, checked.returncode, checked.stderr)

    def test_one_node_keeps_a_zone_and_lets_it_go_again(self):
        self.start_servers(CONFIGURATIONS[0], NAMES[:1])
        self.until(lambda: self.once("queue", "add", "q", "--topic", "t", "--store", self.store).code == 0, "it is up", 60)
        self.ok("publish", "t", "--id", "a", "--store", self.store)
        self.add_workflow()
        with urllib.request.urlopen(f"{self.monitor}/varz", timeout=30) as told:
            self.assertTrue(json.load(told)["jetstream"]["config"]["sync_always"])
        self.assertEqual({*STREAMS}, {*self.ask("STREAM.NAMES")["streams"]})
        for stream in STREAMS:
            self.assertTrue(self.ask(f"STREAM.DELETE.{stream}")["success"])
        self.refused(5, "status", "--store", self.store)
        self.ok("queue", "add", "q", "--topic", "t", "--store", self.store)
        self.ok("retention", "--bodies", "1d", "--records", "1d", "--ids", "5d", "--store", self.store)

    def test_three_nodes_keep_three_replicas(self):
        self.start_servers(CONFIGURATIONS[1], NAMES)
        self.until(lambda: self.replicas("READY") == 3, "a leader that knows all three", 60)
        self.ok("queue", "add", "q", "--topic", "t", "--store", self.store)
        self.add_workflow()
        for stream in STREAMS:
            self.assertEqual(3, self.ask(f"STREAM.INFO.{stream}")["config"]["num_replicas"], stream)
        self.ok("publish", "t", "--id", "a", "--store", self.store)
        self.assertTrue(self.ok("publish", "t", "--id", "a", "--json", "--store", self.store).line["duplicate"])


class Links(unittest.TestCase):
    def test_each_leads_to_a_file(self):
        for link in re.findall(r"\]\(([^)#]+)\)", DOC):
            self.assertTrue((TESTS.parent / "docs" / link).exists(), link)


if __name__ == "__main__":
    unittest.main()
