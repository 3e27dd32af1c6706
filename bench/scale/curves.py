"""What is measured as one number grows: the ids in the log, the worker processes, the tasks in flight, the body.

Every task runs in bench/compare's programs and is counted there, so every point also proves that each id ran once.
"""
import contextlib
import subprocess
import sys
import time

import rounds
import workload
from measuring import cpu_seconds
from role import Failed
from rounds import fresh

SMALL = 100_000  # up to so many ids a zone is filled in seconds: each round has one of its own
QUEUE = "bench"  # of once_fill, too: a backlog of its own would have to pass the tasks of others first
IN_FLIGHT = 256
PER_PROCESS = 64
BATCH_BYTES = 8 * 2**20  # in one publish, when bodies are large


class Stage:
    """Publishing and working off on one run's server, and what it took."""

    def __init__(self, run):
        self.run = run
        self.measured = {"never": 0, "twice": 0}

    def ids(self, count, seed):
        return workload.write(self.run.folder, "measured.ids", workload.backlog(count, seed))

    def timed(self, roles, go):
        """What `go` gives, and processor microseconds of the roles and the server."""
        pids = [*self.run.server.pids, *(role.pid for role in roles)]
        before = cpu_seconds(pids)
        return go(), (cpu_seconds(pids) - before) * 1e6

    def publish(self, ids, count, **options):
        with self.run.publisher(QUEUE, ids, "bulk", **options) as publisher:
            result, cpu = self.timed([publisher], publisher.go)
        self.measured |= {"publish_rate": count / result["seconds"], "publish_us": result["seconds"] * 1e6 / count,
                          "publish_cpu_us": cpu / count}

    def work(self, ids, count, in_flight, processes=1):
        with contextlib.ExitStack() as stack:
            workers = [stack.enter_context(self.run.worker(QUEUE, ids, in_flight)) for _ in range(processes)]
            results, cpu = self.timed(workers, lambda: all_go(workers))
        never, twice = together(count, results)
        self.measured["never"] += never
        self.measured["twice"] += twice
        seconds = max(result["seconds"] for result in results)
        self.measured |= {"work_rate": count / seconds, "work_us": seconds * 1e6 / count, "work_cpu_us": cpu / count}

    def ask_the_ledger(self, count):
        """Several processes together can only be counted by what they have recorded."""
        with self.run.role("audit", QUEUE) as auditor:
            found = auditor.go()
        self.measured["never"] += count - found["completed"]
        self.measured["twice"] += found["completed_twice"] + found["reruns"] + found["unexplained"]


def together(count, results):
    """(never ran, ran twice) of `count` ids, from what each process has counted of all of them."""
    ran = sum(count - result["never"] for result in results)
    return max(0, count - ran), max(0, ran - count) + sum(result["twice"] for result in results)


def all_go(workers):
    for worker in workers:
        worker.tell("go")
    return [worker.result() for worker in workers]


class Driver:
    """One store: what a point of each curve takes."""

    def __init__(self, peer, once, fill, out, options):
        self.peer, self.once, self.fill_program, self.out, self.options = peer, once, fill, out, options

    def fresh(self):
        return fresh(self.peer, [self.once], self.out, self.options.tasks, 0)

    def fill(self, run, count, already):
        began = time.monotonic()
        filled = subprocess.run([self.fill_program, run.server.url, str(count), str(already)],
                                text=True, capture_output=True)
        if filled.returncode != 0:
            raise Failed(f"the zone could not be filled: {filled.stderr.strip()}")
        print(f"{self.peer.name}: {count:,} ids after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    def on_top(self, run, seed):
        stage, count = Stage(run), self.options.tasks
        ids = stage.ids(count, seed)
        stage.publish(ids, count)
        stage.work(ids, count, IN_FLIGHT)
        return stage.measured

    def grown(self, sizes, repeats, seed):
        """(size, measured) on one zone that grows from size to size."""
        with self.fresh() as run:
            there = 0
            for size in sizes:
                self.fill(run, size, min(there, size))
                there = max(there, size)
                for number in range(repeats):
                    yield size, self.on_top(run, f"{seed} {size} {number}")
                    there += self.options.tasks

    def ids(self, sizes):
        """A small zone is another one after three rounds; a large one costs minutes and is not."""
        small = [size for size in sizes if size <= SMALL]
        for number in range(self.options.rounds):
            yield from self.grown(small, 1, number)
        if (large := [size for size in sizes if size > SMALL]):
            yield from self.grown(large, self.options.rounds, "large")

    def each(self, sizes, measure):
        """Fresh for every point; the rounds are outside, so that a slow minute does not hit one point alone."""
        for number in range(self.options.rounds):
            for size in sizes:
                with self.fresh() as run:
                    run.prepare(QUEUE)
                    stage = Stage(run)
                    measure(stage, size, number)
                yield size, stage.measured

    def processes(self, counts):
        def measure(stage, processes, seed):
            ids = stage.ids(self.options.tasks, seed)
            stage.publish(ids, self.options.tasks)
            stage.work(ids, self.options.tasks, PER_PROCESS, processes)
            stage.ask_the_ledger(self.options.tasks)
        return self.each(counts, measure)

    def in_flight(self, counts):
        def measure(stage, in_flight, seed):
            count = rounds.within((100, self.options.tasks), self.options.tasks * in_flight // 10)
            ids = stage.ids(count, seed)
            stage.publish(ids, count)
            stage.work(ids, count, in_flight)
        return self.each(counts, measure)

    def bodies(self, sizes):
        def measure(stage, size, seed):
            count = rounds.within((10, self.options.tasks), self.options.bytes // size)
            stage.run.body.write_text(workload.body(size))
            ids = stage.ids(count, seed)
            stage.publish(ids, count, batch=rounds.within((1, 500), BATCH_BYTES // size))
            stage.work(ids, count, IN_FLIGHT)
            stage.measured |= {f"{what}_mb": stage.measured[f"{what}_rate"] * size / 1e6 for what in ("publish", "work")}
        return self.each(sizes, measure)


CURVES = {"ids": Driver.ids, "processes": Driver.processes, "in_flight": Driver.in_flight, "bodies": Driver.bodies}
