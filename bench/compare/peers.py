"""Who is measured, on which server, with which settings. The settings are those that each peer's own
documentation recommends for throughput; docs/performance.md repeats them for readers."""
import dataclasses
import functools
import json
import pathlib
import shutil
import sqlite3
import subprocess
import typing

import servers
from role import Failed

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "bench" / "peers"
INSTALLED = ROOT / "build" / "peers"
LEASE_MS = 5000  # in the kill test, for every peer that has something like a lease


@dataclasses.dataclass
class Peer:
    name: str
    server: typing.Callable  # gives, when called, a context manager of (folder) that yields a Server
    program: str  # of bench/peers
    concurrency: int
    version: typing.Callable
    settings: str
    killed: str  # how the consumer is set when its worker is killed
    ways: tuple = ("bulk", "single")
    latency_concurrency: int = 1  # more than one: a slow moment of the disk must not pile up
    most_tasks: int = 1_000_000_000
    worker_first: bool = False  # it pushes tasks to its workers, so they must be there when it gets some
    policies: tuple = ("",)  # what becomes of tasks whose worker died, where the peer has a choice
    durable: bool = True
    beside: str = ""  # the Once that it is compared with: durable where it is, on its server where there is one


def said(*words):
    return subprocess.run([str(word) for word in words], check=True, text=True, capture_output=True).stdout.strip()


def node_version():
    return said("node", "--version") if shutil.which("node") else "none"


def installed_version(package):
    return json.loads((INSTALLED / "node_modules" / package / "package.json").read_text())["version"]


@functools.cache
def nats_server():
    found = subprocess.run([ROOT / "tools" / "nats-server"], text=True, capture_output=True)
    if found.returncode != 0:
        raise Failed(found.stderr.strip())
    return found.stdout.strip()


@functools.cache
def install_packages():
    """The peers' packages by name, into the build folder."""
    if shutil.which("npm") is None:
        raise Failed("npm is not installed; `tools/setup npm` does it")
    INSTALLED.mkdir(parents=True, exist_ok=True)
    for file in SOURCES.glob("*.mjs"):
        shutil.copy(file, INSTALLED)
    wanted = SOURCES / "package.json"
    have = INSTALLED / "package.json"
    if have.exists() and have.read_text() == wanted.read_text() and (INSTALLED / "node_modules").exists():
        return
    shutil.copy(wanted, have)
    done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", "--ignore-scripts"],
                          cwd=INSTALLED, text=True, capture_output=True)
    if done.returncode != 0:
        have.unlink()
        raise Failed("npm could not install the peers' packages: " + (done.stderr + done.stdout).strip()[-500:])


def command_of(peer, once):
    """How a role of the peer is started."""
    if peer.program == "once":
        return [once]
    install_packages()
    return ["node", INSTALLED / peer.program]


def on_nats(sync):
    return lambda: servers.nats(nats_server(), sync)


def on_redis(*settings):
    def make():
        if shutil.which("redis-server") is None:
            raise Failed("redis-server is not installed; `tools/setup peers` does it")
        return servers.redis(*settings)
    return make


def on_restate():
    install_packages()
    found = list((INSTALLED / "node_modules" / "@restatedev").glob("restate-server-*/bin/restate-server"))
    if not found:
        raise Failed("npm has no server of Restate's for this machine")
    return servers.restate(found[0])


def nats_version():
    return said(nats_server(), "--version").replace("nats-server: ", "nats-server ")


def redis_version():
    return "redis-server " + said("redis-server", "--version").split("v=")[1].split()[0]


def postgresql_version():
    return said(servers.newest_postgresql() / "postgres", "--version").replace("postgres (PostgreSQL)", "PostgreSQL")


ALWAYS = "sync_interval: always"
ONCE_ON_NATS = dict(program="once", concurrency=256, latency_concurrency=16, version=nats_version, policies=("retry", "hold"),
                    killed=f"lease {LEASE_MS // 1000} s, in-doubt policy `retry`, and again with `hold`")
BULLMQ = dict(
    program="bullmq.mjs", latency_concurrency=50,
    version=lambda: f"bullmq {installed_version('bullmq')}, ioredis {installed_version('ioredis')}, {redis_version()}",
    killed=f"lockDuration and stalledInterval {LEASE_MS // 1000} s (30 s by default), maxStalledCount 1 (the default)")
RECIPE = dict(
    program="recipe.mjs", concurrency=256, latency_concurrency=256, ways=("single",),
    version=lambda: f"@nats-io/jetstream {installed_version('@nats-io/jetstream')}, {nats_version()}",
    killed=f"ack_wait {LEASE_MS // 1000} s; a task whose record exists is somebody's and is acknowledged")

PEERS = {
    "once-sqlite": Peer(
        "Once, SQLite", lambda: servers.none, "once", 512, latency_concurrency=16,
        version=lambda: f"SQLite {sqlite3.sqlite_version}",
        settings="WAL, synchronous FULL (the only setting); batches of 500, or 256 threads; 512 handlers, 16 for latency",
        killed="in-doubt policy `retry`, and again with `hold`", policies=("retry", "hold")),
    "once-nats": Peer(
        "Once, JetStream", on_nats(""), durable=False, **ONCE_ON_NATS,
        settings="server defaults: a write is fsynced within 2 minutes; batches of 500, or 256 threads; 256 handlers, 16 for latency"),
    "once-nats-always": Peer(
        "Once, JetStream always", on_nats(ALWAYS), most_tasks=20_000, **ONCE_ON_NATS,
        settings="`jetstream { sync_interval: always }`; batches of 500, or 256 threads; 256 handlers, 16 for latency"),
    "bullmq": Peer(
        "BullMQ, Redis", on_redis(), concurrency=50, durable=False, beside="once-nats", **BULLMQ,
        settings="redis-server defaults (no append-only file); `addBulk` 500 × 4 in flight, `add` × 256; jobId is "
                 "the id, completed jobs are kept; concurrency 50"),
    "bullmq-always": Peer(
        "BullMQ, Redis always", on_redis("--appendonly", "yes", "--appendfsync", "always"), concurrency=200,
        beside="once-sqlite", **BULLMQ,
        settings="`appendonly yes`, `appendfsync always`; `addBulk` 500 × 4 in flight, `add` × 256; jobId is the id, "
                 "completed jobs are kept; concurrency 200"),
    "graphile": Peer(
        "graphile-worker, PostgreSQL", lambda: servers.postgresql, "graphile.mjs", 24, latency_concurrency=24,
        beside="once-sqlite",
        version=lambda: f"graphile-worker {installed_version('graphile-worker')}, {postgresql_version()}",
        settings="PostgreSQL defaults (fsync on); `addJobs` 500, `addJob` × 24 connections; `localQueue` 500, "
                 "`completeJobBatchDelay` 0, concurrency 24; one at a time without the local queue",
        killed="locks of a dead worker are freed by `forceUnlockWorkers` at the restart, as its documentation says; "
               "by themselves they end after 4 hours"),
    "restate": Peer(
        "Restate", on_restate, "restate.mjs", 1000, ways=("single",), latency_concurrency=1000, most_tasks=10_000, worker_first=True,
        beside="once-sqlite",
        version=lambda: f"restate-server {installed_version('@restatedev/restate-server')}, "
                        f"SDK {installed_version('@restatedev/restate-sdk')}",
        settings="server defaults (the log is fsynced); HTTP send with `idempotency-key`, 256 in flight; handlers "
                 "wait at a gate until all is sent; one at a time: one virtual object; latency: HTTP/1.1 calls",
        killed="server defaults: the invocation is retried"),
    "recipe": Peer(
        "JetStream + KV recipe", on_nats(""), durable=False, beside="once-nats", **RECIPE,
        settings="server defaults; Nats-Msg-Id, 1,024 in flight; work-queue stream; KV create, run, KV update with "
                 "revision, ack; 256 in flight, counted until the stream is drained"),
    "recipe-always": Peer(
        "JetStream + KV recipe always", on_nats(ALWAYS), most_tasks=20_000, beside="once-nats-always", **RECIPE,
        settings="`jetstream { sync_interval: always }`; otherwise the same"),
}
