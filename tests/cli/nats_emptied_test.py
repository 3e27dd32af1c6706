#!/usr/bin/env -S python3 -B
"""A zone on NATS that was emptied, or whose server came back without its data: no command goes on as
if nothing had been there."""

import json
import os
import shutil
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
        """A backup as `nats stream backup` takes it. Its chunks may arrive before the answer to the question."""
        about, chunks, whole = None, [], False
        question = json.dumps({"deliver_subject": "backup", "chunk_size": 65536})
        with nats_cluster.Connection(self.node.port) as line:
            line._send(f"SUB backup 2\r\nPUB $JS.API.STREAM.SNAPSHOT.{stream} {line.inbox}.1 {len(question)}\r\n"
                       f"{question}\r\n".encode())  # fmt: skip
            while not (about and whole):
                subscription, reply, data = self.message(line)
                if subscription == "1":
                    about = json.loads(data)
                elif not data:
                    whole = True
                else:
                    chunks.append(data)
                    if reply:
                        line._send(f"PUB {reply} 0\r\n\r\n".encode())
        return about, chunks

    @staticmethod
    def message(line):
        """The next message: its subscription, reply subject and payload."""
        while True:
            words = line.file.readline().decode().split()
            if words[0] not in ("MSG", "HMSG"):
                continue
            sizes = 2 if words[0] == "HMSG" else 1
            data = line.file.read(int(words[-1]) + 2)[:-2]
            reply = words[3] if len(words) == 4 + sizes else ""
            return words[2], reply, data[int(words[-2]) :] if sizes == 2 else data

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

    def make_anew(self, stream):
        config = self.api(f"STREAM.INFO.{stream}")["config"]
        self.api(f"STREAM.DELETE.{stream}")
        self.assertNotIn("error", self.api(f"STREAM.CREATE.{stream}", **config))

    def test_a_log_that_was_made_anew_before_a_worker_moved_the_marks(self):
        self.ok("queue", "add", "q", "--topic", "t")
        for task in ("a", "b"):
            self.ok("publish", "t", "--id", task, "-q")
        backup = self.snapshot("ONCE_main_LOG")
        self.make_anew("ONCE_main_LOG")
        for command in (["publish", "t", "--id", "a"], ["status"], ["queue", "list"]):
            said = self.refused(5, *command)
            self.assertIn("ONCE_main_LOG was deleted and made anew", said)
            self.assertIn("accepted anew", said)
        self.assertEqual(5, self.work().code)
        self.restore("ONCE_main_LOG", backup)
        self.assertEqual(0, self.work().code)
        self.assertEqual(["a", "b"], self.runs())

    def test_a_backup_of_an_empty_zone_is_restored(self):
        self.ok("queue", "add", "q", "--topic", "t")
        every = {stream: self.snapshot(stream) for stream in STREAMS}
        for stream, backup in every.items():
            self.restore(stream, backup)
        self.ok("publish", "t", "--id", "a", "-q")
        self.assertEqual(0, self.work().code)
        self.assertEqual(["a"], self.runs())

    def test_the_doctor_tells_everything_else_about_a_zone_whose_runs_were_purged(self):
        self.run_two()
        self.ok("flow", "add", "-", stdin='{"name":"w","steps":[{"id":"s","signal":"s"}]}')
        self.api("STREAM.PURGE.ONCE_main_KV")
        found = self.once("doctor", "--json")
        self.assertEqual(4, found.code, found.err)
        by_name = {line["finding"]: line for line in found.lines if "finding" in line}
        self.assertIn("ONCE_main_KV", by_name["unreadable"]["what"])
        self.assertEqual("hazard", by_name["unreadable"]["severity"])
        self.assertIn("sync_unknown", by_name)

    def test_a_purged_meta_bucket_gives_the_zone_no_new_identity(self):
        self.run_two()
        self.api("STREAM.PURGE.KV_once_main_meta")
        for _ in range(2):
            self.assertIn("KV_once_main_meta", self.refused(5, "publish", "t", "--id", "c"))
            self.assertIn("KV_once_main_meta", self.refused(5, "queue", "add", "q", "--topic", "t"))

    def test_a_worker_does_not_take_a_purged_meta_bucket_for_a_removed_queue(self):
        self.run_two()
        worker = self.start("work", "q", "-q", "--", "true")
        self.until(lambda: self.ok("status", "--json").lines[0]["workers"] == 1, "a worker")
        self.api("STREAM.PURGE.KV_once_main_meta")
        said = worker.communicate(timeout=60)[1].decode()
        self.assertEqual(5, worker.returncode, said)
        self.assertIn("UUID", said)

    def test_a_worker_notices_that_the_server_lost_what_it_wrote(self):
        self.run_two()
        self.node.kill()
        shutil.copytree(self.node.folder / "data", self.node.folder / "old")
        self.node.start()
        worker = self.start("work", "q", "-q", "--", "./run")
        self.until(lambda: self.once("publish", "t", "--id", "c", "-q").code == 0, "a publish")
        self.ok("wait", "c", "-q", "--timeout", "30s")
        self.node.kill()
        self.node.wipe()
        (self.node.folder / "old").rename(self.node.folder / "data")
        self.node.start()
        said = worker.communicate(timeout=60)[1].decode()
        self.assertEqual(5, worker.returncode, said)
        self.assertIn("lost writes", said)

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
            self.assertIn(f"there is no zone main on the NATS server at {self.node.url}", said)
            self.assertIn("lost its data", said)
            self.assertIn("once queue add", said)
        self.assertEqual([], self.streams())
        self.ok("queue", "add", "q", "--topic", "t")
        self.assertEqual(sorted(STREAMS), self.streams())
        self.ok("publish", "t", "--id", "a")


if __name__ == "__main__":
    os.environ.pop("ONCE_TEST_NATS", None)
    unittest.main()
