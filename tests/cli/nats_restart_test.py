#!/usr/bin/env -S python3 -B
"""A nats-server that is killed and started again: queues are changed at once, and nobody who is gone counts."""

import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import nats_cluster  # noqa: E402
from nats_node import MISSING, PROGRAM, NatsNode  # noqa: E402
from once_command import OnceTest  # noqa: E402

SECOND = 1_000_000_000
STREAMS = ("ONCE_main_LOG", "ONCE_main_WAKE")


@unittest.skipUnless(PROGRAM, MISSING)
class Restarted(OnceTest):
    def setUp(self):
        super().setUp()
        self.node = NatsNode()
        self.addCleanup(self.node.close)
        self.environment["ONCE_STORE"] = self.node.url
        self.node.start()
        self.ok("queue", "add", "q", "--topic", "t", "--lease", "30s")

    def restart(self):
        self.node.kill()
        self.node.start()
        nats_cluster.until(lambda: "error" not in self.api("INFO"), "JetStream")

    def api(self, question, **body):
        with nats_cluster.Connection(self.node.port) as line:
            return line.api(question, **body)

    def consumer(self, stream):
        (name,) = self.api(f"CONSUMER.NAMES.{stream}")["consumers"]
        return self.api(f"CONSUMER.INFO.{stream}.{name}")

    def leases(self):
        return {self.consumer(stream)["config"]["ack_wait"] // SECOND for stream in STREAMS}

    def cut_off(self, lease):
        """As a change is left that was cut off after the definition: the consumers have another lease."""
        for stream in STREAMS:
            config = {**self.consumer(stream)["config"], "ack_wait": lease * SECOND}
            name = config["durable_name"]
            self.api(f"CONSUMER.CREATE.{stream}.{name}", stream_name=stream, action="update", config=config)
        self.assertEqual({lease}, self.leases())

    def test_a_lease_is_set_right_after_a_restart(self):
        for lease in range(31, 36):
            self.restart()
            self.ok("queue", "set", "q", "--lease", f"{lease}s")
            self.assertEqual({lease}, self.leases())

    def test_a_worker_that_starts_finishes_a_change_that_was_cut_off(self):
        self.cut_off(7)
        self.restart()
        self.ok("work", "q", "--until-empty", "--", "true")
        self.assertEqual({30}, self.leases())

    def test_the_same_change_again_finishes_it(self):
        self.cut_off(7)
        self.restart()
        self.ok("queue", "set", "q", "--lease", "30s")
        self.assertEqual({30}, self.leases())

    def test_any_other_change_finishes_it(self):
        self.cut_off(7)
        self.ok("queue", "set", "q", "--attempts", "3")
        self.assertEqual({30}, self.leases())

    def test_a_worker_that_is_gone_does_not_count_after_its_record_expired(self):
        generation = self.consumer(STREAMS[0])["name"].removeprefix("q_")
        with nats_cluster.Connection(self.node.port) as line:
            line.put(f"$KV.once_main_meta.worker.q.{generation}.7", b"ghost", {"Nats-TTL": "3s"})
        expires = time.monotonic() + 3
        self.assertEqual(1, self.workers())
        self.node.kill()
        nats_cluster.until(lambda: time.monotonic() > expires, "the record's age")
        self.restart()
        held = self.api("STREAM.INFO.KV_once_main_meta", subjects_filter="$KV.once_main_meta.worker.>")
        self.assertEqual(0, self.workers(), held["state"])
        self.ok("publish", "t", "--id", "a", "-q")
        found = {line.get("finding") for line in self.once("doctor", "--json").lines}
        self.assertIn("nobody_works", found)

    def workers(self):
        return self.ok("status", "--json").lines[0]["workers"]


if __name__ == "__main__":
    unittest.main()
