"""What `once serve` does over HTTP: durable publishes, batches of claims, and long polls that wait.

Usage: bench/http [--tasks N] [--polls N] [--rounds N] ONCE LOAD
ONCE is the command, LOAD the load client (once_http). The zone is an SQLite file in a temporary folder.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")


class Served:
    """A server on a zone of its own."""

    def __init__(self, once, folder):
        self.environment = os.environ | {"ONCE_STORE": f"sqlite:{folder}/once.db"}
        subprocess.run([once, "queue", "add", "q", "--topic", "t", "-q"], env=self.environment, check=True)
        self.process = subprocess.Popen([once, "serve", "--listen", ":0"], env=self.environment, stderr=subprocess.PIPE, text=True)
        self.address = "127.0.0.1:" + self.process.stderr.readline().strip().rsplit(":", 1)[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def cpu(self):
        """Seconds of processor time so far."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self):
        """MiB."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def load(program, mode, served, *options):
    done = subprocess.run([program, mode, served.address, *map(str, options)], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def polls(program, served, count):
    """Memory and processor time while the polls wait, then the time from a publish to its offer."""
    with subprocess.Popen([program, "polls", served.address, "--connections", str(count), "--publishes", "200"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:  # fmt: skip
        assert client.stdout.readline() == "parked\n"
        time.sleep(1)  # the server parks the last ones
        before, start = served.cpu(), time.monotonic()
        time.sleep(5)  # what is measured is that nothing happens
        idle = (served.cpu() - before) / (time.monotonic() - start)
        memory = served.memory()
        out, _ = client.communicate("go\n")
    return {"memory": memory, "idle": 100 * idle, **json.loads(out.splitlines()[-1])}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=50_000)
    parser.add_argument("--polls", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("once")
    parser.add_argument("load")
    options = parser.parse_args()
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="once-http-") as folder, Served(options.once, folder) as served:
            published = load(options.load, "publish", served, "--requests", options.tasks)
            worked = load(options.load, "work", served, "--tasks", options.tasks)
            rounds.append((published, worked, polls(options.load, served, options.polls)))
    median = lambda part, key: statistics.median(each[part][key] for each in rounds)  # noqa: E731
    print(f"publish, 64 connections     {median(0, 'per_second'):10.0f} /s   median {median(0, 'median_ms'):.2f} ms")
    print(f"offer, start, settle of 64  {median(1, 'per_second'):10.0f} /s")
    print(f"{options.polls} long polls            {median(2, 'memory'):10.0f} MiB  {median(2, 'idle'):.1f} % of a core")
    print(f"publish to a waiting poll   {median(2, 'median_ms'):10.2f} ms")


if __name__ == "__main__":
    sys.exit(main())
