#!/usr/bin/env -S python3 -B
"""Workers of the Python client: verdicts, steps, probes, leases, drains, and everything that is lost."""

import signal
import sys
import threading
import time
import unittest
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from client_test import ClientTest, Proxy  # noqa: E402

from once import (  # noqa: E402
    Cancelled, Dead, Fail, Happened, InvalidInput, NotFound, Unknown, current_task,
)


class WorkerTest(ClientTest):
    def setUp(self):
        super().setUp()
        self.queue()

    def queue(self, name="q", topic="t", **fields):
        fields = {"attempts": 5, "backoff": ["10ms"], **fields}
        return self.client.put_queue(name, topic=topic, **fields)

    def publish(self, id, body=None):
        return self.client.publish("t", body, id=id)


class Verdicts(WorkerTest):
    def test_tasks_run_once_and_their_results_come_back(self):
        ran, together, most = Counter(), [0], [0]
        mutex, all_busy = threading.Lock(), threading.Barrier(4)

        def handler(task):
            with mutex:
                ran[task.id] += 1
                together[0] += 1
                most[0] = max(most[0], together[0])
            if task.body["n"] < 4:
                all_busy.wait(20)  # four handlers run at the same time
            with mutex:
                together[0] -= 1
            return {"n": task.body["n"] * 2}

        self.work(handler, concurrency=4, name="py-1")
        for n in range(12):
            self.publish(f"task{n}", {"n": n})
        for n in range(12):
            outcome = self.client.wait(f"task{n}", "q", timeout=30)
            self.assertEqual(("completed", {"n": n * 2}), (outcome.state, outcome.result))
        self.assertEqual({f"task{n}": 1 for n in range(12)}, dict(ran))
        self.assertEqual(4, most[0])
        self.assertEqual("py-1", self.story("task0")["attempts"][0]["worker"])

    def test_a_handler_sees_its_task(self):
        seen = []
        self.work(lambda task: seen.append((task, current_task())))
        self.client.publish("t", {"ü": ["€"]}, id="ä/ö:1", headers={"source": "shöp"})
        self.client.wait("ä/ö:1", timeout=30)
        task, same = seen[0]
        self.assertIs(task, same)
        self.assertEqual(("ä/ö:1", "t", "q", {"ü": ["€"]}), (task.id, task.topic, task.queue, task.body))
        self.assertEqual(("shöp", 1, False), (task.headers["source"], task.attempt, task.in_doubt))
        self.assertGreater(task.token, 0)
        self.assertEqual(64, len(task.key()))
        self.assertFalse(task.cancelled.is_set() or task.lost.is_set())

    def test_exceptions_are_verdicts(self):
        def handler(task):
            if task.attempt == 2:
                return "second"
            if task.id == "dead":
                raise Dead("never \udcff")
            if task.id == "fail":
                raise Fail("not now", retry_in=0.02)
            if task.id == "unknown":
                raise Unknown("no answer")
            if task.id == "bug":
                return {}["missing"]
            if task.id == "odd":
                return object()
            if task.id == "late":
                raise Fail("later", retry_in="someday")
            sys.exit(1)

        ids = ["dead", "fail", "unknown", "bug", "odd", "late", "exit"]
        self.work(handler, concurrency=2)
        for id in ids:
            self.publish(id)
        ends = {id: self.client.wait(id, timeout=30) for id in ids}
        self.assertEqual("dead", ends["dead"].state)
        self.assertIn("never \\udcff", ends["dead"].reason)
        self.assertEqual({"second"}, {ends[id].result for id in ids[1:]})
        first = {id: self.story(id)["attempts"][0] for id in ids}
        outcomes = {id: (each["outcome"], each["error"]) for id, each in first.items()}
        self.assertEqual(("failed", "not now"), outcomes["fail"])
        self.assertEqual(("unknown", "no answer"), outcomes["unknown"])
        self.assertEqual(("failed", "KeyError: 'missing'"), outcomes["bug"])
        self.assertEqual("unknown", outcomes["odd"][0])
        self.assertIn("not JSON", outcomes["odd"][1])
        self.assertEqual("unknown", outcomes["late"][0])
        self.assertIn("retry_in", outcomes["late"][1])
        self.assertEqual(("unknown", "SystemExit: 1"), outcomes["exit"])

    def test_a_worker_of_a_queue_that_does_not_exist_says_so(self):
        self.client.worker("nowhere")(lambda task: None)
        with self.assertRaises(NotFound) as caught:
            self.client.run(signals=False)
        self.assertEqual("no_queue", caught.exception.reason)
        with self.assertRaises(InvalidInput):
            self.client.worker("q", concurrency=0)(lambda task: None)
        with self.assertRaises(InvalidInput):
            self.connect().run(signals=False)

    def test_the_workers_probe_is_asked_about_a_task_in_doubt(self):
        self.client.patch_queue("q", in_doubt="probe")
        asked = Counter()

        def probe(task):
            asked[task.id] += 1
            return {"yes": {"found": 1}, "void": Happened(), "no": None, "never": False, "lost": Unknown}[task.id]

        def handler(task):
            if not asked[task.id]:
                raise Unknown("cut off")
            return "ran again"

        ids = ["yes", "void", "no", "never", "lost"]
        self.work(handler, probe=probe)
        for id in ids:
            self.publish(id)
        ends = {id: self.client.wait(id, timeout=30) for id in ids if id != "lost"}
        self.becomes("lost", "in_doubt")
        self.until(lambda: asked["lost"], "the probe was asked")
        self.assertEqual(("completed", {"found": 1}), (ends["yes"].state, ends["yes"].result))
        self.assertEqual(("completed", None), (ends["void"].state, ends["void"].result))
        self.assertEqual(["ran again"] * 2, [ends["no"].result, ends["never"].result])
        self.assertEqual("in_doubt", self.client.wait("lost").state)


class Steps(WorkerTest):
    def test_a_finished_step_is_remembered_by_the_next_attempt(self):
        ran, keys = Counter(), []

        def count(name, value):
            ran[name] += 1
            return value

        def handler(task):
            first = task.step("fïrst/1:a", lambda: count("first", {"tuple": (1, "ü")}))
            if task.attempt == 1:
                with self.assertRaises(ValueError):
                    task.step("second", lambda: count("second", int("x")))
                return task.step("second", lambda: keys.append(task.key("second")) or count("second", int("x")))
            second = task.step("second", lambda: keys.append(task.key("second")) or count("second", None))
            with self.assertRaises(InvalidInput):
                task.step("second", lambda: count("second", None))
            with self.assertRaises(InvalidInput):
                task.key("third")
            return [first, second, task.step("third", lambda: [True, 1.5, None])]

        self.work(handler)
        self.publish("a")
        outcome = self.client.wait("a", timeout=30)
        self.assertEqual([{"tuple": [1, "ü"]}, None, [True, 1.5, None]], outcome.result)
        self.assertEqual({"first": 1, "second": 1}, dict(ran))
        self.assertEqual([("fïrst/1:a", "done", 1), ("second", "done", 3), ("third", "done", 1)], self.steps("a"))
        self.assertEqual(2, len(keys))
        self.assertEqual(keys[0], keys[1])
        self.assertRegex(keys[0], "^[0-9a-f]{64}$")

    def test_steps_are_remembered_after_a_worker_is_killed(self):
        self.client.patch_queue("q", lease="2s")
        code = (
            "@once.worker('q')\n"
            "def handle(task):\n"
            "    notes = task.step('research', lambda: mark('research') or 'notes')\n"
            "    def publish():\n"
            "        mark('publish')\n"
            "        if task.attempt == 1: time.sleep(1000)\n"
            "        return notes + ' published'\n"
            "    return task.step('publish', publish, in_doubt='retry')\n"
            "once.run()\n"
        )
        self.publish("a")
        process = self.worker_process(code)
        self.until(lambda: "publish" in self.marks, "the first worker publishes")
        self.kill(process)
        self.worker_process(code)
        self.assertEqual("notes published", self.client.wait("a", timeout=30).result)
        self.assertEqual(["research", "publish", "publish"], self.marks)
        self.assertEqual(["lost", "completed"], self.attempts("a"))

    def cut_off(self, id, ran, **options):
        """A handler whose step is cut off in its first attempt."""

        def step(task):
            ran[task.id] += 1
            if task.attempt == 1:
                raise Unknown("cut off")
            return "ran again"

        def handler(task):
            return task.step("pay", lambda: step(task), **options)

        self.publish(id)
        return handler

    def test_a_step_that_was_cut_off_asks_its_probe(self):
        def broken():
            raise OSError("the bank is closed")

        cases = {
            "yes": (lambda: "found", "completed", "found", 1),
            "void": (Happened, "completed", None, 1),
            "no": (lambda: None, "completed", "ran again", 2),
            "lost": (lambda: Unknown("cannot know"), "in_doubt", None, 1),
            "broken": (broken, "in_doubt", None, 1),
        }
        for id, (probe, state, result, runs) in cases.items():
            with self.subTest(id):
                ran = Counter()
                queue = f"q-{id}"
                self.queue(queue, topic="t." + id)
                step = {1: Unknown("cut off"), 2: "ran again"}

                def handler(task, probe=probe, ran=ran, step=step):
                    def pay():
                        ran[task.key("pay")] += 1
                        if task.attempt == 1:
                            raise step[1]
                        return step[2]

                    return task.step("pay", pay, probe=probe)

                self.work(handler, queue)
                self.client.publish("t." + id, id=id)
                self.until(lambda: self.story(id, queue)["state"] == state and (
                    state != "in_doubt" or len(self.story(id, queue)["attempts"]) == 2), f"{id} is {state}")
                outcome = self.client.wait(id, queue, timeout=30)
                self.assertEqual((state, result), (outcome.state, outcome.result))
                self.assertEqual([runs], list(ran.values()))
                self.assertEqual(runs, self.story(id, queue)["steps"][0]["runs"])

    def test_a_step_that_was_cut_off_is_held_or_retried(self):
        ran = Counter()
        self.work(self.cut_off("held", ran, in_doubt="hold"))
        self.becomes("held", "in_doubt")
        self.assertEqual(1, ran["held"])
        self.queue("r", "r")
        client = self.connect()
        client.worker("r")(self.cut_off("x", ran, in_doubt="retry"))
        self.run_in_thread(client)
        client.publish("r", id="again")
        self.assertEqual("ran again", client.wait("again", timeout=30).result)
        self.assertEqual(2, ran["again"])

    def test_bad_steps_run_nothing(self):
        ran, raised = [], {}

        def handler(task):
            for name, options in {
                "": {}, "x" * 129: {}, "a\tb": {}, "p": {"in_doubt": "probe"}, "s": {"in_doubt": "steps"},
                "h": {"in_doubt": "hold", "probe": lambda: None},
            }.items():
                try:
                    task.step(name, lambda: ran.append(name), **options)
                except InvalidInput as error:
                    raised[name] = error
            return "well"

        self.work(handler)
        self.publish("a")
        self.assertEqual("well", self.client.wait("a", timeout=30).result)
        self.assertEqual(([], 6), (ran, len(raised)))

    def test_a_step_without_json_is_in_doubt_and_does_not_run_again(self):
        ran = []
        self.client.patch_queue("q", in_doubt="steps")
        self.work(lambda task: task.step("s", lambda: ran.append(1) or object(), in_doubt="hold"))
        self.publish("a")
        self.becomes("a", "in_doubt")
        self.assertEqual([1], ran)

    def test_two_threads_do_not_run_one_step(self):
        ran, refused = [], []
        inside, go_on = threading.Event(), threading.Event()

        def handler(task):
            def slow():
                ran.append(1)
                inside.set()
                go_on.wait(20)
                return "slow"

            def second():
                inside.wait(20)
                try:
                    task.step("s", lambda: ran.append(2))
                except Exception as error:
                    refused.append(error)
                go_on.set()

            thread = threading.Thread(target=second)
            thread.start()
            result = task.step("s", slow)
            thread.join()
            return result

        self.work(handler)
        self.publish("a")
        self.assertEqual("slow", self.client.wait("a", timeout=30).result)
        self.assertEqual(([1], "step_under_way"), (ran, refused[0].reason))


class Leases(WorkerTest):
    def test_a_long_task_keeps_its_lease(self):
        self.client.patch_queue("q", lease="1s")
        self.work(lambda task: time.sleep(2.5) or task.lost.is_set())
        self.publish("a")
        self.assertIs(False, self.client.wait("a", timeout=30).result)
        self.assertEqual(["completed"], self.attempts("a"))

    def test_a_cancelled_task_is_asked_to_stop(self):
        self.client.patch_queue("q", lease="1s")
        running, after = threading.Event(), []

        def handler(task):
            running.set()
            self.assertTrue(task.cancelled.wait(20))
            try:
                task.step("more", lambda: after.append(1))
            except Cancelled:
                after.append("cancelled")
                raise

        self.work(handler)
        self.publish("a")
        running.wait(20)
        self.assertEqual("asked_to_stop", self.client.cancel("a", who="ann", why="not needed"))
        self.becomes("a", "cancelled")
        self.assertEqual((["cancelled"], ["failed"]), (after, self.attempts("a")))

    def test_a_step_finds_out_that_its_task_was_cancelled(self):
        def handler(task):
            self.client.cancel("a", who="ann")
            task.step("more", lambda: ran.append(1))

        ran = []
        self.work(handler)  # its lease is 30 s, so that no heartbeat tells it
        self.publish("a")
        self.becomes("a", "cancelled")
        self.assertEqual([], ran)

    def test_a_worker_that_was_suspended_settles_nothing(self):
        self.client.patch_queue("q", lease="1s")
        code = (
            "@once.worker('q')\n"
            "def handle(task):\n"
            "    mark(f'began {task.attempt}')\n"
            "    while not os.path.exists('go-on'): time.sleep(0.01)\n"
            "    mark(f'lost {task.lost.is_set()}')\n"
            "    try: task.step('late', lambda: mark('ran late'))\n"
            "    except AttemptOver: mark('over')\n"
            "    return 'from the first'\n"
            "once.run()\n"
        )
        self.publish("a")
        process = self.worker_process(code)
        self.until(lambda: self.marks == ["began 1"], "the first worker runs")
        process.send_signal(signal.SIGSTOP)
        self.work(lambda task: "from the second")
        self.assertEqual("from the second", self.client.wait("a", timeout=30).result)
        (self.folder / "go-on").touch()
        process.send_signal(signal.SIGCONT)
        self.until(lambda: len(self.marks) == 3, "the first handler has ended")
        self.assertEqual(["began 1", "lost True", "over"], self.marks)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(30))
        self.assertEqual(["lost", "completed"], self.attempts("a"))

    def test_without_renewals_the_handler_is_told_by_the_clock(self):
        class NoRenewals(Proxy):
            def fate_of(self, request):
                return b"/v1/claims:renew" in request.split(b"\r\n")[0], False

        self.client.patch_queue("q", lease="1s", in_doubt="hold")
        told = []

        def handler(task):
            began = time.monotonic()
            self.assertTrue(task.lost.wait(20))
            waited, used = time.monotonic() - began, time.process_time()
            time.sleep(0.3)  # a heartbeat that finds nothing to renew must not spin
            told.append((waited, task.cancelled.is_set(), time.process_time() - used))
            return "too late"

        client, _ = self.proxy(NoRenewals)
        self.work(handler, client=client)
        self.publish("a")
        self.becomes("a", "in_doubt")
        self.until(lambda: told, "the handler is told")
        self.assertLess(told[0][0], 1.5)
        self.assertTrue(told[0][1])
        self.assertLess(told[0][2], 0.2)
        self.assertEqual(["lost"], self.attempts("a"))

    def test_a_lease_counts_from_the_request_and_not_from_its_answer(self):
        class SlowStart(Proxy):
            held = threading.Event()

            def pass_on(self, request, response):
                first = not self.held.is_set()
                if b"/v1/claims:start" in request.split(b"\r\n")[0] and first:
                    self.held.set()
                    time.sleep(1.5)  # longer than the lease
                return response

        self.client.patch_queue("q", lease="1s", in_doubt="retry")
        ran = []
        client, _ = self.proxy(SlowStart)
        self.work(lambda task: ran.append(task.attempt), client=client)
        self.publish("a")
        self.client.wait("a", timeout=30)
        self.assertEqual([2], ran)


class Drain(WorkerTest):
    def test_sigterm_finishes_what_runs_and_starts_nothing_more(self):
        code = (
            "@once.worker('q', concurrency=2)\n"
            "def handle(task):\n"
            "    mark(task.id)\n"
            "    while not os.path.exists('go-on'): time.sleep(0.01)\n"
            "    return 'done'\n"
            "once.run()\n"
            "mark('returned')\n"
        )
        for id in "abcd":
            self.publish(id)
        process = self.worker_process(code)
        self.until(lambda: len(self.marks) == 2, "two tasks run")
        process.send_signal(signal.SIGTERM)
        (self.folder / "go-on").touch()
        self.assertEqual(0, process.wait(30), process.stderr.read())
        self.assertEqual("returned", self.marks[-1])
        self.assertEqual(3, len(self.marks))
        states = Counter(self.state(id) for id in "abcd")
        self.assertEqual({"completed": 2, "waiting": 2}, dict(states))

    def test_an_offer_that_was_not_started_is_released(self):
        class SlowSettle(Proxy):
            stopped, waits = threading.Event(), threading.Event()

            def pass_on(self, request, response):
                if b"/v1/claims:settle" in request.split(b"\r\n")[0] and b'"next":1' in request:
                    self.waits.set()
                    self.stopped.wait(20)
                return response

        client, proxy = self.proxy(SlowSettle)
        for id in "ab":
            self.publish(id)
        thread = self.work(lambda task: None, client=client)
        proxy.waits.wait(20)  # the answer has the offer of b
        client.stop()
        self.until(lambda: not any("fetch" in each.name for each in threading.enumerate()), "the worker stops")
        began = time.monotonic()
        proxy.stopped.set()
        thread.join(30)
        self.becomes("b", "waiting")
        self.assertLess(time.monotonic() - began, 5)  # an offer lasts for ten seconds
        self.assertEqual([], self.attempts("b"))

    def test_an_idle_worker_stops_at_once(self):
        client, proxy = self.proxy()
        thread = self.work(lambda task: None, client=client, concurrency=3)
        self.until(lambda: proxy.requests == 1, "the worker polls")
        began = time.monotonic()
        client.stop()
        thread.join(30)
        self.assertLess(time.monotonic() - began, 5)  # a poll lasts for thirty seconds

    def test_a_drain_ends_at_its_limit(self):
        began, go_on, told = threading.Event(), threading.Event(), []

        def handler(task):
            began.set()
            task.cancelled.wait(20)
            told.append(task.cancelled.is_set())
            go_on.wait(20)

        client = self.connect()
        client.worker("q")(handler)
        thread = self.run_in_thread(client, drain=0.2)
        self.publish("a")
        began.wait(20)
        client.stop()
        thread.join(20)
        self.assertFalse(thread.is_alive())
        self.assertEqual([True], told)
        go_on.set()


class Lost(WorkerTest):
    TASKS = 40

    def run_all(self, client, disturb):
        """Runs tasks with two steps each, and counts the effects."""
        effects, mutex = Counter(), threading.Lock()

        def effect(name, value):
            with mutex:
                effects[name] += 1
            return value

        def handler(task):
            one = task.step("one", lambda: effect(f"{task.id} one", task.body + 1), in_doubt="hold")
            two = task.step("two", lambda: effect(f"{task.id} two", one * 2), probe=lambda: Unknown)
            effect(task.id, None)
            return two

        ids = [f"task{n}" for n in range(self.TASKS)]
        receipts = client.publish_many({"topic": "t", "id": id, "body": n} for n, id in enumerate(ids))
        self.assertEqual(ids, [receipt.id for receipt in receipts])
        client.worker("q", concurrency=6)(handler)
        self.run_in_thread(client)
        disturb()
        for n, id in enumerate(ids):
            outcome = client.wait(id, "q", timeout=60)
            self.assertEqual(("completed", (n + 1) * 2), (outcome.state, outcome.result), id)
        names = {name for id in ids for name in (id, f"{id} one", f"{id} two")}
        self.assertEqual(dict.fromkeys(names, 1), dict(effects))
        self.assertEqual(self.TASKS, client.status()["queues"][0]["completed"])
        for id in ids:
            self.assertEqual(["completed"], self.attempts(id))

    def test_a_proxy_that_loses_requests_and_responses_repeats_nothing(self):
        self.client.patch_queue("q", in_doubt="hold", lease="3s")  # of a lost offer, too
        client, proxy = self.proxy(drop_requests=0.1, drop_responses=0.1, seed=7)
        self.run_all(client, lambda: None)
        self.assertGreater(proxy.lost_requests, 10)
        self.assertGreater(proxy.lost_responses, 10)

    def test_a_server_that_is_killed_repeats_nothing(self):
        self.client.patch_queue("q", in_doubt="hold", lease="3s")

        def disturb():
            for share in (1, 2, 3):
                done = lambda: self.client.status()["queues"][0]["completed"]  # noqa: E731
                self.until(lambda: done() >= self.TASKS * share // 5, "some tasks are done")
                self.kill_server()
                self.serve(self.url.removeprefix("http://"))

        self.run_all(self.connect(), disturb)
        self.ok("audit", "--deep")


if __name__ == "__main__":
    unittest.main()
