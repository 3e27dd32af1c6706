"""What the system tests share: the command's harness, workers in the background, and a look at
which processes are alive.
"""

import base64
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cli" / "support"))
from once_command import BIN, Answer, OnceTest, waits_for_a_flock  # noqa: E402,F401


def alive(pid):
    """A zombie is not: it runs nothing and holds nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def in_state(pid, state):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == state


def holds_a_flock(pid):
    # 4: FLOCK  ADVISORY  WRITE 4242 fe:00:131 0 EOF
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(words[1] == "FLOCK" and words[4] == str(pid) for words in locks)


def skip_loudly(test, why):
    """Skips, and says so where a runner that hides skips shows it all the same."""
    print(f"\nSKIPPED: {test.id()}: {why}", file=sys.stderr, flush=True)
    test.skipTest(why)


class SystemTest(OnceTest):
    def background(self, *arguments, **options):
        """The command with its standard error in a file, so that nobody has to read it."""
        log = open(self.folder / f"stderr.{time.monotonic_ns()}", "w+b")
        self.addCleanup(log.close)
        process = self.start(*arguments, stdout=subprocess.DEVNULL, stderr=log, **options)
        process.log = log
        return process

    def worker(self, name, *arguments, queue="q", **options):
        return self.background("work", queue, "-q", "--worker", name, *arguments, **options)

    def said(self, process):
        process.log.seek(0)
        return process.log.read().decode(errors="replace")

    def ends(self, process, code=0, seconds=30):
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.fail(f"{process.args} has not ended after {seconds} s: {self.said(process)}")
        self.assertEqual(code, process.returncode, self.said(process))

    def queue(self, *options, name="q", topic="t"):
        self.ok("queue", "add", name, "--topic", topic, *options)

    def settle(self, *program, queue="q", exits=0):
        """Works until the queue is empty."""
        return self.drained("work", queue, "-q", "--until-empty", "--", *(program or ["true"]), exits=exits)

    def story(self, task, queue="q"):
        queues = self.ok("inspect", task, "--json").line["queues"]
        return next(view for view in queues if view["queue"] == queue)

    def outcomes(self, task):
        return [attempt["outcome"] for attempt in self.story(task)["attempts"]]

    def status(self, queue="q"):
        lines = self.ok("status", "--json").lines
        return next(line for line in lines if line.get("queue") == queue)

    def await_workers(self, count):
        self.until(lambda: self.status()["workers"] == count, f"{count} workers")

    def raw_result(self, task):
        story = self.story(task)
        return story["result"].encode() if "text" in story else base64.b64decode(story["raw"])

    def read(self, name):
        """What a program left in the folder; empty: nothing yet."""
        try:
            return (self.folder / name).read_text()
        except FileNotFoundError:
            return ""

    def pids(self, *names):
        """Process ids that programs leave with `echo $$ > NAME`."""
        self.until(lambda: all(self.read(name).endswith("\n") for name in names), f"marks {names}")
        return [int(self.read(name)) for name in names]

    def gone(self, pids, seconds=30):
        self.until(lambda: not any(map(alive, pids)), f"{pids} are gone", seconds)

    def suspend(self, process):
        """SIGSTOP, not in the middle of a write: that would hold up everybody else as well."""

        def stopped_outside_a_write():
            process.send_signal(signal.SIGSTOP)
            self.until(lambda: in_state(process.pid, "T"), "it is suspended")
            if not holds_a_flock(process.pid):
                return True
            process.send_signal(signal.SIGCONT)
            return False

        self.until(stopped_outside_a_write, "suspended outside of a write")

    def touch(self, name):
        (self.folder / name).touch()

    def snapshot(self):
        """All that is known of every task."""
        views = [["log"], ["list", "--limit", "100000"], ["queue", "list"], ["retention"]]
        return [self.ok(*view, "--json").out for view in views]

    def each(self, tasks):
        """Publishes null under each id, in one batch."""
        lines = "".join(f'{{"topic":"t","id":"{task}"}}\n' for task in tasks)
        self.ok("publish", "--batch", "-", "-q", stdin=lines)


def without_right_to_override(command):
    """The command without root's right to write what is read-only; as it is for anybody else."""
    if os.geteuid() != 0:
        return command
    return ["setpriv", "--bounding-set=-dac_override", *command]
