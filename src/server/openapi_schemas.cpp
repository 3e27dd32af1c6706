// The shapes of bodies. src/shapes writes them, and docs/json.md lists their fields.
#include "server/openapi.h"

namespace once::server {
namespace {

constexpr NamedSchema kSchemas[] = {
    {"Problem",
     "{type: string, title: string, status: integer, detail: string, code: string, ...ErrorFacts}"},
    {"ErrorFacts",
     "{retryable: boolean, in_doubt: boolean, reason?: string, facts?: {*: string}, id?: string, "
     "run?: string, key?: string, sequence?: integer, digest?: string, given_digest?: string, "
     "differs?: string[] | null}"},
    {"State",
     "'scheduled' | 'waiting' | 'running' | 'retrying' | 'in_doubt' | 'completed' | 'dead' | "
     "'cancelled' | 'duplicate'"},

    // Tasks
    {"Receipt", "{id: string, sequence: integer, duplicate: boolean, digest: string}"},
    {"BatchAnswer",
     "{line: integer, sequence?: integer, duplicate?: boolean, error?: string, message?: string, "
     "retryable?: boolean, in_doubt?: boolean, reason?: string, facts?: {*: string}, id?: string, "
     "run?: string, key?: string, digest?: string, given_digest?: string, differs?: string[] | "
     "null}"},
    {"BatchLine",
     "{topic: string, id?: string, body?: any, text?: boolean, raw?: string, headers?: {*: "
     "string}, delay?: string, at?: string, expires?: string}"},
    {"Body", "{body?: any, text?: true, raw?: string}"},
    {"ResultOf", "{result?: any, text?: true, raw?: string}"},
    {"Task",
     "{id: string, topic: string | null, sequence: integer | null, digest: string | null, "
     "published_at: time | null, not_before?: time, expires?: time, ...Body, retired?: true, "
     "headers: {*: string} | null, run?: string, step?: string, duplicates: integer, queues: "
     "TaskInQueue[]}"},
    {"TaskInQueue",
     "{queue: string, key: string, state: State, reason: string | null, claims: integer, attempts: "
     "Attempt[], "
     "steps: Step[], story: Action[], ...ResultOf, result_cut?: true, next: string}"},
    {"Attempt",
     "{attempt: integer, worker: string, token: integer, started_at: time, ended_at: time | null, "
     "outcome: 'running' | 'completed' | 'failed' | 'dead' | 'lost' | 'timed_out' | 'unknown' | "
     "'interrupted' | 'released', in_doubt: boolean, error: string | null, stderr: string | null}"},
    {"Step",
     "{step: string, state: string, policy: 'retry' | 'hold' | 'probe', runs: integer, attempt: "
     "integer, started_at: time, ended_at: time | null, ...ResultOf, result_cut: boolean, "
     "failed_attempt: integer, error: string | null}"},
    {"Action", "{what: string, at: time, by: string, why: string | null, step: string | null}"},
    {"ListedTask",
     "{id: string, queue: string, key: string, sequence: integer | null, topic: string | null, "
     "state: State, attempts: integer, error: string | null, since: time, not_before?: time, "
     "expires?: time}"},
    {"TaskList", "{tasks: ListedTask[], after: string | null}"},
    {"LogEntry",
     "{sequence: integer, id: string, topic: string, ...Body, retired?: true, headers: {*: "
     "string}, published_at: time, digest: string, not_before?: time, expires?: time}"},
    {"Log", "{entries: LogEntry[], after: integer | null}"},
    {"TaskResult", "{id: string, queue: string, state: State, ...ResultOf, reason?: string}"},
    {"TaskResults", "{id: string, settled: boolean, results: TaskResult[]}"},
    {"Decision", "{...Person, queue?: string, claims?: integer}"},
    {"Decided", "{id: string, queue: string, outcome: string, dry_run?: true}"},
    {"ActsByFilter",
     "{...Person, act: 'cancel' | 'retry' | 'complete' | 'drop', queue?: string, topic?: string, "
     "state?: State, error?: string, since?: string, older_than?: string, all?: boolean, result?: "
     "any, dry_run?: boolean, limit?: integer, after?: string}"},
    {"ActError", "{id: string, queue: string, error: string, message: string, ...ErrorFacts}"},
    {"Acted", "{tasks: (Decided | ActError)[], after: string | null}"},

    // Ledger-only queues
    {"KeyClaim", "{nonce: string, worker?: string, lease?: string}"},
    {"KeyClaimed",
     "{outcome: 'claimed' | 'completed' | 'held' | 'not_due' | 'dead' | 'in_doubt' | 'cancelled', "
     "queue: string, key: string, token?: integer, attempt?: integer, in_doubt?: boolean, lease?: "
     "string, ...ResultOf, until?: time, reason?: string | null}"},
    {"KeySettled", "{outcome: string, queue: string, key: string, state: State}"},

    // Queues
    {"ChangeableQueueFields",
     "{lease?: string, timeout?: string, attempts?: integer, backoff?: string "
     "| string[], in_doubt?: 'retry' | 'steps' | 'probe' | 'hold', max_running?: integer, "
     "max_result?: string, window?: integer, same_key?: 'duplicate' | 'ignore'}"},
    {"QueueFields",
     "{topic?: string, key?: string, from?: string | integer, stream?: string, ledger?: boolean, "
     "...ChangeableQueueFields}"},
    {"Queue",
     "{queue: string, topic: string | null, key: string | null, key_format: string | null, lease: "
     "string, timeout: string | null, attempts: integer, backoff: string[], in_doubt: 'retry' | "
     "'steps' | 'probe' | 'hold', max_running: integer | null, max_result: integer, window: "
     "integer, same_key: 'duplicate' | 'ignore', from: integer | null, paused: boolean, ledger: "
     "boolean, stream: string | null}"},
    {"QueueList", "{queues: Queue[]}"},
    {"QueueAdded", "{...Queue, added: boolean, found: integer}"},
    {"QueueChanged", "{...Queue, changed: boolean}"},
    {"QueueRemoved", "{queue: string, removed: boolean}"},
    {"QueuePaused", "{queue: string, paused: boolean}"},

    // The zone
    {"QueueStatus",
     "{queue: string, topic: string | null, scheduled: integer, waiting: integer, running: "
     "integer, retrying: integer, in_doubt: integer, completed: integer, dead: integer, cancelled: "
     "integer, duplicate: integer, workers: integer, oldest_waiting_s: integer | null, "
     "oldest_in_doubt_s: integer | null, paused: boolean}"},
    {"Status", "{queues: QueueStatus[], unrouted: integer}"},
    {"Retention", "{bodies: string, records: string, ids: string}"},
    {"AuditLine",
     "{period: string, queue: string | null, published: integer, scheduled: integer, waiting: "
     "integer, running: integer, retrying: integer, in_doubt: integer, completed: integer, dead: "
     "integer, cancelled: integer, duplicate: integer, duplicates_at_append: integer, "
     "duplicates_by_ledger: integer, attempts: integer, reruns: integer, rerun_reasons: {*: "
     "integer}, completed_twice: integer, net_duplication_rate: number, cost_prevented: number | "
     "null}"},
    {"Discrepancy",
     "{kind: 'missing' | 'overlooked' | 'stray' | 'inconsistent' | 'damaged', queue: string | "
     "null, "
     "sequence: integer | null, task: string | null, what: string, harm: string | null}"},
    {"Audit", "{lines: AuditLine[], discrepancies: Discrepancy[], unlisted?: integer}"},
    {"Finding",
     "{finding: string, severity: 'hazard' | 'warning' | 'unknown' | 'note', about: string, what: "
     "string, harm: string, fix: string}"},
    {"Diagnosis", "{findings: Finding[], checked: string[], window: string}"},

    // Workflows
    {"Flow",
     "{workflow: string, version: integer, steps: integer, idempotency_key: string | null, "
     "key_format: string | null}"},
    {"FlowList", "{flows: Flow[]}"},
    {"FlowAdded", "{workflow: string, version: integer, added: boolean, steps: integer}"},
    {"RunStarted", "{run: string, duplicate: boolean, version: integer}"},
    {"RunState", "'running' | 'waiting' | 'completed' | 'failed' | 'cancelled' | 'unreadable'"},
    {"RunHead",
     "{run: string, workflow: string, version: integer, state: RunState, steps_done: integer, "
     "started_at: time, ended_at: time | null, waits_for: string | null, error: string | null, "
     "key: "
     "string | null}"},
    {"ListedRun", "{...RunHead, steps: integer}"},
    {"RunList", "{runs: ListedRun[], after: string | null}"},
    {"Run",
     "{...RunHead, round: integer, closed: boolean, sequence: integer, input?: any, output?: any, "
     "text?: true, raw?: string, steps: RunStep[]}"},
    {"RunStep",
     "{step: string, kind: string, state: string, attempts: integer, task: string | null, queue: "
     "string | null, output?: any, text?: true, raw?: string, error: string | null, why: string | "
     "null, sequence: integer | null, at: time | null, until: time | null}"},
    {"RunEvent",
     "{sequence: integer, at: time, event: string, id: string, step: string | null, signal: string "
     "| null, n: integer, outcome: string | null, value?: any, text?: true, raw?: string, error: "
     "string | null, by: string | null, why: string | null}"},
    {"RunEvents", "{events: RunEvent[]}"},
    {"FirstSignal", "{id: string, sequence: integer, at: time, by: string | null}"},
    {"SignalSent",
     "{run: string, signal: string, id: string, result: 'counts' | 'another_counts', duplicate: "
     "boolean, sequence: integer | null, counts: string, first: FirstSignal}"},
    {"Person", "{who: string, why?: string}"},
    {"StepDecided",
     "{run: string, step: string, outcome: 'approved' | 'rejected', duplicate: boolean, by: string "
     "| null, at: time, sequence: integer}"},
    {"RunCancelled", "{run: string, outcome: 'cancelled' | 'closed' | 'asked'}"},
    {"RunRetried", "{run: string, round: integer, steps: string[]}"},

    // Claims
    {"Poll",
     "{worker: string, max?: integer, wait?: string, can_probe?: boolean, start?: boolean}"},
    {"Offer", "{claim: string, id: string, key: string, lease_ms: integer}"},
    {"Offers", "{claims: (Offer | StartedClaim)[]}"},
    {"Claims", "{claims: string[]}"},
    {"ClaimError", "{claim: string, error: string, message: string, ...ErrorFacts}"},
    {"StartedClaim",
     "{claim: string, id: string, topic: string, key: string, sequence: integer, token: integer, "
     "attempt: integer, in_doubt: boolean, probing: boolean, lease_ms: integer, idempotency_key: "
     "string, ...Body, headers: {*: string}, not_before?: time, expires?: time, steps: Step[]}"},
    {"StartedClaims", "{claims: (StartedClaim | ClaimError)[]}"},
    {"RenewedClaim",
     "{claim: string, outcome: 'renewed' | 'asked_to_stop' | 'overdue', lease_ms: integer}"},
    {"RenewedClaims", "{claims: (RenewedClaim | ClaimError)[]}"},
    {"Verdict", "{result?: any, why?: string, retry_in?: string}"},
    {"Settlement",
     "{claim: string, outcome: 'completed' | 'failed' | 'dead' | 'unknown' | 'released' | "
     "'happened' | 'did_not_happen' | 'probe_unknown', ...Verdict}"},
    {"Settlements",
     "{claims: Settlement[], next?: integer, worker?: string, can_probe?: boolean, start?: "
     "boolean}"},
    {"SettledClaim", "{claim: string, state: State}"},
    {"SettledClaims", "{claims: (SettledClaim | ClaimError)[], next: (Offer | StartedClaim)[]}"},
    {"StepBegun", "{outcome: 'run' | 'remembered' | 'ask', idempotency_key: string, ...ResultOf}"},
    {"Recorded", "{recorded: true}"},
};

}  // namespace

std::span<const NamedSchema> named_schemas() { return kSchemas; }

}  // namespace once::server
