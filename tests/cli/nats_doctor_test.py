#!/usr/bin/env -S python3 -B
"""once doctor on NATS: settings of servers, streams and consumers, edited for real."""

import json
import re
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import nats_cluster  # noqa: E402
from once_command import OnceTest  # noqa: E402

SECOND = 1_000_000_000


class NatsDoctorTest(OnceTest):
    nodes = 1

    @classmethod
    def setUpClass(cls):
        if nats_cluster.program() is None:
            raise unittest.SkipTest(nats_cluster.NONE)
        cls.cluster = nats_cluster.Cluster(cls.nodes)
        cls.ports = nats_cluster.free_ports(cls.nodes)
        for node, port in zip(cls.cluster.nodes, cls.ports):
            with open(node.configuration, "a") as more:
                more.write(f"http: 127.0.0.1:{port}\n")
        cls.configure()
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.end)

    @classmethod
    def configure(cls):
        pass

    def setUp(self):
        super().setUp()
        self.zone = re.sub(r"\W", "_", self.id().rsplit(".", 1)[-1])[-60:]
        self.environment["ONCE_STORE"] = self.cluster.url(self.zone)

    def doctor(self, *arguments):
        """Severities by code and what they are about."""
        answer = self.once("doctor", "--json", *arguments)
        self.assertIn(answer.code, (0, 4), answer.err)
        *findings, self.last = answer.lines
        self.code = answer.code
        self.findings = findings
        return {finding["finding"]: finding["severity"] for finding in findings}

    def serious(self, *arguments):
        return {code for code, severity in self.doctor(*arguments).items() if severity in ("hazard", "warning")}

    def api(self, question, **body):
        answer = self.cluster.ask(question, **body)
        self.assertIsNotNone(answer, question)
        self.assertNotIn("error", answer, question)
        return answer

    def edit(self, stream, **fields):
        config = self.api(f"STREAM.INFO.{stream}")["config"]
        self.api(f"STREAM.UPDATE.{stream}", **{**config, **fields})

    def what(self, code):
        return next(finding["what"] for finding in self.findings if finding["finding"] == code)


class Zone(NatsDoctorTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t")

    def consumer(self):
        (name,) = self.api(f"CONSUMER.NAMES.ONCE_{self.zone}_LOG")["consumers"]
        return name

    def test_a_healthy_zone(self):
        for n in range(6):
            self.ok("publish", "t", str(n), "-q")
        self.ok("work", "q", "-q", "--until-empty", "--", "true")
        found = self.doctor()
        self.assertEqual(set(), self.serious(), self.findings)
        self.assertEqual("unknown", found["sync_unknown"])
        self.assertEqual("unknown", found["room_unknown"])
        self.assertIn("not checked", self.what("room_unknown"))
        self.assertFalse([line for line in self.last["checked"] if line.endswith("and storage")], self.last)
        self.assertEqual(0, self.code)
        self.assertTrue(any(re.match(r"nats-server: n1 2\.\d+", line) for line in self.last["checked"]), self.last)

    def test_sync_interval_where_it_is_visible(self):
        monitor = f"http://127.0.0.1:{self.ports[0]}"
        self.assertEqual({"sync_interval"}, self.serious("--monitor", monitor))
        self.assertIn("2 min", self.what("sync_interval"))
        self.assertNotIn("sync_unknown", self.doctor("--monitor", monitor))
        self.assertNotIn("room_unknown", self.doctor("--monitor", monitor))
        found = self.doctor("--monitor", "http://127.0.0.1:1")
        self.assertEqual("unknown", found["monitor_silent"])
        self.assertEqual("unknown", found["sync_unknown"])
        self.refused(2, "doctor", "--monitor", "ftp://somewhere")

    def test_an_edited_stream(self):
        self.edit(f"ONCE_{self.zone}_LOG", max_age=3600 * SECOND)
        self.edit(f"ONCE_{self.zone}_WAKE", discard="old")
        self.refused(5, "status")  # nothing else is done in such a zone
        self.assertEqual({"stream_setting"}, self.serious())
        fields = [f["what"].split()[0] for f in self.findings if f["finding"] == "stream_setting"]
        self.assertEqual(["discard", "max_age"], sorted(fields))
        self.edit(f"ONCE_{self.zone}_LOG", max_age=0)
        self.edit(f"ONCE_{self.zone}_WAKE", discard="new")
        self.assertEqual(set(), self.serious())

    def test_an_edited_consumer(self):
        log, name = f"ONCE_{self.zone}_LOG", self.consumer()
        config = self.api(f"CONSUMER.INFO.{log}.{name}")["config"]
        for more in ({"max_deliver": 3}, {"backoff": [SECOND, 2 * SECOND], "max_deliver": 5}, {"max_ack_pending": 1}):
            self.api(f"CONSUMER.CREATE.{log}.{name}", stream_name=log, action="update", config={**config, **more})
            self.assertEqual({"consumer_edited"}, self.serious(), more)
            named = " ".join(f["what"] for f in self.findings)
            self.assertTrue(all(field in named for field in more), (more, named))
            self.ok("queue", "set", "q", "--lease", "30s")  # which it is: the consumer is set back
            self.assertEqual(set(), self.serious(), more)
        self.api(f"CONSUMER.PAUSE.{log}.{name}", pause_until=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 86400 * 365 * 70)))
        self.assertIn("consumer_paused", self.serious())
        self.api(f"CONSUMER.DELETE.{log}.{name}")
        self.assertEqual({"consumer_missing"}, self.serious())
        self.ok("work", "q", "-q", "--until-empty", "--", "true")
        self.assertEqual(set(), self.serious())

    def test_a_stream_that_is_nearly_full(self):
        self.edit(f"ONCE_{self.zone}_LOG", max_msgs=10)
        for n in range(9):
            self.ok("publish", "t", str(n), "-q")
        self.ok("work", "q", "-q", "--until-empty", "--", "true")
        self.assertEqual({"nearly_full"}, self.serious())

    def test_more_tasks_than_are_counted(self):
        lines = "".join(json.dumps({"id": str(n), "topic": "t" if n else "u"}) + "\n" for n in range(20_500))
        self.ok("publish", "--batch", "-", "-q", "--json", stdin=lines)
        found = self.doctor()
        self.assertEqual("warning", found["nobody_works"])
        self.assertEqual("warning", found["unrouted"])
        self.assertIn("20499 tasks", self.what("nobody_works"))
        self.assertIn("at least 1 task", self.what("unrouted"))
        self.assertTrue(any("may not be among them" in line for line in self.last["checked"]), self.last)


class StreamsOfOthers(NatsDoctorTest):
    def setUp(self):
        super().setUp()
        self.stream = "S_" + self.zone
        self.addCleanup(self.cluster.ask, f"STREAM.DELETE.{self.stream}")

    def bind(self, **config):
        self.api(f"STREAM.CREATE.{self.stream}", name=self.stream, subjects=[self.stream + ".>"], **config)
        self.ok("queue", "add", "q", "--stream", self.stream, "--key", "header:Nats-Msg-Id", "--attempts", "2")

    def publish(self, count, keyed=False):
        with self.cluster.nodes[0].connect() as line:
            for n in range(count):
                line.put(f"{self.stream}.x", str(n).encode(), {"Nats-Msg-Id": f"{n}"} if keyed else {})

    def test_a_healthy_one(self):
        self.bind(discard="new")
        self.assertEqual(set(), self.serious(), self.findings)
        self.assertEqual(0, self.code)

    def test_settings(self):
        self.api(f"STREAM.CREATE.{self.stream}_O", name=self.stream + "_O", subjects=["origin"])
        self.addCleanup(self.cluster.ask, f"STREAM.DELETE.{self.stream}_O")
        cases = [
            (dict(discard="old", max_msgs=10), {"stream_discards_old"}),
            (dict(discard="old", max_bytes=1 << 20), {"stream_discards_old"}),
            (dict(max_msgs_per_subject=1), {"stream_per_subject"}),
            (dict(max_age=10 * SECOND), {"stream_age_below_retries"}),
            (dict(max_age=86400 * SECOND), {"stream_max_age"}),
            (dict(storage="memory"), {"stream_in_memory"}),
            (dict(retention="interest"), {"stream_interest"}),
            (dict(no_ack=True), {"stream_no_ack"}),
            (dict(allow_rollup_hdrs=True), {"stream_rollup"}),
            (dict(allow_msg_ttl=True), {"stream_message_ttl"}),
            (dict(persist_mode="async"), {"stream_async"}),
            (dict(subjects=[], mirror={"name": self.stream + "_O"}), {"stream_mirror"}),
            (dict(retention="workqueue"), set()),
            (dict(discard="new", max_msgs=10), set()),
            (dict(sources=[{"name": self.stream + "_O"}]), set()),
        ]
        for config, expected in cases:
            with self.subTest(**config):
                self.api(f"STREAM.CREATE.{self.stream}", **{"name": self.stream, "subjects": [self.stream + ".>"], **config})
                self.ok("queue", "add", "q", "--stream", self.stream, "--key", "{id}", "--attempts", "2")
                self.assertEqual(expected, self.serious(), self.findings)
                self.ok("queue", "remove", "q", "--force")
                self.api(f"STREAM.DELETE.{self.stream}")

    def test_notes(self):
        self.bind(retention="workqueue", max_msgs=10, discard="new", duplicate_window=60 * SECOND)
        found = self.doctor()
        for code in ("stream_duplicate_window", "stream_forgets_ids", "stream_limit", "stream_purgeable", "single_server"):
            self.assertEqual("note", found[code])
        self.assertIn("60 s", self.what("stream_duplicate_window"))

    def test_other_consumers(self):
        self.bind(discard="new")
        recipe = dict(durable_name="recipe", ack_policy="explicit", ack_wait=300 * SECOND)
        recipe.update(backoff=[30 * SECOND, 60 * SECOND], max_deliver=3, max_ack_pending=1)
        self.api(f"CONSUMER.CREATE.{self.stream}.recipe", stream_name=self.stream, config=recipe)
        self.api(
            f"CONSUMER.CREATE.{self.stream}.fast", stream_name=self.stream,
            config=dict(durable_name="fast", ack_policy="none", deliver_subject="nobody"),
        )  # fmt: skip
        self.assertEqual(
            {"other_consumer_backoff", "other_consumer_max_deliver", "other_consumer_no_ack"}, self.serious()
        )
        self.assertIn("30 s", self.what("other_consumer_backoff"))
        self.assertIn("other_consumer_lock", self.doctor())

    def test_a_sealed_one(self):
        self.bind(discard="new")
        self.edit(self.stream, sealed=True)
        self.assertIn("stream_sealed", self.serious())

    def test_what_was_dropped_before_it_was_handed_over(self):
        self.bind(discard="old", max_msgs=1)
        self.publish(1)
        self.drained("work", "q", "-q", "--until-empty", "--", "true", exits=1)
        self.publish(3)
        self.assertEqual({"stream_discards_old", "stream_dropped"}, self.serious())
        self.assertIn("#2 to #3", self.what("stream_dropped"))
        self.drained("work", "q", "-q", "--until-empty", "--", "true", exits=1)  # and the next delivery hides nothing
        self.assertEqual({"stream_discards_old", "stream_dropped"}, self.serious())
        self.assertIn("2 messages", self.what("stream_dropped"))
        self.assertIn("#2 to #3", self.what("stream_dropped"))

    def test_what_was_deleted_among_others_and_before_any_was_handed_over(self):
        self.bind(discard="new")
        self.publish(4)
        self.api(f"STREAM.MSG.DELETE.{self.stream}", seq=1)
        self.api(f"STREAM.MSG.DELETE.{self.stream}", seq=3)
        self.drained("work", "q", "-q", "--until-empty", "--", "true", exits=1)
        self.assertIn("stream_dropped", self.serious())
        self.assertIn("#1, #3", self.what("stream_dropped"))

    def test_what_was_gone_before_there_was_a_queue_is_not_missed(self):
        subjects = [self.stream + ".>"]
        self.api(f"STREAM.CREATE.{self.stream}", name=self.stream, subjects=subjects, discard="new", retention="workqueue")
        self.publish(5)
        self.api(f"STREAM.PURGE.{self.stream}", keep=3)
        self.api(f"STREAM.MSG.DELETE.{self.stream}", seq=4)
        self.ok("queue", "add", "q", "--stream", self.stream, "--key", "header:Nats-Msg-Id")
        self.publish(2)
        self.drained("work", "q", "-q", "--until-empty", "--", "true", exits=1)
        self.assertNotIn("stream_dropped", self.doctor(), self.findings)

    def test_a_stream_that_was_made_anew_is_not_counted_with_the_old_one(self):
        self.bind(discard="new")
        self.publish(2, keyed=True)
        self.drained("work", "q", "-q", "--until-empty", "--", "true", exits=0)
        self.api(f"STREAM.DELETE.{self.stream}")
        for _ in range(2):  # while it is gone, and when it is there again
            queue = self.ok("status", "--json").lines[0]
            self.assertEqual((2, 0, 0), (queue["completed"], queue["waiting"], queue["dead"]), queue)
            audit = self.once("audit", "--json")
            self.assertEqual(0, audit.code, audit.out)
            self.assertIn("stream_gone", self.serious())
            self.ok("queue", "pause", "q")  # once it is, and again
            self.api(f"STREAM.CREATE.{self.stream}", name=self.stream, subjects=[self.stream + ".>"])
            self.publish(3, keyed=True)

    def test_a_stream_that_is_gone(self):
        self.bind(discard="new")
        self.api(f"STREAM.DELETE.{self.stream}")
        self.assertIn("stream_gone", self.serious())
        self.api(f"STREAM.CREATE.{self.stream}", name=self.stream, subjects=[self.stream + ".>"])
        self.assertIn("stream_gone", self.serious())


class Always(NatsDoctorTest):
    def test_a_monitor_of_another_server(self):
        self.ok("queue", "add", "q", "--topic", "t")
        with nats_cluster.Cluster() as stranger:
            (node,) = stranger.nodes
            node.kill()
            text = node.configuration.read_text().replace("server_name: n1", "server_name: other")
            (port,) = nats_cluster.free_ports(1)
            node.configuration.write_text(text + f"http: 127.0.0.1:{port}\n")
            node.start()
            nats_cluster.until(node.greets, "it greets")
            found = self.doctor("--monitor", f"http://127.0.0.1:{port}")
        self.assertEqual("unknown", found["monitor_stranger"])
        self.assertNotIn("sync_interval", found)

    @classmethod
    def configure(cls):
        (node,) = cls.cluster.nodes
        text = node.configuration.read_text().replace("jetstream {", "jetstream { sync_interval: always, max_file_store: 1GB, ")
        node.configuration.write_text(text)

    def test_every_write_is_synced(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.assertEqual(set(), self.serious("--monitor", f"http://127.0.0.1:{self.ports[0]}"))
        self.assertTrue(any("sync_interval always" in line for line in self.last["checked"]), self.last)


class ThreeNodes(NatsDoctorTest):
    nodes = 3

    def test_replicas(self):
        self.ok("queue", "add", "q", "--topic", "t")
        log = f"ONCE_{self.zone}_LOG"
        self.until(lambda: not self.serious(), "all replicas are current", seconds=90)
        monitors = [word for port in self.ports for word in ("--monitor", f"http://127.0.0.1:{port}")]
        found = self.doctor(*monitors)
        self.assertEqual("warning", found["sync_interval"])
        self.assertNotIn("versions_unseen", found)
        self.assertNotIn("sync_unknown", found)
        self.assertEqual("unknown", self.doctor(*monitors[:4])["sync_unknown"])
        self.assertIn("n3", self.what("sync_unknown"))
        self.edit(log, num_replicas=1)
        self.until(lambda: self.serious() == {"few_replicas"}, "one replica", seconds=90)
        self.edit(log, num_replicas=3)
        self.until(lambda: not self.serious(), "three again", seconds=90)
        leader = self.cluster.leader(f"KV_once_{self.zone}_ledger")
        other = next(node for node in self.cluster.nodes if node is not leader)
        other.kill()
        self.until(lambda: self._behind(other.name), "one is away", seconds=90)

    def _behind(self, name):
        answer = self.once("doctor", "--json")
        return answer.code == 4 and any(
            line.get("finding") == "replica_behind" and name in line["what"] for line in answer.lines
        )


if __name__ == "__main__":
    unittest.main()
