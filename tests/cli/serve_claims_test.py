#!/usr/bin/env -S python3 -B
"""Workers over HTTP: offers, starts, renewals, steps and settlements, also when answers are lost."""

import http.client
import json
import random
import select
import signal
import socket
import sys
import threading
import time
import unittest
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import OnceTest  # noqa: E402
from openapi import check_reply  # noqa: E402


class ClaimsTest(OnceTest):
    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t", "--in-doubt", "hold", "--attempts", "3", "--backoff", "100ms")

    def serve(self, listen=":0"):
        self.process = self.start("serve", "--listen", listen)
        line = self.process.stderr.readline().decode()
        self.assertIn("listening on http://", line)
        self.port = int(line.rsplit(":", 1)[1])

    def post(self, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", path, json.dumps(body or {}), {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
            check_reply(self, "POST", path, json.dumps(body or {}), response.status, response.headers["Content-Type"], text)
            return response.status, json.loads(text)
        finally:
            connection.close()

    def good(self, path, body=None):
        status, answer = self.post(path, body)
        self.assertEqual(200, status, answer)
        return answer

    def problem(self, status, code, path, body=None):
        given, answer = self.post(path, body)
        self.assertEqual((status, code), (given, answer.get("code")), answer)
        return answer

    def publish(self, id, body="null"):
        self.ok("publish", "t", "--id", id, body)

    def offers(self, most=10, wait="0s", **more):
        return self.good("/v1/queues/q/claims", {"worker": "w", "max": most, "wait": wait, **more})["claims"]

    def begin(self, claim):
        return self.good("/v1/claims:start", {"claims": [claim]})["claims"][0]

    def state(self, id):
        return json.loads(self.ok("inspect", id, "--json").out)["queues"][0]["state"]


class Claims(ClaimsTest):
    def setUp(self):
        super().setUp()
        self.serve()

    def test_a_task_is_offered_started_and_completed(self):
        self.publish("a", '{"n":1}')
        offer, = self.offers()
        self.assertEqual({"claim", "id", "key", "lease_ms"}, set(offer))
        self.assertEqual(("a", "a"), (offer["id"], offer["key"]))
        self.assertTrue(8_000 < offer["lease_ms"] <= 10_000, offer)
        self.assertEqual([], self.offers())
        task = self.begin(offer["claim"])
        self.assertEqual({"n": 1}, task["body"])
        self.assertEqual((1, False, False), (task["attempt"], task["in_doubt"], task["probing"]))
        self.assertTrue(25_000 < task["lease_ms"] <= 30_000, task)
        again = self.begin(offer["claim"])
        self.assertEqual(task["token"], again["token"])
        for _ in range(2):
            done = self.good(f"/v1/claims/{offer['claim']}:complete", {"result": {"url": "u"}})
            self.assertEqual("completed", done["state"])
        shown = json.loads(self.ok("inspect", "a", "--json").out)["queues"][0]
        self.assertEqual({"url": "u"}, shown["result"])
        self.assertEqual(["w"], [attempt["worker"] for attempt in shown["attempts"]])

    def test_many_are_settled_at_once_and_the_next_are_offered(self):
        for id in "abcdef":
            self.publish(id)
        ran = []
        claims = self.offers(2)
        while claims:
            started = self.good("/v1/claims:start", {"claims": [each["claim"] for each in claims]})["claims"]
            ran += [task["id"] for task in started]
            verdicts = [{"claim": task["claim"], "outcome": "completed"} for task in started]
            answer = self.good("/v1/claims:settle", {"claims": verdicts, "next": 2, "worker": "w"})
            self.assertEqual({"completed"}, {each["state"] for each in answer["claims"]})
            claims = answer["next"]
        self.assertEqual(list("abcdef"), sorted(ran))

    def test_steps_are_remembered_by_the_next_attempt(self):
        self.publish("a")
        claim = self.offers()[0]["claim"]
        self.begin(claim)
        step = f"/v1/claims/{claim}/steps/mail"
        self.assertEqual("run", self.good(f"{step}:begin", {"call": "1"})["outcome"])
        self.assertEqual("run", self.good(f"{step}:begin", {"call": "1"})["outcome"])
        self.assertEqual("step_under_way", self.problem(409, "wrong_state", f"{step}:begin", {"call": "2"})["reason"])
        self.problem(409, "wrong_state", f"{step}:end", {"result": 1, "call": "2"})
        for _ in range(2):
            self.good(f"{step}:end", {"result": {"sent": 17}, "call": "1"})
        self.assertEqual("retrying", self.good(f"/v1/claims/{claim}:fail", {"why": "later"})["state"])
        claim = self.offers(wait="10s")[0]["claim"]
        self.assertEqual(["mail"], [each["step"] for each in self.begin(claim)["steps"]])
        begun = self.good(f"/v1/claims/{claim}/steps/mail:begin", {"call": "3"})
        self.assertEqual(("remembered", {"sent": 17}), (begun["outcome"], begun["result"]))
        self.assertRegex(begun["idempotency_key"], "^[0-9a-f]{64}$")

    def test_an_offer_waits_for_a_publish(self):
        answers = []
        waiter = threading.Thread(target=lambda: answers.extend(self.offers(wait="20s")))
        waiter.start()
        self.publish("a")
        waiter.join(30)
        self.assertEqual(["a"], [each["id"] for each in answers])

    def test_a_started_claim_comes_with_its_task(self):
        self.publish("a", '{"n":1}')
        task, = self.offers(start=True)
        self.assertEqual(({"n": 1}, 1), (task["body"], task["attempt"]))
        self.assertEqual(task["token"], self.begin(task["claim"])["token"])
        self.publish("b")
        settled = self.good("/v1/claims:settle", {"claims": [{"claim": task["claim"], "outcome": "completed"}],
                                                  "next": 1, "worker": "w", "start": True})  # fmt: skip
        self.assertEqual(("b", 1), (settled["next"][0]["id"], settled["next"][0]["attempt"]))
        self.problem(400, "invalid_input", "/v1/queues/q/claims", {"worker": "w", "max": 101, "start": True})

    def test_a_cancelled_task_is_told_by_its_renewal(self):
        self.publish("a")
        claim = self.offers()[0]["claim"]
        self.assertEqual("renewed", self.good("/v1/claims:renew", {"claims": [claim]})["claims"][0]["outcome"])
        self.begin(claim)
        self.ok("cancel", "a", "--queue", "q", "--by", "ann")
        renewed = self.good("/v1/claims:renew", {"claims": [claim, "x"]})["claims"]
        self.assertEqual("asked_to_stop", renewed[0]["outcome"])
        self.assertEqual("invalid_input", renewed[1]["error"])
        self.assertEqual("cancelled", self.good(f"/v1/claims/{claim}:fail", {"why": "stopped"})["state"])

    def test_a_released_offer_leaves_no_trace_and_a_released_task_is_in_doubt(self):
        self.publish("a")
        self.assertEqual("waiting", self.good(f"/v1/claims/{self.offers()[0]['claim']}:release")["state"])
        claim = self.offers()[0]["claim"]
        self.begin(claim)
        self.assertEqual("in_doubt", self.good(f"/v1/claims/{claim}:release", {"why": "ending"})["state"])

    def test_bad_input_gets_a_problem_and_loses_nothing(self):
        self.publish("a")
        claims, one = "/v1/queues/q/claims", {"worker": "w"}
        self.problem(400, "invalid_input", claims, {"worker": ""})
        self.problem(400, "invalid_input", claims, {"max": 1})
        for wrong in [{"max": 0}, {"max": 1001}, {"max": "1"}, {"wait": "soon"}, {"wait": "1h"}, {"wait": 3}, {"can_probe": 1}, {"more": 1}]:
            self.problem(400, "invalid_input", claims, {**one, **wrong})
        self.problem(404, "not_found", "/v1/queues/nowhere/claims", one)
        for wrong in [{}, {"claims": []}, {"claims": "x"}, {"claims": [1]}, {"claims": ["x"] * 101}]:
            self.problem(400, "invalid_input", "/v1/claims:start", wrong)
        self.problem(400, "invalid_input", "/v1/claims:renew", {"claims": ["x"] * 1001})
        self.problem(400, "invalid_input", claims, {"worker": "w" * 201})
        claim = self.offers()[0]["claim"]
        self.assertEqual("claim_not_started", self.problem(409, "wrong_state", f"/v1/claims/{claim}:complete")["reason"])
        self.problem(409, "wrong_state", f"/v1/claims/{claim}/steps/s:begin")
        self.begin(claim)
        for wrong in [{"outcome": "well"}, {}, {"outcome": "failed", "why": 1}, {"outcome": "failed", "retry_in": "x"}, {"outcome": "dead", "x": 1}]:
            self.problem(400, "invalid_input", "/v1/claims:settle", {"claims": [{"claim": claim, **wrong}]})
        self.problem(400, "invalid_input", "/v1/claims:settle", {"claims": [{"claim": claim, "outcome": "dead"}], "next": 1})
        self.problem(400, "invalid_input", f"/v1/claims/{claim}/steps/s:begin", {"in_doubt": "steps"})
        self.problem(400, "invalid_input", f"/v1/claims/{claim}/steps/s:end")
        self.problem(400, "invalid_input", "/v1/claims/xyz:complete")
        other = self.good("/v1/claims:settle", {"claims": [{"claim": claim, "outcome": "failed"}, {"claim": "xyz", "outcome": "dead"}]})
        self.assertEqual("retrying", other["claims"][0]["state"])
        self.assertEqual("invalid_input", other["claims"][1]["error"])
        self.problem(409, "fenced", f"/v1/claims/{claim}:complete")
        self.assertEqual("retrying", self.state("a"))


    def test_a_queue_that_gets_a_limit_keeps_it_and_its_claims_go_on(self):
        for id in "abcd":
            self.publish(id)
        claim = self.offers(1)[0]["claim"]
        self.begin(claim)
        self.ok("queue", "set", "q", "--max-running", "2")
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.serve()
        out = [offer["claim"] for offer in self.offers(5)]
        self.assertEqual(2, len(out), "a claim without a slot is not counted")
        self.assertEqual([], self.offers(5))
        self.assertEqual("completed", self.good(f"/v1/claims/{claim}:complete")["state"])
        self.assertEqual([], self.offers(5))
        self.begin(out[0])
        self.assertEqual("completed", self.good(f"/v1/claims/{out[0]}:complete")["state"])
        self.assertEqual(1, len(self.offers(5)))


class Polls(ClaimsTest):
    """Long polls: one thread of the server waits for all of them."""

    def setUp(self):
        super().setUp()
        self.serve()

    def poll(self, worker="w", wait="60s", most=1):
        body = json.dumps({"worker": worker, "wait": wait, "max": most})
        poll = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.addCleanup(poll.close)
        poll.sendall(f"POST /v1/queues/q/claims HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n{body}".encode())  # fmt: skip
        return poll

    def answer(self, poll):
        response = http.client.HTTPResponse(poll)
        response.begin()
        return response.status, json.loads(response.read())

    def test_tasks_are_shared_out_among_the_polls(self):
        polls = [self.poll(f"w{i}") for i in range(20)]
        lines = "".join(json.dumps({"topic": "t", "id": f"task{i}"}) + "\n" for i in range(20))
        self.ok("publish", "--batch", "-", stdin=lines)
        offers = [self.answer(poll)[1]["claims"] for poll in polls]
        self.assertEqual([1] * 20, [len(each) for each in offers])
        self.assertEqual(20, len({each["id"] for each, in offers}))

    def test_a_poll_ends_with_its_time_and_the_others_wait_on(self):
        long, short = self.poll("long"), self.poll("short", wait="200ms")
        self.assertEqual((200, {"claims": []}), self.answer(short))
        self.publish("a")
        self.assertEqual(["a"], [each["id"] for each in self.answer(long)[1]["claims"]])

    def test_a_client_that_left_gets_no_task(self):
        for _ in range(5):
            self.poll("gone").close()
        stays = self.poll("stays")
        self.publish("a")
        self.assertEqual(["a"], [each["id"] for each in self.answer(stays)[1]["claims"]])
        self.assertIn("stays", json.loads(self.ok("inspect", "a", "--json").out)["queues"][0]["next"])

    def test_polls_hear_that_the_queue_is_gone_and_the_next_queue_serves_its_own(self):
        poll = self.poll()
        self.ok("queue", "remove", "q", "--force")
        self.assertEqual(404, self.answer(poll)[0])
        self.ok("queue", "add", "q", "--topic", "t")
        poll = self.poll()
        self.publish("b")
        self.assertEqual(["b"], [each["id"] for each in self.answer(poll)[1]["claims"]])

    def test_more_polls_wait_than_the_pool_has_threads(self):
        polls = [self.poll(f"w{i}") for i in range(300)]
        self.until(lambda: self.unread() == [0] * 300, "the server has read every poll")
        self.publish("a")
        ready, _, _ = select.select(polls, [], [], 60)
        self.assertEqual(["a"], [each["id"] for each in self.answer(ready[0])[1]["claims"]])
        self.process.send_signal(signal.SIGTERM)
        for poll in polls:
            if poll is not ready[0]:
                self.assertEqual((200, {"claims": []}), self.answer(poll))
        self.assertEqual(0, self.process.wait(timeout=30))

    def unread(self):
        """The bytes that the server has not read, for each of its connections."""
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return [int(words[4].split(":")[1], 16) for words in lines
                if words[1] == f"0100007F:{self.port:04X}" and words[3] == "01"]  # fmt: skip

    def test_requests_that_follow_a_poll_on_its_connection_are_answered_after_it(self):
        poll = self.poll(wait="300ms")
        poll.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual((200, {"claims": []}), self.answer(poll))
        self.assertEqual((200, {"ready": True}), self.answer(poll))


class Lost(ClaimsTest):
    """A client that loses one request and one response in ten, and a server that is killed."""

    def unreliable(self, path, body):
        """The answer; None if the request or the answer was lost, or the server is away."""
        if self.random.random() < 0.1:
            return None
        try:
            status, answer = self.post(path, body)
        except (OSError, http.client.HTTPException, ValueError):
            time.sleep(0.05)
            return None
        if self.random.random() < 0.1 or status in (429, 503):
            return None
        return status, answer

    def insist(self, path, body):
        while True:
            if answer := self.unreliable(path, body):
                return answer

    def work(self, name):
        while not self.over:
            offered = self.unreliable("/v1/queues/q/claims", {"worker": name, "max": 4})
            for offer in offered[1].get("claims", []) if offered else []:
                status, answer = self.insist("/v1/claims:start", {"claims": [offer["claim"]]})
                task = answer["claims"][0]
                if "error" in task:
                    continue  # the offer has ended; nothing began
                with self.mutex:
                    self.effects[task["id"]] += 1
                status, answer = self.insist(f"/v1/claims/{offer['claim']}:complete", {"result": name})
                with self.mutex:
                    self.answers[task["id"], status] += 1

    def test_nothing_is_lost_and_nothing_runs_twice(self):
        self.random, self.mutex, self.over = random.Random(7), threading.Lock(), False
        self.effects, self.answers = Counter(), Counter()
        tasks = 150
        lines = "".join(json.dumps({"topic": "t", "id": f"task{i}", "body": i}) + "\n" for i in range(tasks))
        self.ok("publish", "--batch", "-", stdin=lines)
        self.serve()
        listen = f"127.0.0.1:{self.port}"
        workers = [threading.Thread(target=self.work, args=(f"w{i}",)) for i in range(4)]
        for worker in workers:
            worker.start()
        deadline = time.time() + 90
        try:
            for _ in range(4):
                time.sleep(1)
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()
                self.serve(listen)
            while sum(count for (_, status), count in self.answers.items() if status == 200) < tasks and time.time() < deadline:
                time.sleep(0.2)
        finally:
            self.over = True
            for worker in workers:
                worker.join()
        self.assertEqual({f"task{i}": 1 for i in range(tasks)}, dict(self.effects))
        self.assertEqual({(f"task{i}", 200): 1 for i in range(tasks)}, dict(self.answers))
        counted = json.loads(self.ok("status", "--json").out.splitlines()[0])
        self.assertEqual(tasks, counted["completed"])
        self.ok("audit", "--deep")


if __name__ == "__main__":
    unittest.main()
