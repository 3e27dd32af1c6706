#!/usr/bin/env -S python3 -B
"""Calls of the Python client: publish, wait, tasks, decisions, queues, addresses and repeats."""

import asyncio
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from client_test import CLIENT, ClientTest, Proxy  # noqa: E402

import once  # noqa: E402
from once import (  # noqa: E402
    Conflict, Dead, InvalidInput, Message, NoAnswer, NotFound, Once, OnceError, TimedOut, Unknown, WrongState,
)
from once.aio import AsyncOnce  # noqa: E402


class CallTest(ClientTest):
    def setUp(self):
        super().setUp()
        self.client.put_queue("q", topic="t", in_doubt="hold")


class Publish(CallTest):
    def test_a_receipt_tells_duplicates_and_conflicts(self):
        first = self.client.publish("t", {"n": 1, "m": 2}, id="a")
        again = self.client.publish("t", {"m": 2, "n": 1}, id="a")
        self.assertEqual((False, True), (first.duplicate, again.duplicate))
        self.assertEqual((first.sequence, first.digest), (again.sequence, again.digest))
        with self.assertRaises(Conflict) as caught:
            self.client.publish("t", {"n": 2, "m": 2}, id="a")
        error = caught.exception
        self.assertEqual(("conflicting_duplicate", 422, False, False, ["$.n"]),
                         (error.code, error.status, error.retryable, error.in_doubt, error.differs))

    def test_tasks_without_an_id_are_different_tasks(self):
        receipts = [self.client.publish("t", {"same": True}) for _ in range(3)]
        self.assertEqual(3, len({each.sequence for each in receipts}))
        self.assertFalse(any(each.duplicate for each in receipts))

    def test_bodies_come_back_as_they_were(self):
        bodies = {
            "none": None, "text": "ü€𐍈\u0000", "number": 1.5, "list": [1, [], {}], "empty": b"",
            "utf8": "grün".encode(), "bytes": bytes(range(256)), "large": {"x": "ä" * 500_000},
            "large bytes": bytes(1 << 20),
        }
        got = {}
        self.client.worker("q")(lambda task: got.update({task.id: task.body}))
        self.run_in_thread(self.client)
        for id, body in bodies.items():
            self.client.publish("t", body, id=id)
        for id, body in bodies.items():
            self.client.wait(id, timeout=30)
            self.assertEqual(type(body), type(got[id]), id)
            self.assertTrue(body == got[id], id)

    def test_bad_input_is_refused_before_it_is_sent(self):
        cyclic = []
        cyclic.append(cyclic)
        for body in (object(), float("nan"), {1, 2}, "\ud800", cyclic):
            with self.assertRaises(InvalidInput):
                self.client.publish("t", body, id="bad")
        for topic in ("", None, "\ud800", "a b", "x" * 3000):
            with self.assertRaises(InvalidInput, msg=topic):
                self.client.publish(topic, 1, id="bad")
        for options in ({"id": ""}, {"id": "\ud800"}, {"delay": -1}, {"delay": "soon"}, {"delay": 1, "at": "2030-01-01T00:00:00Z"},
                        {"at": datetime(2030, 1, 1)}, {"expires": "never"}, {"headers": {"a": 1}}):
            with self.assertRaises(InvalidInput, msg=options):
                self.client.publish("t", 1, **{"id": "bad", **options})
        for body in (b"x" * 3_000_000, "ä" * 1_500_000, b"x" * (17 << 20)):  # the last breaks the connection
            with self.assertRaises(InvalidInput) as caught:
                self.client.publish("t", body, id="bad")
            self.assertEqual((413, "too_large"), (caught.exception.status, caught.exception.code))
        with self.assertRaises(NotFound):
            self.client.task("bad")

    def test_times(self):
        soon = datetime.now(timezone.utc) + timedelta(days=2)
        self.client.publish("t", id="delay", delay=timedelta(hours=1))
        self.client.publish("t", id="at", at=soon, expires=timedelta(days=3))
        self.client.publish("t", id="headers", headers={"k": "v"}, delay="1h", expires=soon)
        self.assertEqual({"scheduled"}, {self.state(id) for id in ("delay", "at", "headers")})
        shown = self.client.task("at")["not_before"]
        self.assertLess(abs(datetime.fromisoformat(shown) - soon), timedelta(seconds=1))
        self.assertEqual({"k": "v"}, self.client.task("headers")["headers"])

    def test_many_tasks_and_their_errors(self):
        given = [Message("t", n, id=f"m{n}") for n in range(1500)]
        given[3] = Message("t", object())
        given[5] = {"topic": "", "body": 1}
        given[7] = {"topic": "t", "body": b"\xff\x00", "id": "bytes", "headers": {"a": "b"}}
        given.append(Message("t", 0, id="m0"))
        given.append(Message("t", "other", id="m0"))
        results = self.client.publish_many(iter(given))
        self.assertEqual(len(given), len(results))
        self.assertIsInstance(results[3], InvalidInput)
        self.assertIsInstance(results[5], InvalidInput)
        self.assertEqual("bytes", results[7].id)
        self.assertTrue(results[-2].duplicate)
        self.assertIsInstance(results[-1], Conflict)
        failed = [n for n, each in enumerate(results) if isinstance(each, OnceError)]
        self.assertEqual([3, 5, len(given) - 1], failed)
        self.assertEqual([], self.client.publish_many([]))
        self.assertEqual(1498, len(list(self.client.tasks(queue="q"))))
        self.assertEqual(1498, len(list(self.client.tasks(state="waiting", topic="t"))))

    def test_one_try_id_for_all_tries_of_one_publish(self):
        class Tries(Proxy):
            seen = []

            def fate_of(self, request):
                self.seen.append(re.search(rb"once-try: (\w+)", request, re.I).group(1))
                number = len(self.seen)
                return number == 1, number == 2

        client, proxy = self.proxy(Tries)
        receipt = client.publish("t", 1)
        self.assertFalse(receipt.duplicate)  # a new id cannot be another publisher's
        client.publish("t", 2)
        self.assertEqual(4, len(proxy.seen))
        self.assertEqual(2, len(set(proxy.seen)))
        self.assertEqual(1, len(set(proxy.seen[:3])))


class Tasks(CallTest):
    def test_a_wait_ends_with_the_result_or_the_limit(self):
        self.client.publish("t", id="a")
        with self.assertRaises(TimedOut):
            self.client.wait("a", "q", timeout=0.1)
        with self.assertRaises(NotFound):
            self.client.wait("nothing", timeout=5)
        with self.assertRaises(NotFound):
            self.client.wait("a", "nowhere", timeout=5)
        ends = []
        thread = threading.Thread(target=lambda: ends.append(self.client.wait("a", timeout=30)))
        thread.start()
        self.ok("work", "q", "-q", "--until-empty", "--", "echo", "hello")
        thread.join(30)
        self.assertEqual(("completed", b"hello\n", True), (ends[0].state, ends[0].result, ends[0].completed))

    def test_decisions_of_people(self):
        def handler(task):
            raise Dead("no") if task.id.startswith("dead") else Unknown("?")

        ids = ["dead-1", "dead-2", "doubt-1", "doubt-2"]
        self.client.worker("q")(handler)
        thread = self.run_in_thread(self.client)
        for id in ids:
            self.client.publish("t", id=id)
            self.client.wait(id, timeout=30)
        self.client.stop()
        thread.join(30)
        self.assertEqual("retried", self.client.retry("dead-1", who="ann", why="mended"))
        self.assertEqual("dropped", self.client.drop("dead-2", who="ann"))
        self.assertEqual("completed", self.client.complete("doubt-1", who="ann", why="seen", result={"x": 1}))
        self.assertEqual({"x": 1}, self.client.wait("doubt-1").result)
        self.assertEqual("retried", self.client.retry("doubt-2", who="ann", queue="q"))
        self.assertEqual("cancelled", self.client.cancel("doubt-2", who="bob", why="enough"))
        with self.assertRaises(WrongState) as caught:
            self.client.retry("doubt-1", who="ann")
        self.assertEqual((409, "wrong_state", False), (caught.exception.status, caught.exception.code, caught.exception.in_doubt))
        with self.assertRaises(InvalidInput):
            self.client.cancel("dead-1", who="")
        self.assertEqual(["ann"], [each["by"] for each in self.story("doubt-1")["story"] if each["by"] == "ann"])

    def test_a_retry_is_not_repeated_if_its_answer_is_lost(self):
        class LosesRetries(Proxy):
            acts = Counter()

            def fate_of(self, request):
                act = re.search(rb":(\w+) HTTP", request)
                self.acts[act and act.group(1)] += 1
                return False, bool(act) and self.acts[act.group(1)] == 1

        client, proxy = self.proxy(LosesRetries)
        client.publish("t", id="a")
        client.worker("q")(lambda task: Dead and (_ for _ in ()).throw(Dead("no")))
        thread = self.run_in_thread(client)
        client.wait("a", timeout=30)
        client.stop()
        thread.join(30)
        with self.assertRaises(NoAnswer) as caught:
            client.retry("a", who="ann")
        self.assertTrue(caught.exception.in_doubt)
        self.assertEqual(1, proxy.acts[b"retry"])
        self.assertIn(self.state("a"), ("waiting", "running"))  # the last poll of the worker may still be there
        with self.assertRaises(WrongState) as caught:
            client.cancel("a", who="ann")  # done by the first try
        self.assertTrue(caught.exception.in_doubt)
        self.assertEqual((2, "cancelled"), (proxy.acts[b"cancel"], self.state("a")))

    def test_queues(self):
        made = self.client.put_queue("mail", topic="mail.>", attempts=3, lease="20s")
        self.assertEqual((True, "mail.>", 3), (made["added"], made["topic"], made["attempts"]))
        self.assertFalse(self.client.put_queue("mail", topic="mail.>", attempts=3, lease="20s")["added"])
        with self.assertRaises(WrongState):
            self.client.put_queue("mail", topic="other.>")
        self.assertTrue(self.client.patch_queue("mail", lease="30s")["changed"])
        self.assertEqual("30s", self.client.queue("mail")["lease"])
        self.assertEqual(["mail", "q"], sorted(each["queue"] for each in self.client.queues()))
        self.client.pause_queue("mail")
        self.assertTrue(self.client.queue("mail")["paused"])
        self.client.resume_queue("mail")
        self.assertFalse(self.client.queue("mail")["paused"])
        self.client.publish("mail.x", id="m")
        with self.assertRaises(OnceError) as caught:
            self.client.remove_queue("mail")
        self.assertEqual((409, "queue_not_empty", "mail"), (
            caught.exception.status, caught.exception.reason, caught.exception.facts.get("queue")))
        self.client.remove_queue("mail", force=True)
        with self.assertRaises(NotFound):
            self.client.queue("mail")
        with self.assertRaises(NotFound):
            self.client.remove_queue("mail")
        self.assertEqual(["q"], [each["queue"] for each in self.client.status()["queues"]])

    def test_a_removal_whose_answer_is_lost_is_a_removal(self):
        client, _ = self.proxy(type("LosesOne", (Proxy,), {
            "count": 0, "fate_of": lambda self, _: (False, (setattr(self, "count", self.count + 1) or self.count) == 1)}))
        client.remove_queue("q", force=True)
        self.assertEqual([], self.client.queues())


class Addresses(CallTest):
    def test_the_environment_names_the_server_and_the_token(self):
        class Heard(Proxy):
            authorization = []

            def fate_of(self, request):
                self.authorization.append(re.search(rb"authorization: (.*)\r", request, re.I))
                return False, False

        _, proxy = self.proxy(Heard)
        code = "from once import Once\nprint(Once().publish('t', 1, id='env').id)"
        environment = {**self.environment, "ONCE_URL": f"http://127.0.0.1:{proxy.port}/", "ONCE_TOKEN": "s3cret"}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        self.assertEqual("env\n", done.stdout, done.stderr)
        self.assertEqual(b"Bearer s3cret", proxy.authorization[0].group(1))
        with self.assertRaises(InvalidInput):
            Once(self.url, token="two\r\nlines")

    def test_bad_addresses_are_refused(self):
        for url in ("ftp://host", "http://", "127.0.0.1:7070", "http://h:99999", "http://u:p@h", "http://h/?x=1"):
            with self.assertRaises(InvalidInput, msg=url):
                Once(url)

    def test_a_unix_socket(self):
        path = self.folder / "sock"
        server = self.start("serve", "--socket", str(path))
        self.until(path.exists, "the socket")
        client = self.connect(f"unix:{path}", limit=10)
        self.assertEqual("u", client.publish("t", 1, id="u").id)
        self.assertEqual("waiting", client.task("u")["queues"][0]["state"])
        server.kill()

    def test_tls_with_a_certificate_authority_of_ones_own(self):
        made = subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost"], cwd=self.folder, capture_output=True)
        self.assertEqual(0, made.returncode, made.stderr)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "cert.pem", self.folder / "key.pem")

        class Tls(Proxy):
            def serve(self, client):
                try:
                    super().serve(context.wrap_socket(client, server_side=True))
                except OSError:
                    client.close()

        _, proxy = self.proxy(Tls)
        url = f"https://localhost:{proxy.port}"
        client = self.connect(url, ca_file=str(self.folder / "cert.pem"))
        self.assertEqual("tls", client.publish("t", "x" * 100_000, id="tls").id)
        with self.assertRaises(OnceError) as caught:
            self.connect(url).publish("t", 1, id="other")
        self.assertEqual("untrusted", caught.exception.code)


class Repeats(CallTest):
    def test_a_server_that_is_away_is_awaited(self):
        self.kill_server()
        receipts = []
        thread = threading.Thread(target=lambda: receipts.append(self.client.publish("t", 1, id="a")))
        thread.start()
        self.serve(self.url.removeprefix("http://"))
        thread.join(30)
        self.assertEqual("a", receipts[0].id)

    def test_a_limit_ends_the_repeats_and_says_whether_something_may_have_happened(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        client = self.connect(f"http://127.0.0.1:{port}", limit=0.3)
        began = time.monotonic()
        with self.assertRaises(NoAnswer) as caught:
            client.publish("t", 1)
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual((False, True), (caught.exception.in_doubt, caught.exception.retryable))
        client, proxy = self.proxy(drop_responses=1)
        with self.assertRaises(NoAnswer) as caught:
            client.publish("t", 1, id="a", limit=0.5)
        self.assertTrue(caught.exception.in_doubt)
        self.assertGreater(proxy.requests, 1)
        self.assertTrue(self.client.publish("t", 1, id="a").duplicate)

    def test_an_answer_of_another_server_is_an_error(self):
        class Other(Proxy):
            def pass_on(self, request, response):
                return b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"

        client, _ = self.proxy(Other)
        for call in (client.status, lambda: client.publish("t", 1), lambda: client.wait("a")):
            with self.assertRaises(OnceError):
                call()
        client.worker("q")(lambda task: None)
        with self.assertRaises(OnceError):
            client.run(signals=False)

    def test_busy_answers_are_repeated(self):
        class Busy(Proxy):
            answers = [b"429 Too Many Requests", b"503 Service Unavailable", b"502 Bad Gateway"]

            def pass_on(self, request, response):
                if not self.answers:
                    return response
                return b"HTTP/1.1 " + self.answers.pop(0) + b"\r\nContent-Length: 0\r\nRetry-After: 0\r\n\r\n"

        client, proxy = self.proxy(Busy)
        self.assertEqual("a", client.publish("t", 1, id="a").id)
        self.assertEqual(4, proxy.requests)

    def test_a_connection_is_kept_and_a_closed_one_is_replaced(self):
        client, proxy = self.proxy()
        accepted = []
        serve, proxy.serve = proxy.serve, lambda sock: (accepted.append(sock), serve(sock))
        for n in range(5):
            client.publish("t", n)
        self.assertEqual(1, len(accepted))
        accepted[0].shutdown(socket.SHUT_RDWR)
        client.publish("t", 5)
        self.assertEqual(2, len(accepted))

    def test_many_threads_share_a_client(self):
        ids, mutex = [], threading.Lock()

        def publish(n):
            for k in range(10):
                receipt = self.client.publish("t", n, id=f"{n}-{k}")
                with mutex:
                    ids.append(receipt.id)

        threads = [threading.Thread(target=publish, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(80, len(set(ids)))
        self.assertEqual(80, self.client.status()["queues"][0]["waiting"])


class Asyncio(CallTest):
    def test_coroutines_publish_work_and_wait(self):
        async def everything():
            client = AsyncOnce(self.url)
            ran, together = Counter(), asyncio.Barrier(3)

            @client.worker("q", concurrency=3)
            async def handle(task):
                if task.attempt == 1:
                    await together.wait()  # three at the same time, on one thread

                async def pay():
                    await asyncio.sleep(0)
                    ran[task.id] += 1
                    if task.attempt == 1 and task.id == "a":
                        raise Unknown("cut off")
                    return {"paid": task.body, "key": task.key("pay")}

                async def look():
                    return {"paid": "found", "key": task.key("pay")}

                paid = await task.step("pay", pay, probe=look)
                self.assertIs(task.key("pay") == paid["key"], True)
                self.assertEqual(task.id, once.current_task().id)
                return paid["paid"]

            work = asyncio.create_task(client.run(signals=False))
            for id in "abc":
                await client.publish("t", id, id=id)
            ends = [(await client.wait(id, timeout=30)).result for id in "abc"]
            self.assertEqual(["found", "b", "c"], ends)
            self.assertEqual({"a": 1, "b": 1, "c": 1}, dict(ran))
            client.stop()
            await work
            client.close()

        self.client.patch_queue("q", in_doubt="retry", backoff=["10ms"])
        asyncio.run(everything())

    def test_a_cancelled_run_drains(self):
        async def cancelled():
            client = AsyncOnce(self.url)
            began, go_on = asyncio.Event(), asyncio.Event()

            @client.worker("q")
            async def handle(task):
                began.set()
                await go_on.wait()
                return "finished"

            work = asyncio.create_task(client.run(signals=False))
            await client.publish("t", id="a")
            await began.wait()
            work.cancel()
            await asyncio.sleep(0)
            go_on.set()
            with self.assertRaises(asyncio.CancelledError):
                await work
            client.close()

        asyncio.run(cancelled())
        self.assertEqual("finished", self.client.wait("a", timeout=5).result)


class Readme(CallTest):
    def test_the_program_of_the_readme_runs(self):
        text = (CLIENT / "README.md").read_text()
        program = re.search(r"```python\n(.*?)```", text, re.S).group(1)
        self.assertIn(program.split("@once")[1].split("url =")[0].strip(),
                      (CLIENT / "once" / "__init__.py").read_text().replace("\n    ", "\n"))
        given = (
            "calls = []\n"
            "def ask(topic): return 'notes on ' + topic\n"
            "def post(notes, key): calls.append(key); once.stop(); return notes + ' posted'\n"
            "def find_post(id): return None\n"
        )
        self.client.put_queue("writers", topic="blog.*")
        environment = {**self.environment, "ONCE_URL": self.url}
        command = [sys.executable, "-c", given + program + "print(calls)"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stdout, r"^\['[0-9a-f]{64}'\]$")
        self.assertEqual({"url": "notes on Exactly once posted"}, self.client.wait("post-42").result)


if __name__ == "__main__":
    unittest.main()
