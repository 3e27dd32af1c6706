#!/usr/bin/env -S python3 -B
"""once serve with tokens: who may do what, and what happens when a token goes."""

import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import NATS, OnceTest  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ROLES = ["publish", "work", "read", "operate", "forward"]


class Reply:
    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        endless = response.headers["Content-Type"] == "text/event-stream"
        self.text = "" if endless else response.read().decode()

    @property
    def json(self):
        return json.loads(self.text)


class TokensTest(OnceTest):
    def serve(self, *arguments):
        process = self.start("serve", *(arguments or ["--listen", ":0"]))
        line = process.stderr.readline().decode()
        self.assertRegex(line, r"\Aonce: listening on http://\S+:\d+\n\Z")
        self.process, self.port = process, int(line.rsplit(":", 1)[1])

    def token(self, name, *roles, **filters):
        """A new token that the server knows, if it runs."""
        arguments = [word for role in roles for word in ("--role", role)]
        for option, values in filters.items():
            for value in [values] if isinstance(values, str) else values:
                arguments += [f"--{option}", value]
        secret = self.ok("token", "add", name, *arguments, "-q").out.strip()
        if hasattr(self, "port"):
            self.until(lambda: self.ask("GET", "/readyz", secret).status != 401, "the server knows the token")
        return secret

    def ask(self, method, path, token=None, body=None, headers=(), type="application/json"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path)
            if token is not None:
                connection.putheader("Authorization", f"Bearer {token}")
            for name, value in headers:
                connection.putheader(name, value)
            data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
            if body is not None:
                connection.putheader("Content-Type", type)
            connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def good(self, method, path, token=None, body=None, **options):
        reply = self.ask(method, path, token, body, **options)
        self.assertIn(reply.status, (200, 201), reply.text)
        return reply.json

    def problem(self, status, reason, reply):
        self.assertEqual(status, reply.status, reply.text)
        self.assertEqual("application/problem+json", reply.headers["Content-Type"])
        self.assertEqual(reason, reply.json.get("reason"), reply.text)
        self.assertNotIn("--", reply.json["detail"])
        return reply.json

    def unauthorized(self, reply):
        self.assertEqual('Bearer realm="once"', reply.headers["WWW-Authenticate"])
        return self.problem(401, "no_valid_token", reply)

    def forbidden(self, reply):
        return self.problem(403, "not_permitted", reply)


def documented():
    """The table of docs/http.md: (method, pattern) to the roles that are permitted."""
    page = (ROOT / "docs/http.md").read_text()
    table = re.search(r"^\| requests \|.*?\n\n", page, re.MULTILINE | re.DOTALL)[0].splitlines()
    columns = [cell.strip() for cell in table[0].strip("|").split("|")][1:6]
    assert columns == ROLES, columns
    rows = {}
    for line in table[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        roles = {role for role, cell in zip(ROLES, cells[1:6]) if cell == "yes"}
        for text in re.findall(r"`([^`]+)`", cells[0]):
            rows[tuple(text.split())] = roles
    return rows


class Roles(TokensTest):
    BODIES = {  # others send an empty object
        "/v1/tasks:batch": '{"topic":"t.batch"}',
        "/v1/queues/{queue}/claims": {"worker": "w"},
        "/v1/claims:start": {"claims": ["x"]},
        "/v1/claims:renew": {"claims": ["x"]},
        "/v1/claims:settle": {"claims": [{"claim": "x", "outcome": "dead"}]},
        "PUT /v1/queues/{queue}": {"topic": "t.>"},
    }

    def test_the_page_has_every_route(self):
        rows = re.findall(r'^    \{"(\w+)", "([^"]+)"', (ROOT / "src/server/access.cpp").read_text(), re.MULTILINE)
        self.assertGreater(len(rows), 30)
        self.assertEqual(set(rows) - {("GET", "/healthz")}, set(documented()))

    def test_every_role_at_every_endpoint(self):
        """Each cell of the page's table, against a server."""
        self.ok("queue", "add", "q", "--topic", "t.>")
        tokens = {role: self.token(role, role) for role in ROLES}
        self.serve()
        cells = 0
        for (method, pattern), permitted in documented().items():
            path = pattern.replace("{queue}", "q").replace("{topic}", "t.x").replace("{id}", "nothing")
            path = path.replace("{claim}", "x").replace("{step}", "s")
            body = self.BODIES.get(pattern, self.BODIES.get(f"{method} {pattern}", {}))
            if method in ("GET", "DELETE"):
                body = None
            type = "application/x-ndjson" if pattern.endswith(":batch") else "application/json"
            for role in ROLES:
                with self.subTest(method=method, pattern=pattern, role=role):
                    reply = self.ask(method, path, tokens[role], body, type=type)
                    if role in permitted:
                        self.assertNotIn(reply.status, (401, 403), reply.text)
                    else:
                        self.assertEqual(role, self.forbidden(reply)["facts"]["token"])
                    cells += 1
            with self.subTest(method=method, pattern=pattern, role=None):
                self.unauthorized(self.ask(method, path, None, body, type=type))
        self.assertGreater(cells, 150)
        self.assertEqual({"ok": True}, self.good("GET", "/healthz"))

    def test_roles_add_up(self):
        self.ok("queue", "add", "q", "--topic", "t")
        both = self.token("both", "publish", "work")
        self.serve()
        self.good("POST", "/v1/topics/t?id=a", both, {"n": 1})
        self.assertEqual(1, len(self.good("POST", "/v1/queues/q/claims", both, {"worker": "w"})["claims"]))
        self.assertEqual("read or operate", self.forbidden(self.ask("GET", "/v1/tasks", both))["facts"]["needs"])

    def test_what_is_not_there_is_told_only_to_a_token(self):
        secret = self.token("t", "read")
        self.serve()
        for method, path, status in [("GET", "/v1/none", 404), ("PUT", "/v1/log", 405), ("OPTIONS", "/v1/log", 405)]:
            self.unauthorized(self.ask(method, path))
            self.assertEqual(status, self.ask(method, path, secret).status)


class Secrets(TokensTest):
    def test_a_zone_without_tokens_asks_for_none(self):
        self.serve()
        self.good("GET", "/v1/log")
        self.good("GET", "/v1/log", "once_nonsense")
        secret = self.token("t", "read")
        self.until(lambda: self.ask("GET", "/v1/log").status == 401, "the token counts")
        self.good("GET", "/v1/log", secret)
        self.ok("token", "remove", "t")
        self.until(lambda: self.ask("GET", "/v1/log").status == 200, "no token is left")

    def test_what_is_no_token(self):
        secret = self.token("t", "read")
        self.serve()
        self.good("GET", "/v1/log", secret)
        self.good("GET", "/v1/log", None, headers=[("authorization", f"bearer {secret}")])
        for headers in [
            [], [("Authorization", secret)], [("Authorization", f"Basic {secret}")], [("Authorization", "Bearer ")],
            [("Authorization", f"Bearer {secret}x")], [("Authorization", f"Bearer {secret[:-1]}")],
            [("Authorization", f"Bearer {secret.lower()}")], [("Authorization", f"Bearer {secret} {secret}")],
            [("Authorization", f"Bearer {secret}"), ("Authorization", f"Bearer {secret}")],
            [("Authorization", "Bearer x"), ("Authorization", f"Bearer {secret}")],
            [("Cookie", f"token={secret}")], [("X-Authorization", f"Bearer {secret}")],
            [("Proxy-Authorization", f"Bearer {secret}")],
        ]:  # fmt: skip
            with self.subTest(headers=headers):
                self.unauthorized(self.ask("GET", "/v1/log", headers=headers))
        for query in [f"access_token={secret}", f"token={secret}", f"Authorization=Bearer+{secret}"]:
            reply = self.ask("GET", f"/v1/log?{query}")
            self.unauthorized(reply)
            self.assertNotIn(secret, reply.text)
        # The hash is no secret, and no token either.
        listed = self.ok("token", "list", "--json").out
        self.assertNotIn(secret, listed)

    def test_the_server_prints_no_secret(self):
        secret = self.token("t", "read")
        self.serve()
        for path in ["/v1/log", "/v1/none", f"/v1/log?x={secret}"]:
            self.ask("GET", path, secret)
        self.process.send_signal(signal.SIGTERM)
        self.assertNotIn(secret[5:].encode(), self.process.communicate(timeout=30)[1])

    def test_a_token_of_another_zone(self):
        mine = self.token("t", "read")
        other = f"{self.store}-two" if NATS else "two.db"
        theirs = self.ok("--store", other, "token", "add", "t", "--role", "read", "-q").out.strip()
        self.serve()
        self.good("GET", "/v1/log", mine)
        self.unauthorized(self.ask("GET", "/v1/log", theirs))

    @unittest.skipIf(NATS, "about files")
    def test_a_copy_of_the_zone_has_its_tokens(self):
        kept, removed = self.token("kept", "read"), self.token("removed", "read")
        shutil.copy(self.folder / "once.db", self.folder / "backup.db")
        self.ok("token", "remove", "removed")
        self.serve("--listen", ":0", "--store", "backup.db")
        self.good("GET", "/v1/log", kept)
        self.good("GET", "/v1/log", removed)  # a backup knows nothing of a later removal
        self.ok("--store", "backup.db", "token", "remove", "removed")
        self.until(lambda: self.ask("GET", "/v1/log", removed).status == 401, "it is removed there, too")

    def test_an_expired_token(self):
        secret = self.token("t", "read", expires="1s")
        self.token("other", "read")
        self.serve()
        self.until(lambda: self.ask("GET", "/v1/log", secret).status == 401, "the token expires")
        self.assertRegex(self.unauthorized(self.ask("GET", "/v1/log", secret))["detail"], "the token t expired at 2")

    def test_a_token_is_asked_for_before_the_body(self):
        self.token("t", "read")
        self.serve()
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(b"POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n"
                               b"Expect: 100-continue\r\n\r\n")  # fmt: skip
            self.assertTrue(connection.recv(4096).startswith(b"HTTP/1.1 401 Unauthorized\r\n"))

    def test_a_request_inside_another(self):
        """Two lengths of one body would let a client hide a request from a proxy."""
        secret = self.token("t", "publish")
        self.serve()
        hidden = f"GET /v1/log HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n\r\n"
        body = f"0\r\n\r\n{hidden}"
        for lengths in [f"Content-Length: {len(body)}\r\nTransfer-Encoding: chunked",
                        f"Transfer-Encoding: chunked\r\nContent-Length: {len(body)}",
                        f"Content-Length: {len(body)}\r\nContent-Length: 0"]:  # fmt: skip
            with self.subTest(lengths=lengths):
                with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
                    connection.sendall(f"POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\n"
                                       f"Authorization: Bearer {secret}\r\n\r\n{body}".encode())  # fmt: skip
                    said = b"".join(iter(lambda: connection.recv(4096), b""))
                self.assertTrue(said.startswith(b"HTTP/1.1 400 "), said)
                self.assertEqual(1, len(re.findall(rb"HTTP/1.1 \d", said)), said)

    def test_each_request_of_a_connection_needs_its_token(self):
        secret = self.token("t", "read")
        self.serve()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.addCleanup(connection.close)
        for headers, status in [({"Authorization": f"Bearer {secret}"}, 200), ({}, 401)]:
            connection.request("GET", "/v1/log", headers=headers)
            response = connection.getresponse()
            response.read()
            self.assertEqual(status, response.status)


class Going(TokensTest):
    """A token is removed, or the first one is added, while a long poll waits."""

    def poll(self, path, token, body=None):
        """A long poll in a thread of its own, which waits at the server."""
        replies = []

        def run():
            replies.append(self.ask("POST" if body else "GET", path, token, body))

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        if body:  # the server counts as a worker of the queue from its first look on
            queue = path.split("/")[3]
            self.until(lambda: self.workers()[queue] > 0, "the poll waits")
        return thread, replies

    def workers(self):
        return {line["queue"]: line["workers"] for line in self.ok("status", "--json").lines if "queue" in line}

    def ends(self, polls, act):
        for thread, replies in polls:
            self.assertTrue(thread.is_alive(), replies)
        act()
        begun = time.monotonic()
        for thread, replies in polls:
            thread.join(30)
            self.unauthorized(replies[0])
        self.assertLess(time.monotonic() - begun, 5)  # a second, on a machine that is not busy

    def test_a_removed_token_ends_its_polls(self):
        for queue in ["q", "r"]:
            self.ok("queue", "add", queue, "--topic", "t")
        self.ok("publish", "t", "--id", "a", "--delay", "1h")
        gone, stays = self.token("gone", "work", "read"), self.token("stays", "work")
        self.serve()
        claim = {"worker": "w", "wait": "4m"}
        kept = self.poll("/v1/queues/q/claims", stays, {"worker": "w", "wait": "6s"})
        self.ends([self.poll("/v1/tasks/a/result?wait=4m", gone), self.poll("/v1/queues/r/claims", gone, claim)],
                  lambda: self.ok("token", "remove", "gone"))  # fmt: skip
        kept[0].join(30)
        self.assertEqual((200, {"claims": []}), (kept[1][0].status, kept[1][0].json))
        self.unauthorized(self.ask("GET", "/v1/log", gone))

    def test_the_first_token_ends_polls_without_one(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.serve()
        self.ends([self.poll("/v1/queues/q/claims", None, {"worker": "w", "wait": "4m"})],
                  lambda: self.ok("token", "add", "t", "--role", "read"))  # fmt: skip

    def test_a_token_that_expires_ends_its_polls(self):
        self.ok("queue", "add", "q", "--topic", "t")
        self.serve()
        secret = self.token("t", "work", expires="3s")
        self.ends([self.poll("/v1/queues/q/claims", secret, {"worker": "w", "wait": "4m"})], lambda: None)


class Page(TokensTest):
    def test_the_examples_of_the_page(self):
        """The section "Who may" of docs/http.md."""
        section = (ROOT / "docs/http.md").read_text().split("\n## Who may\n")[1].split("\n## ")[0]
        tokens, servers = re.findall(r"^```bash\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
        self.serve()
        last = tokens.splitlines()[-1]
        self.assertTrue(last.startswith("curl"))
        environment = {**self.environment, "ONCE_URL": f"http://127.0.0.1:{self.port}",
                       "PATH": f"{Path(self.binary).parent}:{self.environment['PATH']}"}  # fmt: skip
        # A token counts within a second, so curl asks again until then.
        text = tokens.replace(last, f"until {last} -sSf; do sleep 0.05; done")
        done = subprocess.run(["bash", "-eu", "-c", text], cwd=self.folder, env=environment, capture_output=True,
                              text=True, timeout=60)  # fmt: skip
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn('"queues":', done.stdout.splitlines()[-1])
        self.assertEqual(["ada", "mailer"], self.ok("token", "list", "-q").out.split())
        options = set(re.findall(r"--[a-z-]+", servers))
        self.assertEqual({"--listen", "--tls-cert", "--tls-key", "--behind-proxy"}, options)
        self.assertLess(options, set(re.findall(r"--[a-z-]+", self.ok("serve", "--help").out)))


class Who(TokensTest):
    def test_a_tokens_name_is_who_decided(self):
        self.ok("queue", "add", "q", "--topic", "t")
        for id in ["a", "b", "c"]:
            self.ok("publish", "t", "--id", id)
        ada = self.token("ada", "operate")
        self.serve()
        self.good("POST", "/v1/tasks/a:cancel", ada, {"why": "twice"})
        self.good("POST", "/v1/tasks/b:cancel", ada, {"who": "ada"})
        for who in ["bob", ""]:
            self.assertIn("ada", self.forbidden(self.ask("POST", "/v1/tasks/c:cancel", ada, {"who": who}))["detail"])
        for id in ["a", "b"]:
            self.assertIn('"by":"ada"', json.dumps(self.good("GET", f"/v1/tasks/{id}", ada), separators=(",", ":")))
        self.assertEqual("waiting", self.good("GET", "/v1/tasks/c", ada)["queues"][0]["state"])


class Filters(TokensTest):
    def setUp(self):
        super().setUp()
        for queue, topic in [("mail", "mail.>"), ("bulk-1", "bulk.>"), ("bulk-2", "bulk.>")]:
            self.ok("queue", "add", queue, "--topic", topic)
        self.admin = self.token("admin", "operate")
        self.serve()

    def offer(self, queue, token=None):
        (offer,) = self.good("POST", f"/v1/queues/{queue}/claims", token or self.admin, {"worker": "w"})["claims"]
        return offer["claim"]

    def test_topics_of_a_publisher(self):
        shop = self.token("shop", "publish", topic=["mail.>", "bulk.a"])
        self.good("POST", "/v1/topics/mail.x?id=m", shop, {})
        self.good("POST", "/v1/topics/bulk.a?id=b", shop, {})
        for topic in ["bulk.b", "mail", "other", "bulk.a.b"]:
            self.assertIn(topic, self.forbidden(self.ask("POST", f"/v1/topics/{topic}", shop, {}))["detail"])
        self.assertEqual(2, len(self.good("GET", "/v1/log", self.admin)["entries"]))

    def test_lines_of_a_batch(self):
        shop = self.token("shop", "publish", topic="mail.>")
        lines = ['{"topic":"mail.a","id":"a"}', '{"topic":"bulk.b","id":"b"}', "{", '{"topic":"mail.c","id":"c"}']
        reply = self.ask("POST", "/v1/tasks:batch", shop, "\n".join(lines), type="application/x-ndjson")
        answers = [json.loads(line) for line in reply.text.splitlines()]
        self.assertEqual(200, reply.status)
        self.assertEqual([None, "not_permitted", None, None], [line.get("reason") for line in answers])
        self.assertEqual(["a", None, None, "c"], [line.get("id") for line in answers])
        entries = self.good("GET", "/v1/log", self.admin)["entries"]
        self.assertEqual({"a", "c"}, {entry["id"] for entry in entries})

    def test_results_of_a_publisher(self):
        self.ok("publish", "mail.a", "--id", "a")
        self.ok("publish", "bulk.b", "--id", "b")
        shop = self.token("shop", "publish", topic="mail.>")
        self.assertEqual(202, self.ask("GET", "/v1/tasks/a/result", shop).status)
        self.forbidden(self.ask("GET", "/v1/tasks/b/result", shop))
        self.forbidden(self.ask("GET", "/v1/tasks/b/result?queue=bulk-1", shop))
        self.forbidden(self.ask("GET", "/v1/tasks/a", shop))  # needs the role read
        self.assertEqual(404, self.ask("GET", "/v1/tasks/none/result", shop).status)

    def test_queues_of_a_worker(self):
        self.ok("publish", "mail.a", "--id", "a")
        self.ok("publish", "bulk.b", "--id", "b")
        worker = self.token("worker", "work", queue="bulk-*")
        foreign, own = self.offer("mail"), self.offer("bulk-1", worker)
        self.forbidden(self.ask("POST", "/v1/queues/mail/claims", worker, {"worker": "w"}))
        # The queue inside a claim counts, whoever was offered it.
        for path, body in [(f"/v1/claims/{foreign}:{act}", {}) for act in ["complete", "fail", "dead", "unknown", "release"]] + [
                (f"/v1/claims/{foreign}/steps/s:{act}", {"call": "c"}) for act in ["begin", "end", "fail", "hold"]]:
            with self.subTest(path=path.replace(foreign, "CLAIM")):
                self.forbidden(self.ask("POST", path, worker, body))
        for act in ["start", "renew"]:
            answers = self.good("POST", f"/v1/claims:{act}", worker, {"claims": [foreign, own]})["claims"]
            self.assertEqual(["not_permitted", None], [each.get("reason") for each in answers], answers)
            self.assertNotIn("body", answers[0])
        settled = self.good("POST", "/v1/claims:settle", worker, {
            "claims": [{"claim": foreign, "outcome": "dead"}, {"claim": own, "outcome": "completed"}],
            "next": 5, "worker": "w"})  # fmt: skip
        self.assertEqual(["not_permitted", None], [each.get("reason") for each in settled["claims"]])
        self.assertEqual([], settled["next"])
        self.good("POST", f"/v1/claims/{foreign}:release", self.admin, {})
        self.assertEqual("waiting", self.good("GET", "/v1/tasks/a", self.admin)["queues"][0]["state"])

    def test_reading_with_filters(self):
        self.ok("publish", "mail.a", "--id", "a")
        self.ok("publish", "bulk.b", "--id", "b")
        queue, topic = self.token("q", "read", queue="mail"), self.token("t", "read", topic="mail.>")
        for path, allowed in [
            ("/v1/tasks?queue=mail", [queue]), ("/v1/tasks?queue=bulk-1", []), ("/v1/tasks", []),
            ("/v1/tasks?topic=mail.a", [topic]), ("/v1/tasks?queue=mail&topic=bulk.b", [queue]),
            ("/v1/tasks/a", [queue, topic]), ("/v1/tasks/b", []), ("/v1/log", []), ("/v1/log?topic=mail.a", [topic]),
            ("/v1/log?topic=bulk.b", []), ("/v1/queues", []), ("/v1/queues/mail", [queue]), ("/v1/queues/bulk-1", []),
            ("/v1/status", []), ("/metrics", []), ("/metrics?quick=true", []), ("/readyz", [queue, topic]),
        ]:  # fmt: skip
            for token in [queue, topic]:
                with self.subTest(path=path, token="queue" if token == queue else "topic"):
                    reply = self.ask("GET", path, token)
                    if token in allowed:
                        self.assertEqual(200, reply.status, reply.text)
                        self.assertNotIn("bulk", reply.text)
                    else:
                        self.forbidden(reply)

    def test_a_task_in_a_queue_that_the_filters_do_not_match(self):
        """A task of two queues shows both, so a token of one queue may not see the task."""
        self.ok("publish", "bulk.b", "--id", "b")
        token = self.token("t", "read", queue="bulk-1")
        self.forbidden(self.ask("GET", "/v1/tasks/b", token))
        self.assertEqual(202, self.ask("GET", "/v1/tasks/b/result?queue=bulk-1", token).status)
        self.forbidden(self.ask("GET", "/v1/tasks/b/result?queue=bulk-2", token))
        self.forbidden(self.ask("GET", "/v1/tasks/b/result", token))

    def test_operating_with_filters(self):
        self.ok("publish", "bulk.b", "--id", "b")
        token = self.token("t", "operate", queue="bulk-1", topic="own.>")
        self.good("POST", "/v1/tasks/b:cancel", token, {"queue": "bulk-1"})
        for body in [{"queue": "bulk-2"}, {}, {"queue": 1}, '{"queue":"bulk-1","queue":"bulk-2"}', "", "nonsense"]:
            with self.subTest(body=body):
                self.forbidden(self.ask("POST", "/v1/tasks/b:cancel", token, body))
        for act in ["retry", "complete", "drop"]:
            self.forbidden(self.ask("POST", f"/v1/tasks/b:{act}", token, {"queue": "bulk-2"}))
        self.good("POST", "/v1/queues/bulk-1:pause", token)
        self.good("PATCH", "/v1/queues/bulk-1", token, {"lease": "20s"})
        for method, path, body in [("POST", "/v1/queues/mail:pause", {}), ("POST", "/v1/queues/mail:resume", {}),
                                   ("PATCH", "/v1/queues/mail", {"lease": "20s"}), ("DELETE", "/v1/queues/mail", None),
                                   ("PUT", "/v1/queues/mail", {"topic": "own.a"})]:  # fmt: skip
            self.forbidden(self.ask(method, path, token, body))
        states = {view["queue"]: view["state"] for view in self.good("GET", "/v1/tasks/b", self.admin)["queues"]}
        self.assertEqual({"bulk-1": "cancelled", "bulk-2": "waiting"}, states)

    def test_a_new_queue_gives_no_other_topics(self):
        token = self.token("t", "operate", queue="mine-*", topic="own.>")
        self.good("PUT", "/v1/queues/mine-1", token, {"topic": "own.*"})
        for body in [{"topic": ">"}, {"topic": "mail.>"}, {"topic": "*.a"}, {"stream": "S", "key": "header:K"},
                     {"topic": "own.a", "stream": "S", "key": "header:K"}]:  # fmt: skip
            with self.subTest(body=body):
                self.forbidden(self.ask("PUT", "/v1/queues/mine-2", token, body))
        reply = self.ask("PUT", "/v1/queues/mine-2", token, '{"topic":"own.a","topic":">"}')
        self.assertEqual(400, reply.status, reply.text)
        self.assertNotIn("mine-2", self.ok("queue", "list").out)


if __name__ == "__main__":
    unittest.main()
