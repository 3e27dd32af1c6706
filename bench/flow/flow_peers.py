"""Which peers run the workflow of three steps, and with which settings. Each peer has its durable setting. Servers,
versions and most settings are those of bench/compare."""
import dataclasses

import peers

_ONCE = ("256 threads start runs; one process has the runner (64 events at a time) and the worker of the steps "
         "(64 handlers, window 64)")


def _once(key, lease=""):
    peer = peers.PEERS[key]
    store = peer.settings.split(";")[0]
    return dataclasses.replace(
        peer, concurrency=64, ways=("bulk",), settings=f"{store}; {_ONCE}",
        killed=f"{lease}no window, in-doubt policy `retry` of the steps' queue, and again with `hold`")


_LEASE = f"lease {peers.LEASE_MS // 1000} s, "
PEERS = {
    "once-sqlite": _once("once-sqlite"),
    "once-nats": _once("once-nats", _LEASE),
    "once-nats-always": _once("once-nats-always", _LEASE),
    "restate": dataclasses.replace(
        peers.PEERS["restate"], program="restate-flow.mjs",
        settings="server defaults (the log is fsynced); a handler with three `ctx.run`; HTTP send with "
                 "`idempotency-key`, 256 in flight"),
    # Without ways: DBOS is a library, and the process that works also starts the runs.
    "dbos": peers.Peer(
        "DBOS, PostgreSQL", peers.PEERS["graphile"].server, "dbos-flow.mjs", 200, ways=(), beside="once-sqlite",
        version=lambda: f"@dbos-inc/dbos-sdk {peers.installed_version('@dbos-inc/dbos-sdk')}, {peers.postgresql_version()}",
        settings="PostgreSQL defaults (fsync on); a workflow with three `DBOS.runStep`; `DBOS.startWorkflow` with "
                 "`workflowID`, 200 in flight in the process that works; 10 connections (the default)",
        killed="`DBOS.launch` continues the workflows of the killed process"),
    "bullmq-always": dataclasses.replace(
        peers.PEERS["bullmq-always"], name="BullMQ flows, Redis always", program="bullmq-flow.mjs",
        settings="`appendonly yes`, `appendfsync always`; `FlowProducer.addBulk` 100 × 4 in flight; a chain of three "
                 "jobs, jobId is the run's id and the step; completed jobs are kept; concurrency 200"),
}
