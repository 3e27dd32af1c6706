"""One round of one peer: runs of three steps on a fresh server, and the killed worker on another."""
import contextlib

import rounds
import workload
from measuring import Peak
from peers import LEASE_MS
from rounds import KILLED_CONCURRENCY

QUEUE = "steps"
STEPS = "abc"
WIDTH = 38  # of a run's id, a dot and a step
KILLED = (300, 2000)  # runs, at least and at most


class FlowRun(rounds.Run):
    """What one peer does on one server. The step of a run counts under its own id."""

    def write_ids(self, count):
        runs = workload.new_ids(count, f"{self.seed} flow")
        self.runs = workload.write(self.folder, "runs.ids", runs)
        self.steps = workload.write(self.folder, "steps.ids", [f"{run}.{step}" for run in runs for step in STEPS])

    @contextlib.contextmanager
    def working(self, concurrency, **options):
        """The worker, and the process that starts the runs unless the worker does that itself."""
        with self.worker(QUEUE, self.steps, concurrency, runs=self.runs, **options) as worker, \
                contextlib.ExitStack() as stack:
            starters = [stack.enter_context(self.publisher(QUEUE, self.runs, way)) for way in self.peer.ways[:1]]
            yield worker, starters

    def throughput(self):
        self.write_ids(self.tasks)
        self.prepare(QUEUE)
        with self.working(self.peer.concurrency) as (worker, starters):
            before = self.spent(worker, *starters)
            with Peak(self.pids(worker, *starters)) as peak:
                worker.tell("go")
                for starter in starters:
                    starter.go()
                result = worker.result()
            cost = self.spent(worker, *starters, before=before)
        self.count(result)
        return self.measured | {
            "tasks": self.tasks, "runs_per_s": self.tasks / result["seconds"], "memory": peak.bytes / 2**20,
            "cpu": cost["cpu"] / self.tasks * 1e3, "flushes": self.per_task(cost["flushes"])}

    def kill(self, policy):
        """SIGKILL when two fifths of the steps have run. Then a second worker, and every run is started again."""
        self.write_ids(self.tasks)
        effects = self.folder / "effects"
        effects.touch()
        options = {"lease": LEASE_MS} | ({"policy": policy} if policy else {})
        count = self.tasks * len(STEPS)
        self.prepare(QUEUE, **options)
        with self.working(KILLED_CONCURRENCY, effects=effects, **options) as (worker, starters):
            for role in (worker, *starters):
                role.tell("go")
            rounds.wait_for_lines(effects, count * 2 // 5, WIDTH, worker)
            worker.kill()
            before = effects.read_text().count("\n")
            for starter in starters:
                starter.result()
        with self.working(KILLED_CONCURRENCY, effects=effects, again=1, **options) as (worker, starters):
            for starter in starters:
                starter.go()
            worker.go()
        found = {"tasks": count, "ran_before": before}
        found |= rounds.effects_counted(effects, set(self.steps.read_text().split()))
        if self.peer.program == "once":
            with self.role("audit", QUEUE) as auditor:
                found["ledger"] = auditor.go()
        return found


def measure(peer, command, base, runs, seed):
    """{measure: value}, and under `kill` one entry per policy."""
    runs = min(runs, peer.most_tasks)
    with rounds.fresh(peer, command, base, runs, seed, FlowRun) as run:
        measured = run.throughput()
    measured["kill"] = {}
    for policy in peer.policies:
        with rounds.fresh(peer, command, base, rounds.within(KILLED, runs // 5), seed, FlowRun) as run:
            measured["kill"][policy] = run.kill(policy)
    return measured
