#!/usr/bin/env -S python3 -B
"""once serve: the zone over HTTP."""

import calendar
import http.client
import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from nats_node import MISSING, PROGRAM, NatsNode  # noqa: E402
from once_command import NATS, OnceTest  # noqa: E402
from openapi import check_reply  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
JSON = "application/json"
NDJSON = "application/x-ndjson"


class Reply:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def lines(self):
        return [json.loads(line) for line in self.text.splitlines()]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class ServeTest(OnceTest):
    def serve(self, *arguments, **options):
        """A server on a free port. Returns its process; self.port is the port."""
        process = self.start("serve", *(arguments or ["--listen", ":0"]), **options)
        line = process.stderr.readline().decode()
        self.assertRegex(line, r"\Aonce: listening on (http://\S+:\d+|unix:\S+)\n\Z")
        self.process, self.port = process, int(line.rsplit(":", 1)[1]) if "http:" in line else None
        return process

    def connect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)
        self.addCleanup(connection.close)
        return connection

    def ask(self, method, path, body=None, type=None, connection=None, **headers):
        """`headers` have underscores in the place of hyphens."""
        if isinstance(body, (dict, list)):
            body, type = json.dumps(body), type or JSON
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        if type:
            names["Content-Type"] = type
        used = connection or self.connect()
        used.request(method, path, body, names)
        reply = Reply(used.getresponse())
        if not connection:
            used.close()
        if self.port and type in (None, JSON, NDJSON):
            check_reply(self, method, path, body if type == JSON else None, reply.status, reply.headers["Content-Type"], reply.text)
        return reply

    def get(self, path, status=200):
        reply = self.ask("GET", path)
        self.assertEqual(status, reply.status, reply.text)
        return reply.json

    def publish(self, topic, body, id, status=201):
        reply = self.ask("POST", f"/v1/topics/{topic}?id={id}", body)
        self.assertEqual(status, reply.status, reply.text)
        return reply.json

    def problem(self, status, code, reply):
        """The reply is a problem document; returns it."""
        self.assertEqual(status, reply.status, reply.text)
        self.assertEqual("application/problem+json", reply.headers["Content-Type"])
        given = reply.json
        self.assertEqual((status, code), (given["status"], given["code"]))
        for name in ["type", "title", "detail"]:
            self.assertIsInstance(given[name], str)
        for name in ["retryable", "in_doubt"]:
            self.assertIsInstance(given[name], bool)
        self.assertNotIn("once ", given["detail"])  # no words of the command
        self.assertNotIn("--", given["detail"])
        return given

    def raw(self, *pieces):
        """A connection that has sent these bytes."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.addCleanup(connection.close)
        for piece in pieces:
            connection.sendall(piece)
        return connection

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(timeout=30))

    def work(self, queue, program):
        return self.once("work", queue, "--until-empty", "--", self.script("program", program))


class Publishing(ServeTest):
    def setUp(self):
        super().setUp()
        self.serve()

    def test_publish_a_task_and_its_duplicate(self):
        first = self.ask("POST", "/v1/topics/orders.new?id=a", {"n": 1, "m": 2})
        self.assertEqual((201, None), (first.status, first.headers["Once-Duplicate"]))
        self.assertEqual(["id", "sequence", "duplicate", "digest"], list(first.json))
        again = self.ask("POST", "/v1/topics/orders.new", '{"m":2, "n":1.0}', JSON, Idempotency_Key="a")
        self.assertEqual((200, "true"), (again.status, again.headers["Once-Duplicate"]))
        self.assertEqual({**first.json, "duplicate": True}, again.json)
        quoted = self.ask("POST", "/v1/topics/orders.new", {"n": 1, "m": 2}, Idempotency_Key='"a"')
        self.assertEqual(200, quoted.status)
        self.assertEqual(first.json["digest"], self.ok("inspect", "a", "--json").line["digest"])

    def test_a_conflict_names_what_differs(self):
        self.publish("t", {"amount": 1}, "a")
        given = self.problem(422, "conflicting_duplicate", self.ask("POST", "/v1/topics/t?id=a", {"amount": 2}))
        self.assertEqual(["$.amount"], given["differs"])
        self.assertNotEqual(given["digest"], given["given_digest"])
        self.assertEqual(1, len(self.get("/v1/log")["entries"]))

    def test_bodies(self):
        for body, type, expected in [
            ('"x"', JSON, {"body": "x"}), ("[1]", "Application/JSON; charset=utf-8", {"body": [1]}),
            ("hello", "text/plain", {"body": "hello", "text": True}), (b"\0\xff", None, {"raw": "AP8="}),
            (None, None, {"body": None}),
        ]:  # fmt: skip
            with self.subTest(body=body):
                sequence = self.ask("POST", "/v1/topics/t", body, type).json["sequence"]
                (entry,) = self.get(f"/v1/log?after={sequence - 1}&limit=1")["entries"]
                self.assertEqual(expected, {**expected, **{name: entry.get(name) for name in expected}})

    def test_names_are_percent_decoded(self):
        self.assertEqual("a:b/c d", self.publish("t%2Eu", {"n": 1}, "a%3Ab%2Fc+d")["id"])
        self.assertEqual("t.u", self.get("/v1/tasks/a%3Ab%2Fc%20d")["topic"])
        self.problem(404, "not_found", self.ask("GET", "/v1/tasks/a:b"))
        self.problem(400, "invalid_input", self.ask("GET", "/v1/tasks/%zz"))

    def test_times(self):
        self.ask("POST", "/v1/topics/t?id=a&delay=1h&expires=2h", {})
        entry = self.get("/v1/tasks/a")
        self.assertLess(entry["published_at"], entry["not_before"])
        self.assertLess(entry["not_before"], entry["expires"])
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        self.assertEqual(201, self.ask("POST", f"/v1/topics/t?id=b&at={at}", {}).status)
        seconds = lambda text: calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))  # noqa: E731
        self.assertAlmostEqual(seconds(at), seconds(self.get("/v1/tasks/b")["not_before"]), delta=2)

    def test_bad_input_publishes_nothing(self):
        for path, body, headers in [
            ("?id=a", "{", {}), ("?id=a", "", {}), ("?id=a", '{"a":1,"a":2}', {}), ("?id=", "1", {}),
            ("?delay=1", "1", {}), ("?delay=1h&at=2999-01-01", "1", {}), ("?expires=soon", "1", {}),
            ("?wrong=1", "1", {}), ("?id=a&id=a", "1", {}), ("?id=%", "1", {}),
            ("?id=a", "1", {"Idempotency_Key": "b"}), ("", "1", {"Once_Run": "r"}), ("", "1", {"oncE_step": "r"}),
        ]:  # fmt: skip
            with self.subTest(path=path, body=body, headers=headers):
                self.problem(400, "invalid_input", self.ask("POST", "/v1/topics/t" + path, body, JSON, **headers))
        self.problem(400, "invalid_input", self.ask("POST", "/v1/topics/a..b", "1", JSON))
        self.problem(415, "invalid_input", self.ask("POST", "/v1/topics/t", "1", "application/x-www-form-urlencoded"))
        self.problem(413, "too_large", self.ask("POST", "/v1/topics/t", b"x" * ((1 << 20) + 1)))
        self.assertEqual([], self.get("/v1/log")["entries"])
        self.assertEqual(201, self.ask("POST", "/v1/topics/t", "1", JSON, Once_Try="n1").status)

    def test_batch(self):
        lines = ['{"topic":"t","id":"a","body":1,"headers":{"H":"1"}}', "", "nonsense",
                 '{"topic":"t","id":"a","body":2}', '{"topic":"t","id":"a","body":1,"headers":{"H":"1"}}',
                 '{"topic":"t","wrong":1}']  # fmt: skip
        reply = self.ask("POST", "/v1/tasks:batch", "\n".join(lines), NDJSON)
        self.assertEqual((200, NDJSON), (reply.status, reply.headers["Content-Type"]))
        self.assertEqual([1, 3, 4, 5, 6], [line["line"] for line in reply.lines])
        self.assertEqual([None, "invalid_input", "conflicting_duplicate", None, "invalid_input"],
                         [line.get("error") for line in reply.lines])  # fmt: skip
        self.assertEqual([False, True], [line["duplicate"] for line in reply.lines if "duplicate" in line])
        self.assertEqual(["$"], reply.lines[2]["differs"])
        self.problem(415, "invalid_input", self.ask("POST", "/v1/tasks:batch", "{}", JSON))

    def test_a_batch_of_many_lines(self):
        lines = "".join('{"topic":"t","id":"n%d"}\n' % n for n in range(2500))
        reply = self.ask("POST", "/v1/tasks:batch", lines, NDJSON)
        self.assertEqual([f"n{n}" for n in range(2500)], [line["id"] for line in reply.lines])


class Reading(ServeTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t.>", "--attempts", "1", "--in-doubt", "hold")
        self.serve()

    def test_the_same_json_as_the_command(self):
        self.publish("t.a", {"n": 1}, "a")
        self.publish("t.a", {"n": 2}, "later")
        self.ask("POST", "/v1/topics/t.a?id=due&delay=1h", {})
        self.ok("cancel", "later")
        self.assertEqual(self.ok("inspect", "a", "--json").line, self.get("/v1/tasks/a"))
        self.assertEqual(self.ok("list", "--json").lines, self.get("/v1/tasks")["tasks"])
        self.assertEqual(self.ok("log", "--json").lines, self.get("/v1/log")["entries"])
        self.assertEqual(self.ok("queue", "list", "--json").lines, self.get("/v1/queues")["queues"])
        self.assertEqual(self.ok("queue", "show", "q", "--json").line, self.get("/v1/queues/q"))
        *queues, unrouted = self.ok("status", "--json").lines
        status = self.get("/v1/status")
        for queue in queues + status["queues"]:
            del queue["oldest_waiting_s"]  # it grows between the two
        self.assertEqual({"queues": queues, **unrouted}, status)
        self.assertEqual(self.once("wait", "later", "--json").lines[0], self.get("/v1/tasks/later/result")["results"][0])
        steady = [line for line in self.ok("metrics").out.splitlines() if "oldest" not in line]
        served = self.ask("GET", "/metrics")
        self.assertTrue(served.headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        self.assertEqual(steady, [line for line in served.text.splitlines() if "oldest" not in line])
        self.assertNotIn("once_tasks_total", self.ask("GET", "/metrics?quick=true").text)

    def test_pages(self):
        for n in range(5):
            self.publish("t.a" if n % 2 else "t.b", {"n": n}, f"n{n}")
        ids, after = [], ""
        while after is not None:
            page = self.get(f"/v1/tasks?limit=2{after and '&after=' + after}")
            ids += [task["id"] for task in page["tasks"]]
            after = page["after"]
        self.assertEqual([f"n{n}" for n in range(5)], ids)
        self.assertEqual(["n1", "n3"], [task["id"] for task in self.get("/v1/tasks?topic=t.a&queue=q&state=waiting")["tasks"]])
        self.assertEqual([], self.get("/v1/tasks?state=dead")["tasks"])
        page = self.get("/v1/log?limit=2&topic=t.b")
        self.assertEqual((["n0", "n2"], 3), ([entry["id"] for entry in page["entries"]], page["after"]))
        page = self.get("/v1/log?limit=2&topic=t.b&after=3")
        self.assertEqual((["n4"], None), ([entry["id"] for entry in page["entries"]], page["after"]))

    def test_what_is_not_there(self):
        for path in ["/v1/tasks/none", "/v1/tasks/none/result", "/v1/queues/none", "/v1/tasks?queue=none", "/", "/v1",
                     "/v1/tasks/", "/v2/tasks", "/v1/tasks/a/b/c"]:  # fmt: skip
            with self.subTest(path=path):
                self.problem(404, "not_found", self.ask("GET", path))

    def test_bad_parameters(self):
        for path in ["/v1/tasks?state=done", "/v1/tasks?limit=0", "/v1/tasks?limit=x", "/v1/tasks?after=x", "/v1/tasks?x=1",
                     "/v1/log?after=-1", "/v1/log?limit=100000", "/v1/status?x=1", "/v1/tasks/a/result?wait=5",
                     "/v1/tasks/a/result?wait=1d", "/metrics?quick=1"]:  # fmt: skip
            with self.subTest(path=path):
                self.problem(400, "invalid_input", self.ask("GET", path))

    def test_the_wrong_method(self):
        for method, path, allow in [("PUT", "/v1/tasks/a", "GET, HEAD"), ("GET", "/v1/tasks:batch", "POST"),
                                    ("POST", "/v1/queues/q", "DELETE, GET, HEAD, PATCH, PUT"), ("POST", "/healthz", "GET, HEAD")]:  # fmt: skip
            with self.subTest(path=path):
                reply = self.ask(method, path)
                self.problem(405, "invalid_input", reply)
                self.assertEqual(allow, reply.headers["Allow"])

    def test_health(self):
        self.assertEqual({"ok": True}, self.get("/healthz"))
        self.assertEqual({"ready": True}, self.get("/readyz"))
        head = self.ask("HEAD", "/v1/status")
        self.assertEqual((200, ""), (head.status, head.text))


class Waiting(ServeTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t", "--attempts", "1", "--in-doubt", "hold")
        self.serve()

    def test_a_parked_request_is_answered_when_the_task_is_settled(self):
        self.publish("t", {}, "a")
        self.assertEqual({"id": "a", "settled": False, "results": []}, self.get("/v1/tasks/a/result", 202))
        replies = []
        waiters = [threading.Thread(target=lambda: replies.append(self.ask("GET", "/v1/tasks/a/result?wait=60s&queue=q")))
                   for _ in range(20)]  # fmt: skip
        for waiter in waiters:
            waiter.start()
        self.assertEqual({"ready": True}, self.get("/readyz"))  # more wait than the pool has threads
        self.assertEqual(0, self.work("q", "echo 42").code)
        for waiter in waiters:
            waiter.join()
        self.assertEqual([200] * 20, [reply.status for reply in replies])
        settled = {"id": "a", "queue": "q", "state": "completed", "result": 42}
        self.assertEqual({"id": "a", "settled": True, "results": [settled]}, replies[0].json)
        self.assertEqual(self.ok("wait", "a", "--json").lines, replies[0].json["results"])

    def test_events_tell_the_counts_when_they_change(self):
        listeners = [self.raw(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").makefile("rb") for _ in range(3)]
        for listener in listeners:
            self.assertEqual(b"HTTP/1.1 200 OK\r\n", listener.readline())
            while line := listener.readline().strip():
                self.assertFalse(line.lower().startswith(b"content-length"), line)
            self.assertEqual(b"event: status\n", listener.readline())
            self.assertEqual(self.get("/v1/status"), json.loads(listener.readline().removeprefix(b"data: ")))
            listener.readline()
        self.publish("t", {}, "a")
        for listener in listeners:
            self.assertEqual(b"event: status\n", listener.readline())
            self.assertEqual(1, json.loads(listener.readline().removeprefix(b"data: "))["queues"][0]["waiting"])
        self.process.send_signal(signal.SIGTERM)  # streams do not hold up the end
        self.assertEqual(0, self.process.wait(timeout=10))

    def test_a_wait_ends_with_its_time(self):
        self.publish("t", {}, "a")
        began = time.monotonic()
        self.assertFalse(self.get("/v1/tasks/a/result?wait=300ms", 202)["settled"])
        self.assertGreaterEqual(time.monotonic() - began, 0.3)
        self.publish("unrouted", {}, "b")
        self.assertFalse(self.get("/v1/tasks/b/result?wait=50ms", 202)["settled"])

    def test_dead_and_in_doubt_tasks(self):
        self.publish("t", {}, "dead")
        self.work("q", "echo no >&2; exit 1")
        (dead,) = self.get("/v1/tasks/dead/result?wait=60s")["results"]
        self.assertEqual(("dead", None), (dead["state"], dead["result"]))
        self.assertEqual(self.once("wait", "dead", "--json").lines[0], dead)
        self.publish("t", {}, "doubt")
        self.work("q", "exit 74")
        (doubt,) = self.get("/v1/tasks/doubt/result?wait=60s&queue=q")["results"]
        self.assertEqual("in_doubt", doubt["state"])

    def test_a_client_that_leaves_gives_its_place_back(self):
        self.publish("t", {}, "a")
        for _ in range(600):  # more than the server parks at the same time
            self.raw(b"GET /v1/tasks/a/result?wait=300s HTTP/1.1\r\nHost: localhost\r\n\r\n").close()
        self.until(lambda: self.ask("GET", "/v1/tasks/a/result?wait=1ms").status == 202, "a free place")


class Acting(ServeTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t", "--attempts", "1", "--in-doubt", "hold")
        self.serve()

    def act(self, id, verb, **fields):
        return self.ask("POST", f"/v1/tasks/{id}:{verb}", {"who": "ada", "why": "a test", **fields})

    def test_cancel(self):
        self.publish("t", {}, "a")
        self.assertEqual({"id": "a", "queue": "q", "outcome": "cancelled"}, self.act("a", "cancel").json)
        (story,) = self.get("/v1/tasks/a")["queues"][0]["story"]
        self.assertEqual(("cancelled", "ada", "a test"), (story["what"], story["by"], story["why"]))
        self.problem(409, "wrong_state", self.act("a", "cancel"))
        self.problem(409, "wrong_state", self.act("a", "retry", queue="q"))

    def test_retry_complete_and_drop(self):
        for id in ["a", "b", "c"]:
            self.publish("t", {}, id)
        self.work("q", "exit 74")
        self.assertEqual("retried", self.act("a", "retry").json["outcome"])
        self.assertEqual("completed", self.act("b", "complete", queue="q", result={"seen": 1.5}).json["outcome"])
        self.assertEqual("dropped", self.act("c", "drop").json["outcome"])
        self.assertEqual({"seen": 1.5}, self.get("/v1/tasks/b/result")["results"][0]["result"])
        self.assertEqual("cancelled", self.get("/v1/tasks/c")["queues"][0]["state"])
        self.assertEqual("waiting", self.get("/v1/tasks/a")["queues"][0]["state"])

    def test_a_repeated_act_answers_the_same(self):
        self.publish("t", {}, "a")
        self.work("q", "exit 74")
        claims = self.get("/v1/tasks/a")["queues"][0]["claims"]
        stale = self.problem(409, "wrong_state", self.act("a", "drop", claims=claims - 1))
        self.assertIn("claimed", stale["detail"])
        body = {"who": "ada", "claims": claims}
        for _ in range(2):
            reply = self.ask("POST", "/v1/tasks/a:drop", body, Idempotency_Key="k1")
            self.assertEqual((200, "dropped"), (reply.status, reply.json.get("outcome")), reply.text)
        self.problem(409, "wrong_state", self.ask("POST", "/v1/tasks/a:drop", body, Idempotency_Key="k2"))
        story = [action["what"] for action in self.get("/v1/tasks/a")["queues"][0]["story"]]
        self.assertEqual(1, story.count("dropped"), story)
        self.problem(400, "invalid_input", self.act("a", "drop", claims=-1))

    def test_act_by_filter(self):
        for n in range(7):
            self.publish("t", {"n": n}, f"n{n}")
        self.work("q", "exit 74")
        self.publish("t", {}, "waits")
        every = {"who": "ada", "why": "a test", "act": "drop", "queue": "q", "limit": 3}
        dry = self.ask("POST", "/v1/tasks:act", {**every, "dry_run": True}).json
        self.assertEqual([{"id": f"n{n}", "queue": "q", "outcome": "dropped", "dry_run": True} for n in range(3)], dry["tasks"])
        self.assertEqual(7, len(self.get("/v1/tasks?state=in_doubt")["tasks"]))
        done, after = [], None
        for page in range(3):
            reply = self.ask("POST", "/v1/tasks:act", {**every, **({"after": after} if page else {})})
            self.assertEqual(200, reply.status, reply.text)
            done += [task["id"] for task in reply.json["tasks"]]
            after = reply.json["after"]
            self.assertEqual(page < 2, after is not None)
        self.assertEqual([f"n{n}" for n in range(7)], done)
        self.assertEqual(7, len(self.get("/v1/tasks?state=cancelled")["tasks"]))
        self.assertEqual({"tasks": [], "after": None}, self.ask("POST", "/v1/tasks:act", every).json)
        one = self.ask("POST", "/v1/tasks:act", {"who": "ada", "act": "cancel", "all": True, "state": "waiting"}).json
        self.assertEqual([{"id": "waits", "queue": "q", "outcome": "cancelled"}], one["tasks"])

    def test_act_by_filter_in_several_states(self):
        for n in range(4):
            self.publish("t", {"n": n}, f"n{n}")
        self.work("q", 'case "$ONCE_ID" in n0|n2) echo broken >&2; exit 1;; *) exit 74;; esac')
        fields = {"who": "ada", "act": "retry", "queue": "q"}
        self.assertEqual(["n0", "n2"], self.ids({**fields, "error": "broken", "dry_run": True}))
        self.assertEqual(["n0", "n2"], [task["id"] for task in self.get("/v1/tasks?error=broken&since=1h")["tasks"]])
        self.assertEqual([], self.get("/v1/tasks?older_than=1h")["tasks"])
        found, after = [], {}
        while after is not None:
            reply = self.ask("POST", "/v1/tasks:act", {**fields, "limit": 1, **after})
            found += [task["id"] for task in reply.json["tasks"]]
            after = {"after": reply.json["after"]} if reply.json["after"] else None
        self.assertEqual(["n0", "n2", "n1", "n3"], found)
        self.assertEqual(4, len(self.get("/v1/tasks?state=waiting")["tasks"]))

    def ids(self, fields):
        return [task["id"] for task in self.ask("POST", "/v1/tasks:act", fields).json["tasks"]]

    def test_bad_acts_by_filter_change_nothing(self):
        self.publish("t", {}, "a")
        good = {"who": "ada", "act": "cancel", "queue": "q"}
        for change in [{"who": ""}, {"act": "explode"}, {"queue": ""}, {"state": "dead"}, {"state": "x"}, {"limit": 0}, {"limit": 1001},
                       {"after": "x"}, {"after": "waiting.x"}, {"since": "soon"}, {"result": 1}, {"dry_run": "yes"}, {"x": 1}]:  # fmt: skip
            with self.subTest(change=change):
                self.problem(400, "invalid_input", self.ask("POST", "/v1/tasks:act", {**good, **change}))
        self.problem(404, "not_found", self.ask("POST", "/v1/tasks:act", {**good, "queue": "none"}))
        self.assertEqual("waiting", self.get("/v1/tasks/a")["queues"][0]["state"])

    def test_a_task_in_two_queues_needs_the_name_of_one(self):
        self.ok("queue", "add", "p", "--topic", "t")
        self.publish("t", {}, "a")
        self.assertIn("p, q", self.problem(400, "invalid_input", self.act("a", "cancel"))["detail"])
        self.assertEqual(200, self.act("a", "cancel", queue="p").status)
        self.assertEqual(200, self.act("a", "cancel", queue="q").status)

    def test_bad_input_changes_nothing(self):
        self.publish("t", {}, "a")
        self.problem(404, "not_found", self.act("none", "cancel"))
        self.problem(404, "not_found", self.act("a", "cancel", queue="none"))
        self.problem(404, "not_found", self.act("a", "explode"))
        for body in ["", "{", "[]", '{"why":"x"}', '{"who":5}', '{"who":""}', '{"who":"a","wrong":1}', '{"who":"a","who":"b"}',
                     '{"who":"a","result":1}']:  # fmt: skip
            with self.subTest(body=body):
                self.problem(400, "invalid_input", self.ask("POST", "/v1/tasks/a:cancel", body, JSON))
        self.problem(415, "invalid_input", self.ask("POST", "/v1/tasks/a:cancel", '{"who":"a"}', "text/plain"))
        self.assertEqual("waiting", self.get("/v1/tasks/a")["queues"][0]["state"])

    def test_queues(self):
        made = self.ask("PUT", "/v1/queues/new", {"topic": "n.>", "backoff": ["1s", "2s"], "lease": "20s"})
        self.assertEqual((201, True, ["1s", "2s"]), (made.status, made.json["added"], made.json["backoff"]))
        self.assertEqual(200, self.ask("PUT", "/v1/queues/new", {"topic": "n.>", "backoff": "1s,2s", "lease": "20s"}).status)
        differs = self.problem(409, "queue_mismatch", self.ask("PUT", "/v1/queues/new", {"topic": "n.>"}))
        self.assertEqual("queue_differs", differs["reason"])
        changed = self.ask("PATCH", "/v1/queues/new", {"attempts": 7})
        self.assertEqual((200, True, 7), (changed.status, changed.json["changed"], changed.json["attempts"]))
        self.assertEqual({"queue": "new", "paused": True}, self.ask("POST", "/v1/queues/new:pause").json)
        self.assertTrue(self.get("/v1/queues/new")["paused"])
        self.assertEqual({"queue": "new", "paused": False}, self.ask("POST", "/v1/queues/new:resume").json)
        self.publish("n.a", {}, "a")
        full = self.problem(409, "invalid_input", self.ask("DELETE", "/v1/queues/new"))
        self.assertEqual("queue_not_empty", full["reason"])
        self.assertEqual({"queue": "new", "removed": True}, self.ask("DELETE", "/v1/queues/new?force=true").json)
        self.problem(404, "not_found", self.ask("DELETE", "/v1/queues/new"))
        for method, fields in [("PUT", {}), ("PUT", {"topic": 5}), ("PUT", {"topic": "x", "wrong": 1}), ("PUT", {"topic": "a..b"}),
                               ("PUT", {"topic": "x", "in_doubt": "never"}), ("PUT", {"stream": "S"}), ("PUT", []),
                               ("PATCH", {"topic": "x"}), ("PATCH", {"attempts": 0}), ("PATCH", {"backoff": "soon"})]:  # fmt: skip
            with self.subTest(method=method, fields=fields):
                self.problem(400, "invalid_input", self.ask(method, "/v1/queues/q", fields))


class Protocol(ServeTest):
    def setUp(self):
        super().setUp()
        self.serve()

    def answer_to(self, *pieces):
        """The status line and the rest of what the server sends until it closes the connection."""
        connection = self.raw(*pieces)
        received = b""
        while piece := connection.recv(65536):
            received += piece
        return received.decode()

    def test_a_connection_is_used_again(self):
        connection = self.connect()
        for _ in range(3):
            self.assertEqual(200, self.ask("GET", "/v1/status", connection=connection).status)
        sock = connection.sock
        self.problem(404, "not_found", self.ask("GET", "/none", connection=connection))
        self.assertIs(sock, connection.sock)

    def test_requests_in_one_piece(self):
        get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        received = self.answer_to(get + b"\r\n" + get + b"\r\n" + get + b"Connection: close\r\n\r\n")
        self.assertEqual(3, received.count("HTTP/1.1 200 OK"))

    def test_a_chunked_body(self):
        received = self.answer_to(b"POST /v1/topics/t?id=a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                  b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
                                  b"2\r\n[1\r\n", b"3\r\n,2]\r\n0\r\n\r\n")  # fmt: skip
        self.assertIn("201 Created", received)
        self.assertEqual([1, 2], self.get("/v1/tasks/a")["body"])

    def test_strangers_are_refused(self):
        for name, value in [("Host", "evil.example"), ("Host", "localhost.evil.example:7070"), ("Host", "8.8.8.8"),
                            ("Origin", "http://evil.example"), ("Origin", "null"), ("Origin", "https://127.0.0.1")]:  # fmt: skip
            with self.subTest(name=name, value=value):
                self.problem(403, "invalid_input", self.ask("POST", "/v1/topics/t", "1", JSON, **{name: value}))
        self.assertIn("403", self.answer_to(b"GET /v1/status HTTP/1.1\r\nConnection: close\r\n\r\n"))
        self.assertEqual([], self.get("/v1/log")["entries"])
        for name, value in [("Host", "localhost"), ("Host", f"LOCALHOST:{self.port}"), ("Host", "[::1]:1"), ("Host", "127.0.0.9"),
                            ("Origin", f"http://127.0.0.1:{self.port}")]:  # fmt: skip
            with self.subTest(name=name, value=value):
                self.assertEqual(200, self.ask("GET", "/v1/status", **{name: value}).status)

    def test_what_is_too_long(self):
        self.assertIn("431", self.answer_to(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 40000 + b"\r\n\r\n"))
        head = b"POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (17 << 20)
        received = self.answer_to(head)
        self.assertIn("413", received)
        self.assertIn("too_large", received)
        chunk = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
        connection = self.raw(b"POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", *[chunk] * 16)
        connection.sendall(chunk[: 1 << 16])
        self.assertIn(b"413", connection.recv(65536))

    def test_what_is_no_http(self):
        for text in [b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
                     b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"]:  # fmt: skip
            with self.subTest(text=text):
                self.assertIn(" 400 ", self.answer_to(text).split("\r\n")[0])
        self.assertEqual({"ok": True}, self.get("/healthz"))

    def test_slow_and_silent_clients_are_cut_off(self):
        self.ok("queue", "add", "q", "--topic", "t")
        for n in range(17):  # more than the buffers of a connection hold
            self.ask("POST", f"/v1/topics/t?id=n{n}", b"x" * (1 << 20))
        half_header = self.raw(b"GET /v1/status HTT")
        half_body = self.raw(b"POST /v1/topics/t?id=half HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
        deaf = self.raw(b"GET /v1/log?limit=17 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(b"HTTP/1.1 200", deaf.recv(12))
        self.assertEqual({"ok": True}, self.get("/healthz"))
        self.assertEqual(b"", half_header.recv(1))
        self.assertEqual(b"", half_body.recv(1))
        self.until(lambda: not self.holds(deaf), "the client that never reads is cut off")
        self.problem(404, "not_found", self.ask("GET", "/v1/tasks/half"))

    def holds(self, connection):
        """Whether the server has not closed its end of the connection."""
        ends = [f"0100007F:{self.port:04X}", f"0100007F:{connection.getsockname()[1]:04X}"]
        established = "01"
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return any(words[1:4] == [*ends, established] for words in lines)

    def test_more_connections_than_allowed(self):
        files = 1100  # 512 of them are for the store
        self.process.kill()
        self.process.wait()
        self.serve(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
        idle = [self.raw() for _ in range(files - 512)]
        received = b""
        one_more = self.raw()
        while piece := one_more.recv(65536):
            received += piece
        self.assertIn(b"HTTP/1.1 503 ", received)
        self.assertIn(b'"code":"overloaded"', received)
        for connection in idle:
            connection.close()
        self.until(self.answers, "connections are free again")

    def answers(self):
        try:
            return self.ask("GET", "/healthz").status == 200
        except OSError:
            return False


class Ending(ServeTest):
    def test_a_parked_request_is_answered_and_the_server_ends(self):
        self.ok("queue", "add", "q", "--topic", "t")
        process = self.serve()
        self.publish("t", {}, "a")
        parked = self.raw(b"GET /v1/tasks/a/result?wait=300s HTTP/1.1\r\nHost: localhost\r\n\r\n")
        idle = self.connect()
        self.assertEqual(200, self.ask("GET", "/healthz", connection=idle).status)
        half = self.raw(b"POST /v1/topics/t?id=half HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nab")
        self.ask("GET", "/readyz")  # the server has read what was sent before
        process.send_signal(signal.SIGTERM)
        received = parked.recv(65536)
        self.assertIn(b"202 Accepted", received)
        self.assertIn(b"Connection: close", received)
        parked.close()
        half.sendall(b"cd")
        self.assertIn(b"201 Created", half.recv(65536))
        half.close()
        self.assertEqual(0, process.wait(timeout=30))
        self.assertRaises(ConnectionRefusedError, self.raw)
        self.assertEqual("half", self.ok("inspect", "half", "--json").line["id"])

    def test_sigint_ends_an_idle_server(self):
        process = self.serve()
        process.send_signal(signal.SIGINT)
        self.assertEqual(0, process.wait(timeout=30))

    def test_what_was_acknowledged_survives_a_kill(self):
        process = self.serve()
        acknowledged, stop = [], threading.Event()

        def publish(worker):
            connection = self.connect()
            try:
                for n in range(100_000):
                    if self.ask("POST", f"/v1/topics/t?id=w{worker}-{n}", {"n": n}, connection=connection).status == 201:
                        acknowledged.append(f"w{worker}-{n}")
            except (OSError, http.client.HTTPException):
                stop.set()

        publishers = [threading.Thread(target=publish, args=[worker]) for worker in range(4)]
        for publisher in publishers:
            publisher.start()
        self.until(lambda: len(acknowledged) > 100, "a hundred publishes")
        process.kill()
        process.wait()
        for publisher in publishers:
            publisher.join()
        self.assertTrue(stop.is_set())
        self.serve()
        ids, after = set(), 0
        while after is not None:
            page = self.get(f"/v1/log?limit=1000&after={after}")
            ids |= {entry["id"] for entry in page["entries"]}
            after = page["after"]
        self.assertEqual(set(), set(acknowledged) - ids)
        self.assertEqual(200, self.ask("POST", f"/v1/topics/t?id={acknowledged[0]}", {"n": int(acknowledged[0].split("-")[1])}).status)


class Listening(ServeTest):
    def test_unix_socket(self):
        path = str(self.folder / "once.sock")
        process = self.serve("--socket", path)
        self.assertEqual(0o600, stat.S_IMODE(os.stat(path).st_mode))
        connection = UnixConnection(path)
        self.assertEqual(201, self.ask("POST", "/v1/topics/t?id=a", {}, connection=connection).status)
        self.assertEqual(200, self.ask("GET", "/v1/tasks/a", connection=connection).status)
        connection.close()
        self.assertIn("another server", self.refused_after_start("--socket", path))
        process.kill()
        process.wait()
        process = self.serve("--socket", path)  # the socket of the killed server is replaced
        self.end(process)
        self.assertFalse(os.path.exists(path))

    def test_a_file_is_not_replaced(self):
        path = self.folder / "precious"
        path.write_text("data")
        self.assertIn("not a socket", self.refused_after_start("--socket", str(path)))
        self.assertEqual("data", path.read_text())

    def test_port_and_socket_together(self):
        path = str(self.folder / "once.sock")
        self.serve("--listen", "localhost:0", "--socket", path)
        self.assertEqual({"ok": True}, self.get("/healthz"))
        connection = UnixConnection(path)
        self.addCleanup(connection.close)
        self.assertEqual(200, self.ask("GET", "/healthz", connection=connection).status)

    def refused_after_start(self, *arguments):
        answer = self.once("serve", *arguments)
        self.assertEqual(1, answer.code, answer.err)
        return answer.err

    def test_only_loopback(self):
        for address in ["0.0.0.0:7070", "192.168.1.1:0", "[::]:0", "example.org:80", "8.8.8.8"]:
            with self.subTest(address=address):
                self.assertIn("loopback", self.refused(2, "serve", "--listen", address))
        for address in ["127.0.0.1:x", "127.0.0.1:70000", ":", "127.0.0.1:"]:
            with self.subTest(address=address):
                self.assertIn("port", self.refused(2, "serve", "--listen", address))
        self.refused(2, "serve", "--socket", "")

    def test_a_port_that_is_taken(self):
        self.serve()
        self.assertIn("in use", self.refused_after_start("--listen", f"127.0.0.1:{self.port}"))


@unittest.skipIf(NATS, "locks a file")
class StoreAway(ServeTest):
    def test_a_locked_store_is_503(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.serve()
        self.publish("t", {}, "a")
        locker = subprocess.Popen(
            [sys.executable, "-c", "import sqlite3,sys\n"
             "c=sqlite3.connect('once.db',isolation_level=None);c.execute('BEGIN IMMEDIATE')\n"
             "print('locked',flush=True);sys.stdin.read()"],
            cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        self.addCleanup(locker.wait)
        self.addCleanup(locker.kill)
        self.assertEqual(b"locked\n", locker.stdout.readline())
        reply = self.ask("POST", "/v1/topics/t?id=b", {})
        given = self.problem(503, "store_unavailable", reply)
        self.assertEqual((True, "1"), (given["retryable"], reply.headers["Retry-After"]))
        self.assertEqual({"ok": True}, self.get("/healthz"))
        locker.communicate()
        self.publish("t", {}, "b")


@unittest.skipIf(NATS, "has a server of its own")
@unittest.skipUnless(PROGRAM, MISSING)
class ServerAway(ServeTest):
    def test_a_publish_that_may_have_happened_and_a_server_that_is_gone(self):
        node = NatsNode()
        self.addCleanup(node.close)
        self.environment["ONCE_STORE"] = node.url
        node.start()
        self.ok("queue", "add", "q", "--topic", "t")
        self.serve()
        self.publish("t", {}, "a")
        node.pause()
        reply = self.ask("POST", "/v1/topics/t?id=b", {})
        self.assertEqual(503, reply.status, reply.text)
        self.assertTrue(reply.json["in_doubt"], reply.text)
        node.kill()
        reply = self.ask("GET", "/readyz")
        self.problem(503, "store_unavailable", reply)
        self.assertEqual("1", reply.headers["Retry-After"])
        self.assertEqual({"ok": True}, self.get("/healthz"))
        node.start()
        self.until(lambda: self.ask("GET", "/readyz").status == 200, "the server is back", 60)
        self.assertIn(self.ask("POST", "/v1/topics/t?id=b", {}).status, (200, 201))


class Page(ServeTest):
    """docs/http.md"""

    TEXT = (ROOT / "docs/http.md").read_text()

    def test_every_example_works(self):
        self.serve()
        blocks = re.findall(r"^```sh\n(.*?)^```", self.TEXT, re.DOTALL | re.MULTILINE)
        self.assertIn("once serve", blocks[0])
        examples, decisions = "".join(blocks[1:]).split("decide() {")
        decisions, last = decisions.split('curl "$ONCE_URL/healthz"')
        self.run_examples(examples)
        self.ok("cancel", "order-18")  # it would start in ten minutes
        self.work("billing", "exit 74")  # the next examples decide about tasks in doubt
        self.run_examples("decide() {" + decisions)
        self.run_examples('curl "$ONCE_URL/healthz"' + last)

    def test_every_path_is_on_the_page(self):
        sources = "".join(file.read_text() for file in sorted((ROOT / "src/server").glob("*_routes.cpp")))
        paths = set(re.findall(r'"(/v1/[^"{]+|/\w+)', sources))
        self.assertGreater(len(paths), 8)
        self.assertEqual(set(), {path for path in paths if path not in self.TEXT})
        acts = set(re.findall(r'action_route\(zone, "(\w+)"', sources)) | set(re.findall(r'one \+ ":(\w+)"', sources))
        self.assertEqual({"cancel", "retry", "complete", "drop", "pause", "resume"}, acts)
        self.assertEqual(set(), {act for act in acts if f":{act}" not in self.TEXT})

    def run_examples(self, text):
        fails = 'curl() { command curl -sS --fail-with-body -m 30 "$@" || { echo "failed: $*" >&2; exit 1; }; }\n'
        done = subprocess.run(["bash", "-eu", "-c", fails + text], capture_output=True, text=True, timeout=60,
                              env={**self.environment, "ONCE_URL": f"http://127.0.0.1:{self.port}"})  # fmt: skip
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
