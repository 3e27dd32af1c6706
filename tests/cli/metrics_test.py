#!/usr/bin/env -S python3 -B
"""Metrics are what really happened, under names that Prometheus likes, and serving them does no harm."""

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
import nats_node  # noqa: E402
from once_command import NATS, OnceTest  # noqa: E402
from prometheus import MISSING, PROMTOOL, Metrics, promtool  # noqa: E402

DOCS = Path(__file__).resolve().parents[2] / "docs"
# What a task's body says is what becomes of it. `gate` waits until the file of that name is there.
PROGRAM = """
echo "$ONCE_ID" >>runs
body=$(cat)
case $body in
  *gate*) while [ ! -e gate ]; do sleep 0.05; done ;;
  *fails*) [ "$ONCE_ATTEMPT" -gt 1 ] || exit 1 ;;
  *dies*) exit 65 ;;
  *unknown*) exit 74 ;;
esac
"""


class Port:
    """A worker that serves its metrics."""

    def __init__(self, test, *options):
        self.test = test
        program = test.script("run", PROGRAM)
        self.said = test.folder / f"said-{len(list(test.folder.glob('said-*')))}"
        with open(self.said, "wb") as err:
            self.process = test.start(
                "work", "q", "--metrics-port", "0", "--json", *options, "--", program, stderr=err
            )
        line = self.process.stdout.readline()
        test.assertTrue(line, self.said.read_text())
        self.number = json.loads(line)["metrics_port"]

    def get(self, path, method="GET", host="127.0.0.1"):
        line = http.client.HTTPConnection(host, self.number, timeout=60)
        try:
            line.request(method, path)
            answer = line.getresponse()
            return answer.status, answer.read().decode()
        finally:
            line.close()

    def metrics(self):
        status, text = self.get("/metrics")
        self.test.assertEqual(200, status, text)
        return Metrics(text)

    def starts(self):
        self.test.until(lambda: self.get("/healthz")[0] == 200, "a worker that is well", 60)

    def until(self, key, value):
        """Waits until it has grown to `value`."""
        self.starts()
        self.test.until(lambda: self.metrics()[key] >= value, f"{key}: {value}", 60)
        self.test.assertEqual(value, self.metrics()[key])

    def drain(self):
        self.process.send_signal(signal.SIGTERM)
        self.test.assertEqual(0, self.process.wait(60), self.said.read_text())


class MetricsTest(OnceTest):
    def publish(self, name, body=None):
        self.ok("publish", "t", body or json.dumps({"k": name}), "--id", name, "-q")

    def runs(self):
        path = self.folder / "runs"
        return path.read_text().split() if path.exists() else []

    def zone(self, *options):
        return Metrics(self.ok("metrics", *options).out)

    def lives(self):
        """One of everything; the worker that did it."""
        self.ok("queue", "add", "q", "--topic", "t", "--key", "{k}", "--in-doubt", "hold",
                "--backoff", "100ms", "--attempts", "2")  # fmt: skip
        for name in ("plain", "fails", "dies", "unknown"):
            self.publish(name)
        for _ in range(3):
            self.publish("plain")
        self.publish("same", '{"k":"plain"}')
        self.publish("other", '{"k":"plain","more":1}')
        self.ok("publish", "nowhere", "--id", "unrouted", "-q")
        worker = Port(self, "--worker", 'w "1"\\')
        worker.until("once_worker_completed_total", 2)
        worker.until("once_worker_dead_total", 2)
        worker.until("once_worker_in_doubt_total", 1)
        return worker


class Counts(MetricsTest):
    def test_a_worker_counts_what_it_did(self):
        worker = self.lives()
        worker.until(("once_worker_dedup_hits_total", "same_key", "ledger"), 2)
        metrics = worker.metrics()
        for name, value in {
            "claims": 5, "reclaims": 0, "completed": 2, "retries": 1, "in_doubt": 1, "dead": 2,
            "cancelled": 0, "given_back": 0, "fenced": 0,
        }.items():  # fmt: skip
            self.assertEqual(value, metrics[f"once_worker_{name}_total", "q", 'w "1"\\'], name)
        self.assertEqual(4, metrics["once_worker_start_seconds_count"])
        self.assertEqual(4, metrics["once_worker_start_seconds_bucket", "+Inf"])
        self.assertEqual(2, metrics["once_worker_record_seconds_count"])
        self.assertEqual(1, metrics["once_worker_store_up"])
        worker.until("once_worker_running_tasks", 0)
        worker.drain()

    def test_the_zone_tells_the_same_as_status(self):
        worker = self.lives()

        def quick(metrics):
            return {
                sample: value
                for sample, value in metrics.samples.items()
                if not re.search("worker_|oldest", sample[0])
            }

        expected = {}
        for line in self.ok("status", "--json").lines:
            for name, value in line.items():
                if name in ("scheduled", "waiting", "running", "retrying", "in_doubt", "completed",
                            "dead", "cancelled", "duplicate"):  # fmt: skip
                    expected["once_queue_tasks", (("queue", "q"), ("state", name))] = value
                elif name in ("workers", "paused"):
                    expected[f"once_queue_{name}", (("queue", "q"),)] = float(value)
                elif name == "unrouted":
                    expected["once_unrouted_tasks", ()] = value
        self.assertEqual(1, expected["once_unrouted_tasks", ()])
        self.assertEqual(expected, quick(self.zone("--quick")))
        self.until(lambda: quick(worker.metrics()) == expected, "the same at the port")
        self.assertGreater(self.zone("--quick")["once_queue_oldest_in_doubt_seconds"], 0)
        self.assertEqual(0, self.zone("--quick")["once_queue_oldest_waiting_seconds"])
        worker.drain()

    def test_the_zone_remembers_what_happened(self):
        self.lives().drain()
        zone = self.zone()
        for key, value in {
            ("once_tasks_published_total", "q"): 6,
            ("once_tasks_published_total", ""): 1,
            ("once_duplicates_total", "q", "append"): 3,
            ("once_duplicates_total", "q", "ledger"): 2,
            ("once_attempts_total", "q"): 5,
            ("once_reruns_total", "q", "failed"): 1,
            ("once_reruns_total", "q", "lost"): 0,
            ("once_completed_twice_total", "q"): 0,
            ("once_task_start_seconds_count", "q"): 4,
            ("once_task_start_seconds_bucket", "q", "+Inf"): 4,
            ("once_task_record_seconds_count", "q"): 2,
            ("once_audit_discrepancies",): 0,
        }.items():
            self.assertEqual(value, zone[key], key)

    def test_json_has_a_line_per_sample(self):
        self.lives().drain()
        text = self.zone("--quick").samples
        lines = {
            (line["metric"], tuple(line["labels"].items())): line["value"]
            for line in self.ok("metrics", "--quick", "--json").lines
        }
        self.assertEqual(set(text), set(lines))
        self.assertEqual(1, lines["once_queue_tasks", (("queue", "q"), ("state", "in_doubt"))])

    def suspend(self, process):
        """SIGSTOP, but not in the middle of a write that everybody else would wait for."""
        for _ in range(10):
            process.send_signal(signal.SIGSTOP)
            try:
                self.start("publish", "elsewhere", "--unique", "-q").wait(15)
                return
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGCONT)
        self.fail("it is always in the middle of a write")

    def test_workers_that_die_and_hang_are_reclaimed_from_and_fenced(self):
        self.ok("queue", "add", "q", "--topic", "t", "--lease", "4s")
        self.publish("gate")
        killed = Port(self)
        killed.until("once_worker_running_tasks", 1)
        killed.process.kill()
        killed.process.wait()
        hangs = Port(self)
        hangs.until("once_worker_reclaims_total", 1)
        hangs.until("once_worker_running_tasks", 1)
        self.suspend(hangs.process)
        takes_over = Port(self)
        takes_over.until("once_worker_reclaims_total", 1)
        (self.folder / "gate").touch()
        takes_over.until("once_worker_completed_total", 1)
        hangs.process.send_signal(signal.SIGCONT)
        hangs.until("once_worker_fenced_total", 1)
        self.assertEqual(0, hangs.metrics()["once_worker_completed_total"])
        self.assertEqual(0, hangs.metrics()["once_worker_record_seconds_count"])
        self.assertEqual(0, takes_over.metrics()["once_worker_start_seconds_count"])
        self.assertEqual(1, takes_over.metrics()["once_worker_record_seconds_count"])
        hangs.drain()
        takes_over.drain()
        zone = self.zone()
        self.assertEqual(3, zone["once_attempts_total"])
        self.assertEqual(2, zone["once_reruns_total", "lost"])
        self.assertEqual(0, zone["once_completed_twice_total"])

    def test_counts_never_go_back(self):
        for number in range(40):
            self.publish(f"{number}")
        worker = Port(self, "--topic", "t", "--concurrency", "4")
        worker.starts()
        before = {}
        while before.get(("done",), 0) < 40:
            metrics = worker.metrics()
            now = metrics.growing()
            for sample, value in before.items():
                self.assertGreaterEqual(now.get(sample, value), value, sample)
            before = {**now, ("done",): metrics["once_worker_completed_total"]}
            self.assertIsNone(worker.process.poll(), worker.said.read_text())
        worker.drain()


@unittest.skipIf(NATS, "not about the store")
class Serving(MetricsTest):
    def test_a_port_that_is_taken_ends_the_command_before_anything_is_claimed(self):
        self.publish("plain")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            said = self.refused(2, "work", "q", "--topic", "t", "--metrics-port", port, "--",
                                self.script("run", PROGRAM))  # fmt: skip
        self.assertIn(f"127.0.0.1:{port}", said)
        self.assertIn("nothing was claimed", said)
        self.assertEqual([], self.runs())
        self.assertEqual(1, self.ok("status", "--json").lines[-1]["unrouted"])
        self.refused(2, "work", "q", "--metrics-port", "65536", "--", "true")

    def test_it_answers_get_and_head_on_two_paths_of_the_loopback(self):
        worker = Port(self, "--topic", "t")
        worker.starts()
        self.assertEqual((200, "ok\n"), worker.get("/healthz"))
        self.assertEqual(200, worker.get("/healthz?verbose=1")[0])
        self.assertEqual((200, ""), worker.get("/metrics", "HEAD"))
        self.assertEqual(404, worker.get("/")[0])
        self.assertEqual(404, worker.get("/metrics/")[0])
        for method in ("POST", "DELETE", "OPTIONS"):
            self.assertEqual(405, worker.get("/metrics", method)[0])
        listening = self.listening(worker)
        self.assertTrue(listening)
        self.assertLessEqual(listening, {"0100007F", "00000000000000000000000001000000"})
        if len(listening) > 1:
            self.assertEqual(200, worker.get("/healthz", host="::1")[0])
        worker.drain()

    @staticmethod
    def listening(worker):
        """The local addresses that listen on its port, as the kernel writes them."""
        found = set()
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            if not Path(table).exists():
                continue
            for line in Path(table).read_text().splitlines()[1:]:
                _, local, _, state, *_ = line.split()
                address, port = local.split(":")
                if state == "0A" and int(port, 16) == worker.number:
                    found.add(address)
        return found

    def test_a_draining_worker_is_unwell_and_still_tells(self):
        self.publish("gate")
        worker = Port(self, "--topic", "t")
        worker.until("once_worker_running_tasks", 1)
        worker.process.send_signal(signal.SIGTERM)
        self.until(lambda: worker.get("/healthz")[0] == 503, "a worker that ends")
        self.assertIn("ending", worker.get("/healthz")[1])
        self.assertEqual(1, worker.metrics()["once_worker_running_tasks"])
        (self.folder / "gate").touch()
        self.assertEqual(0, worker.process.wait(60), worker.said.read_text())

    def exchange(self, worker, text):
        """What is answered, until the other side closes."""
        with socket.create_connection(("127.0.0.1", worker.number), timeout=60) as line:
            line.sendall(text)
            answer = b""
            try:
                while more := line.recv(65536):
                    answer += more
            except ConnectionResetError:
                pass
            return answer.decode()

    def test_bad_clients_do_no_harm(self):
        worker = Port(self, "--topic", "t")
        worker.starts()
        for text, status in {
            b"\0\xff\x01garbage\r\n\r\n": 400,
            b"GET\r\n\r\n": 400,
            b"GET /metrics\r\n\r\n": 400,
            b"GET http://elsewhere/metrics HTTP/1.1\r\n\r\n": 400,
            b"\n\n": 400,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": 505,
            b"GET /" + b"a" * 9_000: 431,
            b"GET /" + b"a" * 100_000: 431,
            b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 10_000: 431,
            b"GET /healthz HTTP/1.1\n\n": 200,
        }.items():
            answer = self.exchange(worker, text)
            # Who sends on and on may be cut off before it has read the answer.
            if answer or len(text) < 10_000:
                self.assertTrue(answer.startswith(f"HTTP/1.1 {status} "), (text[:40], answer))
        # More slow clients than there is room for, and some that leave in the middle.
        files = Path(f"/proc/{worker.process.pid}/fd")
        before = len(list(files.iterdir()))
        slow = [socket.create_connection(("127.0.0.1", worker.number)) for _ in range(40)]
        for line in slow:
            line.send(b"GET /met")
        self.assertEqual((200, "ok\n"), worker.get("/healthz"))
        self.assertLessEqual(len(list(files.iterdir())), before + 20)
        for line in slow[::2]:
            line.close()
        self.assertEqual((200, "ok\n"), worker.get("/healthz"))
        self.publish("plain")
        worker.until("once_worker_completed_total", 1)
        # None is waited for.
        for line in slow[1::2]:
            line.settimeout(60)
            try:
                self.assertEqual(b"", line.recv(100))
            except ConnectionResetError:
                pass
            line.close()
        worker.drain()


@unittest.skipIf(NATS, "has a server of its own")
@unittest.skipUnless(nats_node.PROGRAM, nats_node.MISSING)
class Away(MetricsTest):
    def test_health_follows_the_store_and_nothing_hangs(self):
        node = nats_node.NatsNode()
        self.addCleanup(node.close)
        self.environment["ONCE_STORE"] = node.url
        node.start()
        self.ok("queue", "add", "q", "--topic", "t", "--lease", "2s")
        node.kill()
        worker = Port(self)
        self.assertEqual(503, worker.get("/healthz")[0])
        self.assertIn("starting", worker.get("/metrics")[1])
        node.start()
        worker.starts()
        self.publish("plain")
        worker.until("once_worker_completed_total", 1)
        node.pause()
        self.until(lambda: worker.get("/healthz")[0] == 503, "a store that is missed", 60)
        self.assertIn("the store has not answered for ", worker.get("/healthz")[1])
        metrics = worker.metrics()
        self.assertEqual(0, metrics["once_worker_store_up"])
        self.assertEqual(1, metrics["once_worker_completed_total"])
        node.kill()
        self.assertEqual(503, worker.get("/healthz")[0])
        node.start()
        worker.starts()
        self.assertEqual(1, worker.metrics()["once_worker_store_up"])
        worker.drain()


class Names(MetricsTest):
    def printed(self):
        worker = self.lives()
        texts = [worker.metrics().text, self.zone().text]
        worker.drain()
        return texts

    @unittest.skipUnless(PROMTOOL, MISSING)
    def test_promtool_finds_nothing(self):
        for text in self.printed():
            done = promtool("check", "metrics", input=text)
            self.assertEqual((0, ""), (done.returncode, done.stdout))

    @unittest.skipUnless(PROMTOOL, MISSING)
    @unittest.skipIf(NATS, "opens no store")
    def test_alert_rules_are_sound_and_fire_when_they_should(self):
        for command in (
            ["check", "rules", DOCS / "alerts.yml"],
            ["test", "rules", Path(__file__).parent / "support/alerts_test.yml"],
        ):
            done = promtool(*command)
            self.assertEqual(0, done.returncode, done.stdout)

    def test_every_metric_is_in_the_docs_and_every_alert_is_about_one(self):
        port, zone = (Metrics(text).types for text in self.printed())
        page = (DOCS / "metrics.md").read_text()
        rows = dict(re.findall(r"^\| `(once_\w+)` \| (\w+) \|", page, re.M))
        self.assertEqual(rows, {**port, **zone})
        worker = {name for name in port if name.startswith("once_worker_")}
        self.assertFalse(worker & set(zone), "a worker's names are its own")
        self.assertEqual(set(port) - worker, set(Metrics(self.zone("--quick").text).types))
        rules = (DOCS / "alerts.yml").read_text()
        used = {re.sub("_bucket$", "", name) for name in re.findall(r"\bonce_\w+", rules)} - {"once_queue_"}
        self.assertLessEqual(used, set(rows))
        for alert in re.findall(r"alert: (\w+)", rules):
            self.assertIn(f"`{alert}`", page)


if __name__ == "__main__":
    unittest.main()
