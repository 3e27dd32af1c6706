#!/usr/bin/env -S python3 -B
"""Workers of the TypeScript client: steps, probes, leases, drains, killed processes, lost requests."""

import signal
import sys
import time
import unittest
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
import node_client  # noqa: E402
from node_client import NodeTest  # noqa: E402


class WorkerTest(NodeTest):
    def setUp(self):
        super().setUp()
        self.serve()

    def queue(self, **options):
        given = {"topic": "t", "attempts": "5", "backoff": "10ms", "in-doubt": "retry", "lease": "30s", **options}
        self.ok("queue", "add", "q", *(part for name, value in given.items() for part in (f"--{name}", value)))

    def publish(self, id, body="null"):
        self.ok("publish", "t", "--id", id, body)

    def drained(self, process):
        process.send_signal(signal.SIGTERM)
        return self.ended(process)


class Verdicts(WorkerTest):
    def test_every_task_runs_once_with_four_at_a_time(self):
        self.queue()
        said = self.says("""
            const ran = {};
            let now = 0, most = 0;
            once.worker("q", { concurrency: 4, name: "ts-1" }, async (task) => {
              ran[task.id] = (ran[task.id] ?? 0) + 1;
              most = Math.max(most, ++now);
              if (task.body.n < 4) await until(() => most === 4);
              --now;
              return { double: task.body.n * 2 };
            });
            const running = once.run();
            const ids = [];
            for (let n = 0; n < 12; ++n) ids.push((await once.publish("t", { n }, { id: `task${n}` })).id);
            for (const id of ids) say((await once.wait(id, { queue: "q", timeout: 30_000 })).result);
            once.stop();
            await running;
            say([ran, most]);
        """)
        self.assertEqual([{"double": n * 2} for n in range(12)], said[:12])
        self.assertEqual([{f"task{n}": 1 for n in range(12)}, 4], said[12])
        self.assertEqual("ts-1", self.story("task0")["attempts"][0]["worker"])

    def test_a_handler_says_how_its_task_ended(self):
        self.queue(attempts="2")
        worker = self.node("""
            once.worker("q", { concurrency: 8 }, async (task) => {
              if (task.id === "dead") throw new Dead("no such customer");
              if (task.id === "unknown") throw new Unknown("no answer of the bank");
              if (task.id === "later") throw new Fail("come back", { retryIn: "1h" });
              if (task.id === "oddly") throw new Fail("come back", { retryIn: "soon" });
              if (task.id === "thrown") throw new TypeError("broken \\ud800 half");
              if (task.id === "cycle") { const a = {}; a.a = a; return a; }
              if (task.id === "half") return "\\ud800";
              if (task.id === "nothing") return;
            });
            await once.run();
        """)
        ids = ["dead", "unknown", "later", "oddly", "thrown", "cycle", "half", "nothing"]
        for id in ids:
            self.publish(id)
        ends = {"dead": "dead", "thrown": "dead", "oddly": "dead", "later": "retrying", "nothing": "completed"}
        for id, state in ends.items():
            self.becomes(id, state)
        for id in ("unknown", "cycle", "half"):
            self.until(lambda: len(self.attempts(id)) == 2, f"{id} is tried again, as the queue says")
        self.drained(worker)
        self.assertEqual(["dead"], self.attempts("dead"))
        self.assertEqual(["failed", "failed"], self.attempts("thrown"))
        self.assertEqual("TypeError: broken \ufffd half", self.story("thrown")["attempts"][0]["error"])
        self.assertIn("come back", self.story("oddly")["attempts"][0]["error"])
        self.assertEqual("unknown", self.attempts("unknown")[0])
        self.assertIn("cannot be written as JSON", self.story("cycle")["attempts"][0]["error"])
        self.assertEqual("unknown", self.attempts("half")[0])

    def test_only_what_a_free_handler_runs_is_started(self):
        self.queue()
        for n in range(3):
            self.publish(f"task{n}")
        worker = self.node("""
            once.worker("q", async (task) => { mark(task.id); await until(() => existsSync("go")); });
            await once.run();
        """)
        self.until(lambda: self.marks, "a task runs")
        waiting = {f"task{n}" for n in range(3)} - set(self.marks)
        self.assertEqual(2, len(waiting))
        for id in waiting:
            self.assertEqual(("waiting", "waits for a worker"), (self.state(id), self.story(id)["next"]))
        (self.folder / "go").touch()
        for n in range(3):
            self.becomes(f"task{n}", "completed")
        self.drained(worker)

    def test_the_worker_of_a_queue_that_is_not_there_ends(self):
        self.says("""
            once.worker("none", () => {});
            const error = await failure(once.run());
            if (error.code !== "not_found" || error.status !== 404) throw error;
        """)


class Steps(WorkerTest):
    def test_finished_steps_are_remembered_after_a_killed_worker(self):
        self.queue(lease="1500ms")
        self.publish("a", '{"topic":"once"}')
        code = """
            once.worker("q", async (task) => {
              const notes = await task.step("research", () => { mark("paid"); return { on: task.body.topic }; });
              const none = await task.step("nothing", () => {});
              await task.step("publish", async () => {
                mark(`publishing ${task.attempt}`);
                await until(() => existsSync("up"));
              }, { inDoubt: "retry" });
              return { notes, none: none === undefined || none === null, attempt: task.attempt, doubt: task.inDoubt };
            });
            await once.run();
        """
        first = self.node(code)
        self.marked("publishing 1")
        first.kill()
        first.wait()
        second = self.node(code)
        self.marked("publishing 2")
        (self.folder / "up").touch()
        self.becomes("a", "completed")
        self.drained(second)
        self.assertEqual(["paid", "publishing 1", "publishing 2"], self.marks)
        result = {"notes": {"on": "once"}, "none": True, "attempt": 2, "doubt": True}
        self.assertEqual(result, self.story("a")["result"])
        self.assertEqual([("research", "done", 1), ("nothing", "done", 1), ("publish", "done", 2)], self.steps("a"))

    def test_a_step_that_is_cut_off_asks_its_probe(self):
        self.queue(lease="1500ms")
        ids = ["happened", "not", "dont_know", "held", "null"]
        for id in ids:
            self.publish(id)
        code = """
            const probes = {
              happened: ({ key }) => ({ found: key.length }),
              not: () => undefined,
              dont_know: () => { throw new Error("the bank is closed"); },
              null: () => happened(null),
            };
            once.worker("q", { concurrency: 5 }, async (task) => {
              const probe = probes[task.id];
              return [await task.step("pay", async () => {
                mark(`${task.id} ${task.attempt}`);
                if (task.attempt === 1) await new Promise(() => {});
                return "paid";
              }, probe ? { probe } : { inDoubt: "hold" })];
            });
            await once.run();
        """
        first = self.node(code)
        for id in ids:
            self.marked(f"{id} 1")
        first.kill()
        first.wait()
        second = self.node(code)
        for id, state in {"happened": "completed", "not": "completed", "null": "completed", "dont_know": "in_doubt",
                          "held": "in_doubt"}.items():
            self.becomes(id, state)
        self.drained(second)
        self.assertEqual({f"{id} 1" for id in ids} | {"not 2"}, set(self.marks))
        self.assertEqual([{"found": 64}], self.story("happened")["result"])
        self.assertEqual([["paid"], [None]], [self.story(id)["result"] for id in ("not", "null")])
        self.assertIn("the bank is closed", str(self.story("dont_know")))
        self.assertEqual("in_doubt", self.story("dont_know")["steps"][0]["state"])

    def test_steps_that_fail_or_are_used_wrongly(self):
        self.queue(attempts="2")
        self.publish("a")
        said = self.says("""
            once.worker("q", async (task) => {
              const wrong = async (...step) => (await failure(task.step(...step))).code;
              say([
                await wrong("", () => {}), await wrong("x".repeat(129), () => {}), await wrong("a\\n", () => {}),
                await wrong("a", () => {}, { inDoubt: "probe" }), await wrong("a", () => {}, { inDoubt: "steps" }),
                await wrong("a", () => {}, { inDoubt: "hold", probe: () => {} }),
              ]);
              try { task.key("later"); } catch (error) { say(error.code); }
              say((await failure(task.step("try", () => { throw new Error("not yet"); }))).message);
              say(await task.step("try", () => "now"));
              say((await failure(task.step("try", () => "again"))).code);
              const two = await Promise.allSettled([1, 2].map((n) => task.step("two", async () => n)));
              say(two.map((each) => each.reason?.reason ?? each.value));
              say(await task.step("ünï/:?%", () => "ö\\u0000\\u{1f600}"));
              say(await task.step("ünï/:?% 2", () => task.key("ünï/:?%") !== task.key()));
            });
            const running = once.run();
            await once.wait("a");
            once.stop();
            await running;
        """)
        invalid = ["invalid_input"]
        wanted = [invalid * 6, "invalid_input", "not yet", "now", "invalid_input", [1, "step_under_way"], "ö\0\U0001f600", True]
        self.assertEqual(wanted, said)
        steps = [("try", "done", 2), ("two", "done", 1), ("ünï/:?%", "done", 1), ("ünï/:?% 2", "done", 1)]
        self.assertEqual(steps, self.steps("a"))

    def test_a_step_without_a_verdict_is_in_doubt(self):
        self.queue(**{"in-doubt": "hold"})
        self.publish("no json")
        self.publish("unknown")
        worker = self.node("""
            once.worker("q", (task) => task.step("pay", () => {
              mark(task.id);
              if (task.id === "unknown") throw new Unknown("no answer of the bank");
              return { amount: 5n };
            }));
            await once.run();
        """)
        for id in ("no json", "unknown"):
            self.becomes(id, "in_doubt")
            self.assertEqual(["unknown"], self.attempts(id))
            self.assertEqual([("pay", "in_doubt", 1)], self.steps(id))
        self.drained(worker)
        self.assertEqual(["no json", "unknown"], sorted(self.marks))

    def test_keys_are_those_of_the_command(self):
        self.queue(attempts="2")
        self.publish("ä \"1\"")
        key = self.says("""
            once.worker("q", async (task) => {
              const step = await task.step("pay ü", ({ key }) => { if (key !== task.key("pay ü")) throw key; return key; });
              say([task.key(), step]);
              once.stop();
              throw new Error("the command continues");
            });
            await once.run();
        """)[0]
        script = self.script("say", 'echo "$ONCE_IDEMPOTENCY_KEY"; exec "$ONCE_BIN" step "pay ü 2" -- sh -c \'echo "$ONCE_IDEMPOTENCY_KEY"\'')
        self.ok("work", "q", "--until-empty", "--", script)
        result = self.story("ä \"1\"")["result"].split()
        self.assertEqual(key[0], result[0])
        again = self.program("""
            await runCurrentTask(async (task) => [task.key(), await task.step("pay ü", () => "not again"),
              await task.step("pay ü 2", ({ key }) => key), task.key("pay ü")]);
        """)
        self.publish("b")
        other = self.says("""
            once.worker("q", async (task) => {
              say([task.key(), await task.step("pay ü", ({ key }) => key), await task.step("pay ü 2", ({ key }) => key)]);
              once.stop();
              throw new Error("the command continues");
            });
            await once.run();
        """)[0]
        self.ok("work", "q", "--until-empty", "--", "node", again)
        self.assertEqual([*other, other[1]], self.story("b")["result"])
        self.assertEqual(64, len(result[1]))
        self.assertNotEqual(result[0], result[1])


class Leases(WorkerTest):
    def test_a_handler_that_blocks_the_event_loop_keeps_its_lease(self):
        self.queue(lease="1500ms")
        self.publish("a")
        busy = self.node("""
            once.worker("q", async (task) => {
              mark("busy");
              while (!existsSync("enough")) { /* the event loop does not run */ }
              return task.step("after", () => task.signal.aborted);
            });
            await once.run();
        """)
        self.marked("busy")
        began = time.monotonic()
        other = self.node("once.worker('q', () => mark('taken over')); mark('ready'); await once.run();")
        self.marked("ready")
        self.until(lambda: time.monotonic() > began + 4, "two leases have passed")
        (self.folder / "enough").touch()
        self.becomes("a", "completed")
        self.drained(busy)
        self.drained(other)
        self.assertEqual((["completed"], False), (self.attempts("a"), self.story("a")["result"]))
        self.assertEqual(["busy", "ready"], self.marks)

    def test_a_worker_that_was_suspended_beyond_its_lease_settles_nothing(self):
        self.queue(lease="1500ms")
        self.publish("a")
        code = """
            once.worker("q", async (task) => {
              mark(`attempt ${task.attempt}`);
              await until(() => existsSync(`go${task.attempt}`) || task.signal.aborted);
              if (task.signal.aborted) mark(`over ${task.attempt} ${task.signal.reason instanceof AttemptOver}`);
              return task.attempt;
            });
            await once.run();
        """
        first = self.node(code)
        self.marked("attempt 1")
        first.send_signal(signal.SIGSTOP)
        second = self.node(code)
        self.marked("attempt 2")
        first.send_signal(signal.SIGCONT)
        self.marked("over 1 true")
        self.drained(first)
        self.assertIn("nothing was recorded", self.heard)
        (self.folder / "go2").touch()
        self.becomes("a", "completed")
        self.drained(second)
        self.assertEqual(2, self.story("a")["result"])
        self.assertEqual(["lost", "completed"], self.attempts("a"))

    def test_a_lease_that_is_not_renewed_ends_here(self):
        self.queue(lease="1s", attempts="1")
        self.publish("blocks")
        self.publish("waits")
        seen = []

        class NoRenewals(node_client.Proxy):
            def fate_of(self, request):
                seen.append(request)
                return b"/v1/claims:renew" in request, False

        proxy = self.proxy(NoRenewals)
        worker = self.node("""
            once.worker("q", async (task) => {
              const end = Date.now() + 1_500;
              if (task.id === "blocks") while (Date.now() < end) { /* the lease ends meanwhile */ }
              else await until(() => task.signal.aborted);
              mark(task.id);
            });
            await once.run();
        """, url=f"http://127.0.0.1:{proxy.port}")
        self.marked("blocks")
        self.marked("waits")
        self.drained(worker)
        self.assertEqual(2, self.heard.count("nothing was recorded"))
        self.assertEqual([], [request for request in seen if b"/v1/claims:settle" in request])
        self.assertTrue([request for request in seen if b"/v1/claims:renew" in request])

    def test_a_cancelled_task_is_asked_to_stop(self):
        self.queue(lease="1500ms")
        self.publish("a")
        worker = self.node("""
            once.worker("q", async (task) => {
              mark("runs");
              await until(() => task.signal.aborted);
              say([task.signal.reason instanceof Stop, task.signal.reason.code]);
              say((await failure(task.step("more", () => mark("wrong")))).code);
              task.signal.throwIfAborted();
            });
            await once.run();
        """)
        self.marked("runs")
        said = self.says("""
            say((await once.cancel("a", { who: "ada", why: "ordered twice" })).outcome);
            say((await once.wait("a")).state);
        """)
        self.assertEqual(["asked_to_stop", "cancelled"], said)
        self.assertEqual([[True, "cancelled"], "wrong_state"], self.drained(worker))
        self.assertEqual(["runs"], self.marks)
        self.assertIn(("ada", "ordered twice"), [(act["by"], act["why"]) for act in self.story("a")["story"]])

    def test_a_timeout_asks_to_stop(self):
        self.queue(lease="1s", timeout="1500ms", attempts="1")
        self.publish("a")
        worker = self.node("""
            once.worker("q", async (task) => {
              await until(() => task.signal.aborted);
              mark(`stopped ${task.attempt}`);
            });
            await once.run();
        """)
        self.marked("stopped 1")
        self.until(lambda: self.attempts("a") == ["lost"], "the lease has ended")
        self.drained(worker)

    def test_a_task_in_doubt_asks_the_probe_of_the_worker(self):
        self.queue(lease="1500ms", **{"in-doubt": "probe"})
        for id in ("yes", "no", "unknown"):
            self.publish(id)
        code = """
            const probe = (task) => {
              mark(`probe ${task.id}`);
              if (task.id === "unknown") throw new Error("the bank is closed");
              return task.id === "yes" && { found: true };
            };
            once.worker("q", { concurrency: 3, probe }, async (task) => {
              mark(`run ${task.id}`);
              if (task.attempt === 1) await new Promise(() => {});
              return "run";
            });
            await once.run();
        """
        first = self.node(code)
        for id in ("yes", "no", "unknown"):
            self.marked(f"run {id}")
        first.kill()
        first.wait()
        second = self.node(code)
        for id, state in {"yes": "completed", "no": "completed", "unknown": "in_doubt"}.items():
            self.becomes(id, state)
        self.drained(second)
        self.assertEqual({"run yes": 1, "run no": 2, "run unknown": 1, "probe yes": 1, "probe no": 1, "probe unknown": 1}, Counter(self.marks))
        self.assertEqual(({"found": True}, "run"), (self.story("yes")["result"], self.story("no")["result"]))
        self.assertIn("the bank is closed", str(self.story("unknown")))


class Ends(WorkerTest):
    def test_sigterm_lets_handlers_finish_and_takes_no_more(self):
        self.queue()
        self.publish("a")
        worker = self.node("""
            once.worker("q", async (task) => {
              mark(task.id);
              await until(() => existsSync("go"));
              await task.step("last", () => "recorded");
            });
            await once.run();
            say("drained");
        """)
        self.marked("a")
        worker.send_signal(signal.SIGTERM)
        self.publish("b")
        (self.folder / "go").touch()
        self.assertEqual(["drained"], self.ended(worker))
        self.assertEqual(["a"], self.marks)
        self.assertEqual("completed", self.state("a"))
        self.assertEqual(("waiting", []), (self.state("b"), self.attempts("b")))

    def test_a_handler_that_does_not_end_is_left(self):
        self.queue(lease="500ms", **{"in-doubt": "hold"})
        self.publish("a")
        said = self.says("""
            once.worker("q", async (task) => {
              mark("runs");
              await until(() => task.signal.aborted);
              say(task.signal.reason.code);
              await new Promise(() => {});
            });
            const running = once.run({ drain: 100, grace: 100 });
            await until(() => existsSync("marks"));
            once.stop();
            const { code, inDoubt, message } = await failure(running);
            say([code, inDoubt, message.includes("tasks a")]);
        """)
        self.assertEqual(["worker_ends", ["timed_out", True, True]], said)

    def test_an_offer_that_comes_during_the_drain_is_released(self):
        self.queue()
        self.publish("a")
        self.publish("b")

        class Late(node_client.Proxy):
            def pass_on(proxy, request, response):
                """The answer to the settlement, which offers the next task, comes after the drain began."""
                if b"/v1/claims:settle" in request:
                    proxy.offered = b'"next":[{' in response
                    worker.send_signal(signal.SIGTERM)
                    self.until(lambda: "drains" in self.marks, "the drain")
                return response

        proxy = self.proxy(Late)
        worker = self.node("""
            once.worker("q", (task) => mark(task.id));
            const running = once.run();
            process.once("SIGTERM", () => mark("drains"));
            await running;
        """, url=f"http://127.0.0.1:{proxy.port}")
        self.ended(worker)
        self.assertTrue(proxy.offered)
        self.assertEqual(["a", "drains"], self.marks)
        self.assertEqual("waits for a worker", self.story("b")["next"])
        self.assertEqual([], self.attempts("b"))


class Losses(WorkerTest):
    CODE = """
        once.worker("q", { concurrency: 4 }, async (task) => {
          const one = await task.step("one", () => { mark(`one ${task.id}`); return task.body; });
          const two = await task.step("two", () => { mark(`two ${task.id}`); return one + 1; });
          mark(`run ${task.id}`);
          return two;
        });
        await once.run();
    """

    def all_done(self, count):
        self.until(lambda: len(self.ok("list", "--queue", "q", "--state", "completed", "--json").lines) == count,
                   "all tasks are completed", 60)

    def test_lost_requests_and_responses_repeat_and_lose_nothing(self):
        self.queue(lease="3s", **{"in-doubt": "hold"})  # an offer whose answer is lost ends with its lease
        proxy = self.proxy(drop_requests=0.15, drop_responses=0.15, seed=20261117)
        url = f"http://127.0.0.1:{proxy.port}"
        worker = self.node(self.CODE, url=url)
        said = self.says("""
            const receipts = [];
            for (let n = 0; n < 20; ++n) receipts.push(once.publish("t", n, { id: `task${n}` }));
            await Promise.all(receipts);
            const some = Array.from({ length: 5 }, (_, n) => ({ topic: "t", body: n, id: `many${n}`, headers: { n: `${n}` } }));
            say((await once.publishMany(some)).map((each) => each.id));
        """, url=url)
        self.assertEqual([[f"many{n}" for n in range(5)]], said)
        self.all_done(25)
        worker.send_signal(signal.SIGTERM)
        self.ended(worker)
        ids = [f"task{n}" for n in range(20)] + [f"many{n}" for n in range(5)]
        self.assertEqual({f"{what} {id}": 1 for what in ("one", "two", "run") for id in ids}, Counter(self.marks))
        for id in ids:
            self.assertEqual(["completed"], self.attempts(id), id)
            self.assertEqual([("one", "done", 1), ("two", "done", 1)], self.steps(id))
        self.assertGreater(proxy.lost_requests, 10)
        self.assertGreater(proxy.lost_responses, 10)

    def test_a_killed_server_is_waited_for(self):
        self.queue(**{"in-doubt": "hold"})
        worker = self.node(self.CODE)
        publisher = self.node("""
            for (let n = 0; n < 40; ++n) {
              await once.publish("t", n, { id: `task${n}` });
              mark(`published ${n}`);
            }
        """)
        for n in (8, 20):
            self.marked(f"published {n}")
            self.kill_server()
            self.serve(f"127.0.0.1:{self.address[1]}")
        self.ended(publisher)
        self.all_done(40)
        self.drained(worker)
        self.assertEqual({f"{what} task{n}": 1 for what in ("one", "two", "run") for n in range(40)},
                         Counter(mark for mark in self.marks if not mark.startswith("published")))
        for n in range(40):
            self.assertEqual(["completed"], self.attempts(f"task{n}"))


if __name__ == "__main__":
    node_client.need_node()
    unittest.addModuleCleanup(node_client.remove_compiled)
    unittest.main()
