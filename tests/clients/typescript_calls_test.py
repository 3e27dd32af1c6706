#!/usr/bin/env -S python3 -B
"""Calls of the TypeScript client without a worker, `currentTask()` inside `once work`, and the package."""

import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
import node_client  # noqa: E402
from node_client import NATS, PACKAGE, NodeTest, Proxy  # noqa: E402


class Calls(NodeTest):
    def setUp(self):
        super().setUp()
        self.serve()

    def test_publish_and_look(self):
        said = self.says("""
            const { added } = await once.putQueue("q", { topic: "t.>", attempts: 2 });
            say([added, (await once.putQueue("q", { topic: "t.>", attempts: 2 })).added]);
            const first = await once.publish("t.a", { n: [1, "ä\\u{1f600}"] }, { id: "ä:1/x?" });
            const again = await once.publish("t.a", { n: [1, "ä\\u{1f600}"] }, { id: "ä:1/x?" });
            say([first.duplicate, again.duplicate, first.sequence === again.sequence, first.id]);
            const conflict = await failure(once.publish("t.a", { n: [2] }, { id: "ä:1/x?" }));
            say([conflict.code, conflict.status, conflict.retryable, conflict.inDoubt, conflict.differs]);
            const one = await once.publish("t.a", 1), other = await once.publish("t.a", 1);
            say([one.id !== other.id, other.duplicate]);
            await once.publish("t.b", Uint8Array.of(0, 255, 10), { id: "bytes", headers: { Source: "shop" } });
            await once.publish("t.b", new TextEncoder().encode("hällo"), { id: "text" });
            await once.publish("t.b", undefined, { id: "later", delay: "1h", expires: new Date(Date.now() + 7_200_000) });
            const bytes = await once.task("bytes");
            say([[...bytes.body], bytes.headers, bytes.raw === undefined]);
            const text = await once.task("text");
            say([text.body instanceof Uint8Array, new TextDecoder().decode(text.body), (await once.task("ä:1/x?")).body]);
            const listed = [];
            for await (const task of once.tasks({ queue: "q", state: "waiting" })) listed.push(task.id);
            say(listed.length);
            for await (const task of once.tasks({ state: "scheduled", limit: 1 })) say([task.id, task.state]);
            say([(await once.status()).queues[0].waiting, (await once.queues()).map((each) => each.queue)]);
        """)
        self.assertEqual([True, False], said[0])
        self.assertEqual([False, True, True, "ä:1/x?"], said[1])
        self.assertEqual(["conflicting_duplicate", 422, False, False], said[2][:4])
        self.assertTrue(said[2][4])
        self.assertEqual([True, False], said[3])
        self.assertEqual([[0, 255, 10], {"Source": "shop"}, True], said[4])
        self.assertEqual([True, "hällo", {"n": [1, "ä\U0001f600"]}], said[5])
        self.assertEqual(5, said[6])
        self.assertEqual(["later", "scheduled"], said[7])
        self.assertEqual([5, ["q"]], said[8])

    def test_queues_and_decisions(self):
        said = self.says("""
            await once.putQueue("q", { topic: "t", attempts: 1, in_doubt: "hold" });
            say((await once.patchQueue("q", { lease: "20s" })).lease);
            await once.pauseQueue("q");
            say((await once.queue("q")).paused);
            await once.resumeQueue("q");
            say((await failure(once.putQueue("q", { topic: "other" }))).code);
            for (const id of ["dead", "doubt", "drop", "cancel"]) await once.publish("t", id, { id });
            say((await once.cancel("cancel", { who: "ada" })).outcome);
            once.worker("q", { concurrency: 3 }, (task) => {
              if (task.id === "dead" && !existsSync("retried")) throw new Dead("once");
              if (task.id !== "dead") throw new Unknown("who knows");
            });
            const running = once.run();
            say([(await once.wait("dead")).reason, (await once.wait("doubt")).state, (await once.wait("drop")).state]);
            appendFileSync("retried", "");
            say((await once.retry("dead", { who: "ada", why: "again" })).outcome);
            say((await once.wait("dead")).state);
            say((await once.complete("doubt", { who: "ada", result: { seen: true } })).outcome);
            say((await once.wait("doubt")).result);
            say((await once.drop("drop", { who: "ada" })).outcome);
            say((await failure(once.drop("drop", { who: "ada" }))).code);
            say((await failure(once.cancel("dead", {}))).code);
            once.stop();
            await running;
            await once.publish("t", "waits");
            const refused = await failure(once.removeQueue("q"));
            say([refused.status, refused.reason]);
            await once.removeQueue("q", { force: true });
            say(await once.queues());
        """)
        self.assertEqual(["20s", True, "queue_mismatch", "cancelled", ["dead: the handler said so: once", "in_doubt", "in_doubt"], "retried", "completed",
                          "completed", {"seen": True}, "dropped", "wrong_state", "invalid_input",
                          [409, "queue_not_empty"], []], said)

    def test_bad_input_is_refused_and_nothing_is_done(self):
        said = self.says("""
            await once.putQueue("q", { topic: "t" });
            const code = async (promise) => { const { code, status } = await failure(promise); return [code, status]; };
            say(await code(once.publish("a b", 1)));
            say(await code(once.publish("t", 1, { id: "" })));
            say(await code(once.publish("t", 1, { delay: "soon" })));
            say(await code(once.publish("t", 1, { delay: -1 })));
            say(await code(once.publish("t", 1, { at: new Date("never") })));
            say(await code(once.publish("t", 1n)));
            say(await code(once.publish("t", () => {})));
            say(await code(once.publish("t", "\\ud800")));
            say(await code(once.publish("t", 1, { headers: { "Once-Run": "x" } })));
            say(await code(once.task("none")));
            say(await code(once.queue("none")));
            say(await code(once.wait("none")));
            say(await code(once.putQueue("q2", { topic: "t", colour: "red" })));
            say(await code(once.run()));
            for (const bad of ["ftp://x", "nothing", "unix:"]) try { new Once({ url: bad }); } catch (e) { say(e.code); }
            try { once.worker("q", { concurrency: 0 }, () => {}); } catch (e) { say(e.code); }
            const many = await once.publishMany([{ topic: "t", body: 1 }, { topic: "" }, { topic: "t", id: "x", body: 2 }]);
            say(many.map((each) => each instanceof OnceError ? each.code : each.sequence));
            let count = 0;
            for await (const _ of once.tasks()) ++count;
            say(count);
        """)
        here, server = ["invalid_input", 0], ["invalid_input", 400]
        self.assertEqual([server, server, server, here, here, here, here, server, ["invalid_input", 200], ["not_found", 404],
                          ["not_found", 404], ["not_found", 404], server, here], said[:14])
        self.assertEqual(["invalid_input"] * 4, said[14:18])
        self.assertEqual([[1, "invalid_input", 2], 2], said[18:])

    def test_three_megabytes(self):
        said = self.says("""
            await once.putQueue("q", { topic: "t" });
            const large = "ä".repeat(1_500_000);
            const error = await failure(once.publish("t", large, { id: "a" }));
            say([error.code, error.status]);
            say((await failure(once.publish("t", large, { headers: { a: "b" } }))).code);
            await once.publish("t", "ä".repeat(500_000), { id: "a" });
            once.worker("q", async (task) => {
              const length = (await task.step("large", () => large)).length;
              if (task.attempt === 1) throw new Fail("again", { retryIn: 1 });
              return { length, same: await task.step("same", async () => task.body + task.body + task.body === large), large };
            });
            const running = once.run();
            const { result } = await once.wait("a");
            once.stop();
            await running;
            say([result.length, result.same, result.large === large]);
        """)
        self.assertEqual([["too_large", 413], "too_large", [1_500_000, True, True]], said)

    def test_a_call_gives_up_at_its_limit_and_says_what_is_known(self):
        unused = self.url
        self.kill_server()
        said = self.says("""
            const told = ({ code, inDoubt, retryable }) => [code, inDoubt, retryable];
            say(told(await failure(once.publish("t", 1, { timeout: 300 }))));
            say(told(await failure(once.publish("t", 1, { signal: AbortSignal.timeout(300) }))));
            say(told(await failure(once.publishMany([{ topic: "t" }], { timeout: 300 }))));
        """, url=unused)
        self.assertEqual([["no_answer", False, True], ["aborted", False, False], ["no_answer", False, True]], said)

    def test_a_request_is_repeated_with_the_same_id_and_nonce(self):
        seen = []

        class Forgetful(Proxy):
            def fate_of(self, request):
                seen.append(request)
                return False, b"/v1/" in request and len(seen) < 3

        proxy = self.proxy(Forgetful)
        said = self.says("""
            await once.publish("t", { a: 1 });
            say((await failure(once.retry("none", { who: "ada" }))).code);
        """, url=f"http://127.0.0.1:{proxy.port}", ONCE_TOKEN="secret-1")
        self.assertEqual(["not_found"], said)
        first, second, third = (request.partition(b"\r\n\r\n")[0].decode().lower().splitlines() for request in seen[:3])
        self.assertEqual(first[0], second[0])
        self.assertEqual(first[0], third[0])
        nonce = [line for line in first if line.startswith("once-try:")]
        self.assertEqual(1, len(nonce))
        for each in (first, second, third):
            self.assertIn(nonce[0], each)
            self.assertIn("authorization: bearer secret-1", each)

    def test_a_retry_by_a_person_is_not_repeated(self):
        seen = []

        class Forgetful(Proxy):
            def fate_of(self, request):
                seen.append(request)
                return False, b":retry" in request

        proxy = self.proxy(Forgetful)
        said = self.says("""
            const { code, inDoubt } = await failure(once.retry("x", { who: "ada" }));
            say([code, inDoubt]);
        """, url=f"http://127.0.0.1:{proxy.port}")
        self.assertEqual([["no_answer", True]], said)
        self.assertEqual(1, len(seen))

    def test_an_answer_of_something_else_is_an_error(self):
        class Portal(Proxy):
            def pass_on(self, request, response):
                return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 12\r\n\r\n<h1>Log in!\n"

        proxy = self.proxy(Portal)
        said = self.says("""
            const calls = [() => once.publish("t", 1), () => once.publishMany([{ topic: "t" }]), () => once.status()];
            for (const call of calls) {
              const { code, message } = await failure(call());
              say([code, message.includes("Log in!")]);
            }
        """, url=f"http://127.0.0.1:{proxy.port}")
        self.assertEqual([["failed", True]] * 3, said)

    def test_a_unix_socket(self):
        path = self.folder / "socket"
        self.start("serve", "--socket", str(path))
        self.until(path.exists, "the socket")
        said = self.says("""
            await once.putQueue("q", { topic: "t", lease: "1s" });
            await once.publish("t", "ä".repeat(100_000), { id: "a" });
            once.worker("q", async (task) => {
              const end = Date.now() + 2_500;
              while (Date.now() < end) { /* heartbeats use the socket too */ }
              return task.step("one", () => task.body.length);
            });
            const running = once.run();
            say((await once.wait("a")).result);
            once.stop();
            await running;
        """, url=f"unix:{path}")
        self.assertEqual([100_000], said)
        self.assertEqual(["completed"], self.attempts("a"))


class InsideWork(NodeTest):
    """`once work -- node agent.js`: no server, and steps go through the worker."""

    CODE = """
        await runCurrentTask(async (task) => {
          if (currentTask() !== task) throw new Error("another task");
          const notes = await task.step("research", () => { mark("paid"); return { on: task.body.topic, at: task.topic }; });
          const large = await task.step("large", () => "x".repeat(3_000_000));
          await task.step("publish", async () => {
            mark(`publishing ${task.attempt}`);
            if (task.attempt === 1) process.kill(process.pid, "SIGKILL");
          }, { inDoubt: "retry" });
          return { notes, large: large.length, attempt: task.attempt, headers: task.headers, doubt: task.inDoubt };
        });
    """

    def setUp(self):
        super().setUp()
        self.ok("queue", "add", "q", "--topic", "t", "--attempts", "3", "--backoff", "10ms", "--in-doubt", "retry")

    def work(self, code, exits=0, **environment):
        return self.drained("work", "q", "--until-empty", "--", "node", self.program(code), exits=exits, **environment)

    def test_steps_are_remembered_after_a_kill(self):
        self.ok("publish", "t", "--id", "a", "--header", "Source=shop", '{"topic":"once"}')
        self.work(self.CODE)
        self.assertEqual(["paid", "publishing 1", "publishing 2"], self.marks)
        wanted = {"notes": {"on": "once", "at": "t"}, "large": 3_000_000, "attempt": 2, "headers": {"Source": "shop"}, "doubt": True}
        self.assertEqual(wanted, self.story("a")["result"])
        self.assertEqual([("research", "done", 1), ("large", "done", 1), ("publish", "done", 2)], self.steps("a"))

    def test_probes_and_verdicts(self):
        for id in ("happened", "not", "dead", "unknown", "failed"):
            self.ok("publish", "t", "--id", id, f'"{id}"')
        self.ok("publish", "t", "--id", "bytes", "--raw", "plain text")
        self.work("""
            await runCurrentTask(async (task) => {
              if (task.id === "dead") throw new Dead("no");
              if (task.id === "failed") throw new Error("no");
              if (task.id === "unknown" && task.attempt === 1) throw new Unknown("no");
              if (task.id === "bytes") return new TextDecoder().decode(task.body);
              return task.step("pay", () => {
                mark(`${task.id} ${task.attempt}`);
                if (task.attempt === 1) process.kill(process.pid, "SIGKILL");
                return "run";
              }, { probe: ({ key }) => task.id === "happened" && { found: key.length } });
            });
        """, exits=1)
        self.assertEqual({"found": 64}, self.story("happened")["result"])
        self.assertEqual(["run", "plain text"], [self.story(id)["result"] for id in ("not", "bytes")])
        self.assertEqual(["dead"], self.attempts("dead"))
        self.assertEqual(["failed"] * 3, self.attempts("failed"))
        self.assertEqual("unknown", self.attempts("unknown")[0])
        self.assertIn("happened 1", self.marks)
        self.assertNotIn("happened 2", self.marks)

    def test_a_long_path_of_the_socket(self):
        folder = self.folder / ("long" * 30)
        folder.mkdir()
        self.ok("publish", "t", "--id", "a", "1")
        self.work('await runCurrentTask((task) => task.step("one", () => 1));', TMPDIR=str(folder))
        self.assertEqual(1, self.story("a")["result"])

    def test_outside_of_a_worker_there_is_no_task(self):
        said = self.says("""
            say(currentTask() === undefined);
            say((await failure(runCurrentTask(() => {}))).code);
        """, url="http://127.0.0.1:9")
        self.assertEqual([True, "invalid_input"], said)


CONSUMER = """
import { Once, Dead, OnceError, currentTask, type Task, type Receipt } from "once-client";

interface Order { topic: string }
const once = new Once({ url: "http://127.0.0.1:7070", token: "secret" });
once.worker<Order>("writers", { concurrency: 8, probe: (task) => task.body.topic === "x" }, async (task: Task<Order>) => {
  const notes: string = await task.step("research", () => task.body.topic, { inDoubt: "retry" });
  if (!notes) throw new Dead("nothing to say");
  const url: string = await task.step("publish", async ({ key }) => key + notes, { probe: async () => undefined });
  const stopped: boolean = task.signal.aborted;
  return { url, stopped };
});
export async function main(): Promise<Receipt> {
  const current: Task | undefined = currentTask();
  if (current) await current.step("one", () => 1);
  for await (const task of once.tasks({ state: "dead" })) await once.retry(task.id, { who: "ada" });
  try {
    return await once.publish("t", { topic: "x" }, { id: "a", expires: new Date() });
  } catch (error) {
    if (error instanceof OnceError && error.code === "conflicting_duplicate") console.log(error.differs?.join());
    throw error;
  }
}
"""


class Package(NodeTest):
    def test_the_package_is_installed_imported_and_compiled_against(self):
        if NATS:
            self.skipTest("the package says the same on any store")
        if not shutil.which("npm"):
            print("THE NPM PACKAGE IS NOT TESTED: there is no npm; `tools/setup npm` installs it", file=sys.stderr)
            self.skipTest("no npm")
        source = self.folder / "source"
        shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("dist", "node_modules", "*.tgz"))
        environment = {**self.environment, "HOME": str(self.folder), "npm_config_update_notifier": "false"}

        def run(*command, cwd):
            done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            return done.stdout

        packed = json.loads(run("npm", "pack", "--offline", "--json", cwd=source))[0]
        names = {file["path"] for file in packed["files"]}
        self.assertLessEqual({"package.json", "README.md", "dist/index.js", "dist/index.d.ts", "dist/heartbeat_thread.js"}, names)
        self.assertEqual(set(), {name for name in names if name.endswith(".ts") and not name.endswith(".d.ts")})
        home = self.folder / "consumer"
        home.mkdir()
        (home / "package.json").write_text('{"name":"consumer","type":"module","private":true}')
        run("npm", "install", "--offline", "--no-audit", "--no-fund", str(source / packed["filename"]), cwd=home)
        self.assertEqual(["once-client"], [each for each in os.listdir(home / "node_modules") if not each.startswith(".")])
        said = run("node", "-e", 'import("once-client").then((all) => console.log(Object.keys(all).sort().join()))', cwd=home)
        self.assertEqual("AttemptOver,Dead,Fail,Happened,Once,OnceError,Stop,Unknown,currentTask,happened,runCurrentTask", said.strip())
        (home / "consumer.ts").write_text(CONSUMER)
        options = ["--strict", "--target", "es2022", "--module", "es2022", "--moduleResolution"]
        for resolution in (["node"], ["node16", "--module", "node16"]):
            run("tsc", *options, *resolution, "--lib", "es2022,dom", "--outDir", "out", "consumer.ts", cwd=home)
        wrong = CONSUMER.replace("const notes: string", "const notes: number")
        (home / "wrong.ts").write_text(wrong)
        done = subprocess.run(["tsc", *options, "node", "--lib", "es2022,dom", "--noEmit", "wrong.ts"], cwd=home,
                              capture_output=True, text=True)
        self.assertIn("is not assignable to type 'number'", done.stdout)


if __name__ == "__main__":
    node_client.need_node()
    unittest.addModuleCleanup(node_client.remove_compiled)
    unittest.main()
