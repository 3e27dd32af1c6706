"""One run of one peer: every measure on a fresh server, and the killed worker on another."""
import collections
import contextlib
import math
import pathlib
import tempfile
import time

import workload
from measuring import Disk, Peak, cpu_seconds, difference
from peers import LEASE_MS
from role import PATIENCE, Failed, Role

ONE_AT_A_TIME = (100, 2000)  # tasks, at least and at most
LATENCY = (50, 1000)
KILLED = (2000, 10_000)
KILLED_CONCURRENCY = 50  # the same for all: it bounds how many effects can happen twice


def within(bounds, count):
    return max(bounds[0], min(bounds[1], count))


def percentile(values, part):
    """The smallest value that is not below `part` of them."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


class Run:
    """What one peer does on one server; `measured` fills up."""

    def __init__(self, peer, command, server, folder, tasks, seed):
        self.peer, self.command, self.server, self.folder = peer, command, server, folder
        self.tasks, self.seed = tasks, seed
        self.disk = Disk(folder)
        self.body = folder / "body.json"
        self.body.write_text(workload.BODY)
        self.measured = {"never": 0, "twice": 0}

    def role(self, name, queue, **options):
        return Role(self.command, name, self.folder, url=self.server.url, queue=queue, **options)

    def prepare(self, queue, **options):
        with self.role("prepare", queue, **options) as role:
            role.go()

    def publisher(self, queue, ids, way, **options):
        return self.role("publish", queue, ids=ids, body=self.body, way=way, **options)

    def worker(self, queue, ids, concurrency, **options):
        return self.role("work", queue, ids=ids, concurrency=concurrency, **options)

    @contextlib.contextmanager
    def filled(self, queue, count, concurrency, way, **options):
        """A queue with a backlog, published in this way, and a worker that waits for its go."""
        ids = workload.write(self.folder, f"{queue}.ids", workload.backlog(count, f"{self.seed} {queue}"))
        self.prepare(queue, **{key: options[key] for key in ("lease", "policy") if key in options})
        with contextlib.ExitStack() as stack:
            if self.peer.worker_first:
                worker = stack.enter_context(self.worker(queue, ids, concurrency, **options))
            with self.publisher(queue, ids, way, concurrency=concurrency) as publisher:
                before = self.spent(publisher)
                self.published = publisher.go()
                self.publishing_cost = self.spent(publisher, before=before)
            if not self.peer.worker_first:
                worker = stack.enter_context(self.worker(queue, ids, concurrency, **options))
            yield worker, ids

    def pids(self, *roles):
        return [*self.server.pids, *(role.pid for role in roles)]

    def spent(self, *roles, before=None):
        """Processor seconds, flushes and bytes since `before`, of the server and these roles. Bytes are read
        last afterwards, and first before, because that writes out what is in memory."""
        def now():
            return {"cpu": cpu_seconds(self.pids(*roles)), "flushes": self.disk.flushes()}
        if before is None:
            written = self.disk.bytes_written()
            return now() | {"bytes": written}
        after = now()
        after["bytes"] = self.disk.bytes_written()
        return {what: difference(after[what], before[what]) for what in after}

    def count(self, result):
        self.measured["never"] += result["never"]
        self.measured["twice"] += result["twice"]

    def backlog(self):
        """In bulk where the peer can; then the worker."""
        way = self.peer.ways[0]
        with self.filled("backlog", self.tasks, self.peer.concurrency, way) as (worker, _):
            self.measured[f"publish_{way}"] = self.published["count"] / self.published["seconds"]
            before = self.spent(worker)
            with Peak(self.pids(worker)) as peak:
                result = worker.go()
            cost = self.spent(worker, before=before)
        self.count(result)
        self.measured["backlog"] = self.tasks / result["seconds"]
        self.measured["memory"] = peak.bytes / 2**20
        published = self.publishing_cost
        self.measured["cpu"] = (published["cpu"] + cost["cpu"]) / self.tasks * 1e6
        self.measured["publish_flushes"] = self.per_task(published["flushes"])
        self.measured["backlog_flushes"] = self.per_task(cost["flushes"])
        counted = None not in (published["bytes"], cost["bytes"])
        self.measured["bytes"] = self.per_task(published["bytes"] + cost["bytes"]) if counted else None

    def per_task(self, count):
        return None if count is None else count / self.tasks

    def publish_single(self):
        if self.peer.ways[0] == "single":
            return  # done
        ids = workload.write(self.folder, "single.ids", workload.backlog(self.tasks // 4, f"{self.seed} single"))
        self.prepare("single")
        with self.publisher("single", ids, "single") as publisher:
            result = publisher.go()
        self.measured["publish_single"] = result["count"] / result["seconds"]

    def one_at_a_time(self):
        count = within(ONE_AT_A_TIME, self.tasks // 20)
        with self.filled("sequential", count, 1, self.peer.ways[0]) as (worker, _):
            result = worker.go()
        self.count(result)
        self.measured["one_at_a_time"] = result["seconds"] * 1000 / count

    def latency(self):
        """Published by one process, worked on by another; every time is of the same clock."""
        lines = workload.paced(within(LATENCY, self.tasks // 50), f"{self.seed} latency")
        ids = workload.write(self.folder, "latency.ids", [f"{at} {id}" for at, id in lines])
        self.prepare("latency")
        times = [self.folder / "published.times", self.folder / "worked.times"]
        with self.worker("latency", ids, self.peer.latency_concurrency, times=times[1]) as worker, \
                self.publisher("latency", ids, "paced", times=times[0]) as publisher:
            worker.tell("go")
            publisher.go()
            worker.tell("stop")
            self.count(worker.result())
        self.measured |= latencies([file.read_text() for file in times])

    def kill(self, policy):
        """SIGKILL in the middle of the backlog, and a second worker afterwards."""
        count = within(KILLED, self.tasks // 5)
        options = {"lease": LEASE_MS} | ({"policy": policy} if policy else {})
        effects = self.folder / "effects"
        effects.touch()
        queue = "killed"
        with self.filled(queue, count, KILLED_CONCURRENCY, self.peer.ways[0], effects=effects,
                         **options) as (worker, ids):
            worker.tell("go")
            wait_for_lines(effects, count * 2 // 5, 36, worker)
            worker.kill()
        before = effects.read_text().count("\n")
        with self.worker(queue, ids, KILLED_CONCURRENCY, effects=effects, again=1, **options) as worker:
            worker.go()
        found = {"tasks": count, "ran_before": before} | effects_counted(effects, set(ids.read_text().split()))
        if self.peer.program == "once":
            with self.role("audit", queue) as auditor:
                found["ledger"] = auditor.go()
        return found


def wait_for_lines(file, count, width, worker):
    deadline = time.monotonic() + PATIENCE
    while file.stat().st_size < count * (width + 1):  # an id and its newline
        if not worker.running() or time.monotonic() > deadline:
            raise Failed("its worker did not come to the middle of the backlog")
        time.sleep(0.001)


def effects_counted(file, ids):
    counts = collections.Counter(file.read_text().split())
    return {"never": len(ids - counts.keys()), "twice": sum(count > 1 for count in counts.values())}


def latencies(files):
    """From lines `what id nanoseconds`; the first of each counts, what comes again is a duplicate."""
    times = collections.defaultdict(dict)
    for line in "".join(files).splitlines():
        what, id, at = line.split()
        times[what].setdefault(id, int(at))
    measured = {}
    for what in ("start", "recorded"):
        took = [(at - times["published"][id]) / 1e6 for id, at in times[what].items()]
        if not took:
            raise Failed(f"nothing was noted as {what} in the latency run")
        measured |= {f"{what}_p50": percentile(took, 0.5), f"{what}_p99": percentile(took, 0.99)}
    return measured


@contextlib.contextmanager
def fresh(peer, command, base, tasks, seed, run=Run):
    with tempfile.TemporaryDirectory(prefix="run.", dir=base) as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)  # the user postgres goes through it
        with peer.server()(folder) as server:
            yield run(peer, command, server, folder, tasks, seed)


def measure(peer, command, base, tasks, seed):
    """All measures of one round: {measure: value}, and under `kill` one entry per policy."""
    tasks = min(tasks, peer.most_tasks)
    with fresh(peer, command, base, tasks, seed) as run:
        run.backlog()
        run.one_at_a_time()
        run.latency()
        run.publish_single()  # last: what nobody works off is in nobody's way
        measured = run.measured | {"tasks": tasks}
    measured["kill"] = {}
    for policy in peer.policies:
        with fresh(peer, command, base, tasks, seed) as run:
            measured["kill"][policy] = run.kill(policy)
    return measured
