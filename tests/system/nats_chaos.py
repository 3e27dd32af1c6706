#!/usr/bin/env -S python3 -B
"""Chaos on three nats-servers: two publishers race for the same ids, four workers run the tasks; the
node that leads the log or the ledger is killed or paused every few seconds, a worker is killed every
second. Counted from outside: none lost, none completed twice, every re-run accounted for.

Usage: nats_chaos.py [--tasks N] [--faults N] [--seed S]
ONCE_BIN is the command; ONCE_CHILD the crash tests' executable, which runs handlers in its process.
"""

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import nats_cluster  # noqa: E402

WORKERS = 4
CONCURRENCY = 4
TASK_MS = 50
LEASE = 5  # seconds
FAULT_EVERY = 3
KILL_EVERY = 1
PATIENCE = 900  # seconds without which nothing like this ends
ZONE = "chaos"
LOG, LEDGER = f"ONCE_{ZONE}_LOG", f"KV_once_{ZONE}_ledger"


def task_id(number):
    return f"task-{number}"


class Publisher:
    """Publishes every id, again while the answer is not known. Of every hundredth the two publishers
    say different things."""

    def __init__(self, chaos, name, numbers):
        self.chaos, self.name, self.numbers = chaos, name, numbers
        self.receipts, self.conflicts, self.rounds = {}, {}, 0

    def line(self, number):
        body = {"by": self.name} if number % 100 == 7 else {"number": number}
        return json.dumps({"id": task_id(number), "topic": "t", "body": body})

    def run(self):
        pending = self.numbers
        while pending and not self.chaos.over.is_set():
            self.rounds += 1
            lines = "\n".join(map(self.line, pending)) + "\n"
            done = subprocess.run(
                [*self.chaos.once, "publish", "--batch", "-", "--json", "-q"],
                input=lines.encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            again = dict(enumerate(pending, 1))
            for text in done.stdout.splitlines():
                answer = json.loads(text)
                if "line" not in answer:
                    continue  # the store could not be opened
                number = again[answer["line"]]
                if answer.get("error") == "conflicting_duplicate":
                    self.conflicts[task_id(number)] = answer["sequence"]
                elif "error" not in answer:
                    self.receipts[task_id(number)] = answer
                elif answer["retryable"]:
                    continue
                else:
                    raise AssertionError(answer)
                del again[answer["line"]]
            pending = list(again.values())


class Chaos:
    def __init__(self, cluster, tasks, faults, seed, folder):
        self.cluster, self.tasks, self.faults, self.folder = cluster, tasks, faults, folder
        self.random = random.Random(seed)
        self.once = [os.environ["ONCE_BIN"], "--store", cluster.url(ZONE)]
        self.effects = folder / "effects"
        self.over = threading.Event()
        self.counted = collections.Counter()
        self.workers = []
        self.replacing = threading.Lock()  # of one of the workers
        self.broken = []

    # --- What is asked of Once

    def ask(self, *arguments):
        """The lines of an answer; asked again while the store is away."""

        def answered():
            done = subprocess.run([*self.once, *arguments, "--json"], capture_output=True, timeout=300)
            if done.returncode in (5, 7):
                return None
            if done.returncode != 0:
                raise AssertionError((arguments, done.returncode, done.stderr))
            return [[json.loads(line) for line in done.stdout.splitlines()]]

        return nats_cluster.until(answered, f"once {arguments} is answered", PATIENCE)[0]

    def start_worker(self):
        words = ["worker", self.cluster.url(ZONE), "q", self.effects, "", "", "", "", CONCURRENCY, TASK_MS, 0, 0, "", 0]
        command = [os.environ["ONCE_CHILD"], "--child", *map(str, words)]
        return nats_cluster.start(command, self.folder / "workers.log")

    # --- Faults

    def trouble_nodes(self):
        """One node at a time, always one that leads what matters."""
        while self.faults > 0 and not self.over.wait(FAULT_EVERY * self.random.uniform(0.5, 1.5)):
            stream = self.random.choice([LOG, LEDGER])
            node = self.cluster.leader(stream)
            if node is None:
                continue
            self.faults -= 1
            if self.random.random() < 0.5:
                self.counted["leaders killed"] += 1
                node.kill()
                self.over.wait(self.random.uniform(0.2, 2))
                node.start()
            else:
                self.counted["leaders paused"] += 1
                node.pause()
                self.over.wait(self.random.uniform(1, 1.5 * LEASE))
                node.resume()
            nats_cluster.until(node.greets, f"{node.name} is back")

    def trouble_workers(self):
        while not self.over.wait(KILL_EVERY):
            place = self.random.randrange(WORKERS)
            with self.replacing:
                if self.workers[place].poll() is not None:
                    continue
                self.workers[place].kill()
                self.workers[place].wait()
                self.counted["workers killed"] += 1
                self.workers[place] = self.start_worker()

    def guarded(self, what):
        def run():
            try:
                what()
            except BaseException as error:  # noqa: B036  the main thread reports it
                self.broken.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    # --- The run

    def run(self):
        self.ask("queue", "add", "q", "--topic", "t", "--lease", f"{LEASE}s", "--attempts", "50")
        for stream in (LOG, LEDGER):
            self.equal(3, self.cluster.stream(stream)["config"]["num_replicas"], f"replicas of {stream}")
        numbers = list(range(self.tasks))
        self.publishers = [
            Publisher(self, "first", numbers),
            Publisher(self, "second", self.random.sample(numbers, len(numbers))),
        ]
        self.workers = [self.start_worker() for _ in range(WORKERS)]
        publishing = [self.guarded(publisher.run) for publisher in self.publishers]
        threads = [*publishing, self.guarded(self.trouble_nodes), self.guarded(self.trouble_workers)]
        try:
            self.until_settled(publishing)
        finally:
            self.over.set()
            for thread in threads:
                thread.join(60)
            for worker in self.workers:
                worker.kill()
                worker.wait()

    def until_settled(self, publishers):
        """A worker ends when the queue is empty, which it may be for a moment."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            time.sleep(0.05)
            if self.broken:
                raise self.broken[0]
            publishing = any(thread.is_alive() for thread in publishers)
            with self.replacing:
                ended = [worker.poll() for worker in self.workers]
                for place, code in enumerate(ended):
                    if publishing and code == 0:
                        self.workers[place] = self.start_worker()
            if any(code not in (None, 0) for code in ended):
                raise AssertionError(f"a worker ended with {ended}: {(self.folder / 'workers.log').read_text()}")
            if not publishing and all(code == 0 for code in ended):
                return
        raise AssertionError(f"not settled after {PATIENCE} s: {self.ask('status')}")

    # --- The count

    def equal(self, expected, found, what):
        if expected != found:
            raise AssertionError(f"{what}: {found!r} instead of {expected!r}")

    def check(self):
        ids = {task_id(number) for number in range(self.tasks)}
        log = {}
        for entry in self.ask("log", "--limit", str(10 * self.tasks)):
            if entry["id"] in log:
                raise AssertionError(f"{entry['id']} is in the log twice")
            log[entry["id"]] = entry
        self.equal(ids, set(log), "the log")
        self.check_receipts(log)
        self.check_tasks(ids)

    def check_receipts(self, log):
        first, second = self.publishers
        for task, entry in log.items():
            said = [publisher.receipts[task] for publisher in self.publishers if task in publisher.receipts]
            conflicts = [publisher.conflicts[task] for publisher in self.publishers if task in publisher.conflicts]
            for receipt in said:
                self.equal(entry["sequence"], receipt["sequence"], f"the receipt of {task}")
            for sequence in conflicts:
                self.equal(entry["sequence"], sequence, f"the conflict of {task}")
            if sum(not receipt["duplicate"] for receipt in said) > 1:
                raise AssertionError(f"{task} was accepted twice: {said}")
            differs = "by" in entry["body"]
            self.equal((1, 1) if differs else (2, 0), (len(said), len(conflicts)), f"the answers for {task}")
            if differs:
                winner = first if entry["body"]["by"] == "first" else second
                self.equal(True, task in winner.receipts, f"the winner of {task} has the receipt")
        self.counted["conflicts refused"] = len(first.conflicts) + len(second.conflicts)
        self.counted["answers asked for again"] = first.rounds + second.rounds - 2

    def check_tasks(self, ids):
        effects = collections.defaultdict(list)
        for line in self.effects.read_text().splitlines():
            task, attempt = line.split()
            effects[task].append(int(attempt))
        self.equal(ids, set(effects), "what had its effect")
        listed = {item["id"]: item for item in self.ask("list", "--queue", "q", "--limit", str(10 * self.tasks))}
        self.equal(ids, set(listed), "the list")
        self.equal({"completed"}, {item["state"] for item in listed.values()}, "states")
        for task, item in listed.items():
            ran = effects[task]
            if len(set(ran)) != len(ran) or max(ran) > item["attempts"]:
                raise AssertionError(f"{task} had its effect in attempts {ran}, and has {item['attempts']}")
        again = [task for task, item in listed.items() if item["attempts"] > 1]
        for task in again[:100]:
            self.check_story(task, effects[task])
        self.counted["attempts"] = sum(item["attempts"] for item in listed.values())
        self.counted["effects"] = sum(map(len, effects.values()))
        self.counted["tasks run again"] = len(again)

    def check_story(self, task, ran):
        attempts = self.ask("inspect", task)[0]["queues"][0]["attempts"]
        self.equal(1, sum(each["outcome"] == "completed" for each in attempts), f"completions of {task}")
        doubtful = {each["attempt"] for each in attempts if each["in_doubt"]}
        rest = {each["attempt"] for each in attempts} - doubtful
        self.equal(1, len(rest), f"attempts of {task} with a verdict")
        if not set(ran) <= doubtful | rest:
            raise AssertionError(f"{task} ran in attempts {ran}, of which {attempts} tells")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tasks", type=int, default=20_000)
    arguments.add_argument("--faults", type=int, default=sys.maxsize, help="of nodes, at most")
    arguments.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = arguments.parse_args()
    nats_cluster.end_without_server()
    print(f"{options.tasks} tasks on three nodes, seed {options.seed}", flush=True)
    started = time.monotonic()
    with nats_cluster.Cluster(3) as cluster, tempfile.TemporaryDirectory(prefix="once-chaos-") as folder:
        chaos = Chaos(cluster, options.tasks, options.faults, options.seed, Path(folder))
        chaos.run()
        settled = time.monotonic() - started
        if not chaos.counted["workers killed"] or chaos.faults == options.faults:
            raise AssertionError("it was over before anything was done to it")
        nats_cluster.until(lambda: cluster.in_step(LOG) and cluster.in_step(LEDGER), "the nodes agree", 120)
        chaos.check()
    for what in ("leaders killed", "leaders paused", "workers killed"):
        print(f"  {chaos.counted[what]:7} {what}")
    for what in ("conflicts refused", "answers asked for again", "attempts", "effects", "tasks run again"):
        print(f"  {chaos.counted[what]:7} {what}")
    print(
        f"  {options.tasks} tasks settled in {settled:.0f} s: none lost, none completed twice, "
        "every re-run accounted for"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
