#!/usr/bin/env -S python3 -B
"""A fleet in Python and TypeScript behind a proxy that loses one request and one response in ten, while
the server and the workers are killed with -9. Counted from outside: none lost, none completed twice,
every effect recorded as an attempt, every task in doubt with a committed start.

ONCE_FLEET_TASKS says how many tasks there are; `make fleet` runs 2000."""

import json
import os
import random
import subprocess
import sys
import threading
import time
import unittest
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
import node_client  # noqa: E402
from node_client import NodeTest  # noqa: E402

TASKS = int(os.environ.get("ONCE_FLEET_TASKS", "60"))
SEED = int(os.environ.get("ONCE_FLEET_SEED", "20261118"))
CLIENT = node_client.TESTS.parent / "clients" / "python"
KILL_SERVER, KILL_WORKER = 2.0, 1.0  # seconds between two kills

PYTHON = """
import os, time, once
client = once.Once()
@client.worker("q", concurrency=4, name=os.environ["NAME"])
def work(task):
    with open("marks", "a") as marks:  # the effect
        marks.write(f"{task.id} {task.attempt}\\n")
    time.sleep(0.02)
    return {"by": os.environ["NAME"]}
client.run()
"""
NODE = """
once.worker("q", { concurrency: 4, name: process.env.NAME }, async (task) => {
  mark(`${task.id} ${task.attempt}`);  // the effect
  await new Promise((done) => setTimeout(done, 20));
  return { by: process.env.NAME };
});
await once.run();
"""


class Fleet(NodeTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.workers, self.kills = {}, Counter()
        self.retried = Counter()

    def start_worker(self, name):
        if name.startswith("ts"):
            self.workers[name] = self.node(NODE, url=self.proxied, NAME=name)
            return
        environment = {**self.environment, "PYTHONPATH": str(CLIENT), "PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.Popen([sys.executable, "-c", PYTHON], cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**environment, "ONCE_URL": self.proxied, "NAME": name})  # fmt: skip
        self.addCleanup(self._end, process)
        self.workers[name] = process

    def kill_worker(self):
        name = self.random.choice(sorted(self.workers))
        self.kills[name] += 1
        self.workers[name].kill()
        self.workers[name].wait()
        self.start_worker(name)

    def restart_server(self):
        self.kills["server"] += 1
        self.kill_server()
        self.serve(f"{self.address[0]}:{self.address[1]}")

    @staticmethod
    def every(seconds, kill, over):
        while not over.wait(seconds):
            kill()

    def retry_doubtful(self):
        """A person looks at each task in doubt: its start is committed. Then it runs again."""
        for line in self.once("list", "--state", "in_doubt", "--json", "--limit", "1000").lines:
            story = self.story(line["id"])
            self.assertGreaterEqual(len(story["attempts"]), 1, line["id"])
            self.ok("doubt", "retry", line["id"], "--by", "ann")
            self.retried[line["id"]] += 1

    def counts(self):
        return json.loads(self.ok("status", "--json").out.splitlines()[0])

    def test_none_is_lost_and_none_completed_twice(self):
        self.ok("queue", "add", "q", "--topic", "t", "--in-doubt", "hold", "--attempts", "1000", "--lease", "3s",
                "--backoff", "100ms")  # fmt: skip
        lines = "".join(json.dumps({"topic": "t", "id": f"task{i}", "body": i}) + "\n" for i in range(TASKS))
        self.ok("publish", "--batch", "-", stdin=lines)
        self.serve()
        proxy = self.proxy(drop_requests=0.1, drop_responses=0.1, seed=SEED)
        self.proxied = f"http://127.0.0.1:{proxy.port}"
        for name in ["py1", "py2", "py3", "py4", "ts1", "ts2", "ts3", "ts4"]:
            self.start_worker(name)
        over = threading.Event()
        killers = [threading.Thread(target=self.every, args=(seconds, kill, over))
                   for seconds, kill in [(KILL_SERVER, self.restart_server), (KILL_WORKER, self.kill_worker)]]  # fmt: skip
        for killer in killers:
            killer.start()
        try:
            deadline = time.monotonic() + 60 + TASKS
            while self.counts()["completed"] < TASKS:
                self.assertLess(time.monotonic(), deadline, self.counts())
                self.retry_doubtful()
        finally:
            over.set()
            for killer in killers:
                killer.join()
        for process in self.workers.values():
            process.kill()
            process.wait()
        self.check()
        print(f"{TASKS} tasks, {sum(self.kills.values()) - self.kills['server']} workers and {self.kills['server']} "
              f"servers killed, {proxy.lost_requests} requests and {proxy.lost_responses} responses lost, "
              f"{sum(self.retried.values())} decisions about tasks in doubt, {len(self.marks)} effects", file=sys.stderr)  # fmt: skip

    def check(self):
        effects = Counter(line.split()[0] for line in self.marks)
        attempts_with_effect = Counter(self.marks)
        self.assertEqual({f"task{i}" for i in range(TASKS)}, set(effects))
        self.assertEqual([], [mark for mark, count in attempts_with_effect.items() if count > 1], "one effect per attempt")
        for id, count in effects.items():
            story = self.story(id)
            outcomes = [attempt["outcome"] for attempt in story["attempts"]]
            self.assertEqual("completed", story["state"], id)
            self.assertEqual(1, outcomes.count("completed"), (id, outcomes))
            self.assertLessEqual(count, len(outcomes), (id, outcomes))
            self.assertLessEqual(len(outcomes) - 1, self.retried[id], (id, outcomes))
        self.ok("audit", "--deep")


if __name__ == "__main__":
    node_client.need_node()
    unittest.addModuleCleanup(node_client.remove_compiled)
    unittest.main()
