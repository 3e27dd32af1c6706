#!/usr/bin/env -S python3 -B
"""A zone on NATS that was emptied, or whose server came back without its data: no command goes on as
if nothing had been there."""

import json
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import nats_cluster  # noqa: E402
from nats_node import MISSING, PROGRAM, NatsNode  # noqa: E402
from once_command import OnceTest  # noqa: E402

STREAMS = [f"ONCE_main_{name}" for name in ("LOG", "WAKE", "COUNT", "OLD", "BLOB")]
STREAMS += ["KV_once_main_ledger", "KV_once_main_meta"]


@unittest.skipUnless(PROGRAM, MISSING)
class Emptied(OnceTest):
    def setUp(self):
        super().setUp()
        self.node = NatsNode()
        self.addCleanup(self.node.close)
        self.node.start()
        self.environment["ONCE_STORE"] = self.node.url

    def api(self, question, **body):
        with nats_cluster.Connection(self.node.port) as line:
            return line.api(question, **body)

    def streams(self):
        return sorted(self.api("STREAM.NAMES")["streams"] or [])

    def run_two(self):
        self.ok("queue", "add", "q", "--topic", "t")
        for task in ("a", "b"):
            self.ok("publish", "t", "--id", task, "-q")
        self.work()
        self.assertEqual(["a", "b"], self.runs())

    def work(self):
        program = self.script("run", 'echo "$ONCE_ID" >>runs\n')
        return self.once("work", "q", "--until-empty", "-q", "--", program)

    def runs(self):
        path = self.folder / "runs"
        return sorted(path.read_text().split()) if path.exists() else []

    def snapshot(self, stream):
        """A backup as `nats stream backup` takes it."""
        with nats_cluster.Connection(self.node.port) as line:
            chunks = []
            line._send(b"SUB backup 2\r\n")
            about = line.api(f"STREAM.SNAPSHOT.{stream}", deliver_subject="backup", chunk_size=65536)
            while True:
                reply, data = self.chunk(line)
                if not data:
                    return about, chunks
                chunks.append(data)
                if reply:
                    line._send(f"PUB {reply} 0\r\n\r\n".encode())

    @staticmethod
    def chunk(line):
        while True:
            words = line.file.readline().decode().split()
            if words[0] not in ("MSG", "HMSG"):
                continue
            sizes = 2 if words[0] == "HMSG" else 1
            data = line.file.read(int(words[-1]) + 2)[:-2]
            return words[3] if len(words) == 4 + sizes else "", data[int(words[-2]) :] if sizes == 2 else data

    def restore(self, stream, backup):
        about, chunks = backup
        self.api(f"STREAM.DELETE.{stream}")
        with nats_cluster.Connection(self.node.port) as line:
            begun = line.api(f"STREAM.RESTORE.{stream}", config=about["config"], state=about["state"])
            for chunk in [*chunks, b""]:
                answer = line.request(begun["deliver_subject"], chunk)
        self.assertNotIn("error", json.loads(answer))

    def test_every_command_refuses_a_zone_that_was_purged(self):
        self.run_two()
        for stream, harm in (("ONCE_main_LOG", "accepted anew"), ("KV_once_main_ledger", "run again")):
            backup = self.snapshot(stream)
            self.api(f"STREAM.PURGE.{stream}")
            for command in (["publish", "t", "--id", "a"], ["status"], ["list"], ["audit"], ["queue", "list"]):
                said = self.refused(5, *command)
                self.assertIn(stream, said)
                self.assertIn(harm, said)
            self.assertEqual(5, self.work().code)
            found = self.once("doctor", "--json")
            self.assertIn("zone_emptied", [line.get("finding") for line in found.lines])
            self.restore(stream, backup)
            self.ok("status")
        self.assertEqual(["a", "b"], self.runs())

    def test_a_purged_meta_bucket_gives_the_zone_no_new_identity(self):
        self.run_two()
        self.api("STREAM.PURGE.KV_once_main_meta")
        for _ in range(2):
            self.assertIn("KV_once_main_meta", self.refused(5, "publish", "t", "--id", "c"))
            self.assertIn("KV_once_main_meta", self.refused(5, "queue", "add", "q", "--topic", "t"))

    def test_a_ledger_from_an_older_backup_is_refused_and_a_backup_of_all_is_not(self):
        self.run_two()
        old = self.snapshot("KV_once_main_ledger")
        self.ok("publish", "t", "--id", "c", "-q")
        self.work()
        every = {stream: self.snapshot(stream) for stream in STREAMS}
        for stream, backup in every.items():
            self.restore(stream, backup)
        self.ok("status")
        self.assertEqual(0, self.work().code)
        self.assertEqual(["a", "b", "c"], self.runs())
        self.restore("KV_once_main_ledger", old)
        self.assertIn("older backup", self.refused(5, "status"))
        self.assertEqual(["a", "b", "c"], self.runs())

    def test_a_server_without_its_data_gets_no_new_zone_by_the_way(self):
        self.run_two()
        self.node.kill()
        self.node.wipe()
        self.node.start()
        program = self.script("run", "true\n")
        for command in (
            ["publish", "t", "--id", "a"],
            ["publish", "--batch", "-"],
            ["status"],
            ["list"],
            ["retention", "--bodies", "1d"],
            ["work", "q", "--topic", "t", "--until-empty", "--", program],
            ["flow", "list"],
        ):
            said = self.refused(5, *command)
            self.assertIn("there is no zone main", said)
            self.assertIn("lost its data", said)
            self.assertIn("once queue add", said)
        self.assertEqual([], self.streams())
        self.ok("queue", "add", "q", "--topic", "t")
        self.assertEqual(sorted(STREAMS), self.streams())
        self.ok("publish", "t", "--id", "a")


if __name__ == "__main__":
    os.environ.pop("ONCE_TEST_NATS", None)
    unittest.main()
