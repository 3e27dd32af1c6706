// What the client's calls take and return. The server's JSON objects keep the server's names.
import type { CallLimits } from "./requester.js";
import type { Duration } from "./values.js";

export interface OnceOptions {
  /** `$ONCE_URL` or `http://127.0.0.1:7070` without it. `unix:PATH` is a Unix socket. */
  url?: string;
  /** Sent as `Authorization: Bearer`. `$ONCE_TOKEN` without it. */
  token?: string;
  /** Milliseconds after which a call gives up, over all of its tries; 60 s without it. */
  timeout?: number;
  /** Where the worker's warnings go; `console.error` without it. */
  log?: (line: string) => void;
}

export interface PublishOptions extends CallLimits {
  /** A task with this id is published once. Without it, the client makes a random id. */
  id?: string;
  headers?: Record<string, string>;
  /** The task starts this much later. */
  delay?: Duration;
  /** The task starts at this time. */
  at?: Date | string;
  /** The task must not start after this time. */
  expires?: Date | Duration;
}

export interface NewTask extends Omit<PublishOptions, "timeout" | "signal"> {
  topic: string;
  body?: unknown;
}

/** The task is on disk. */
export interface Receipt {
  id: string;
  sequence: number;
  /** The log already had this task. Also true if an answer was lost and this call was repeated. */
  duplicate: boolean;
  digest: string;
}

export type TaskState =
  | "scheduled"
  | "waiting"
  | "running"
  | "retrying"
  | "in_doubt"
  | "completed"
  | "dead"
  | "cancelled"
  | "duplicate";

export interface TaskResult {
  id: string;
  queue: string;
  state: TaskState;
  /** A JSON value; a Uint8Array if a program wrote bytes that are no JSON. */
  result: any;
  /** Why there is no result. */
  reason?: string;
}

export interface WaitOptions extends CallLimits {
  /** Without it, every queue that takes the task. */
  queue?: string;
}

export interface AttemptView {
  attempt: number;
  worker: string;
  token: number;
  started_at: string;
  ended_at: string | null;
  outcome: string;
  in_doubt: boolean;
  error: string | null;
}

export interface StepView {
  step: string;
  state: string;
  policy: string;
  runs: number;
  attempt: number;
  result?: any;
  error: string | null;
}

export interface QueueView {
  queue: string;
  key: string;
  state: TaskState;
  reason: string | null;
  attempts: AttemptView[];
  steps: StepView[];
  story: { what: string; at: string; by: string; why: string | null; step: string | null }[];
  result?: any;
  next: string;
}

/** A task as `once inspect --json` prints it. */
export interface TaskView {
  id: string;
  topic: string | null;
  sequence: number | null;
  published_at: string | null;
  body?: any;
  headers: Record<string, string> | null;
  duplicates: number;
  queues: QueueView[];
}

export interface TaskFilter {
  queue?: string;
  state?: TaskState;
  topic?: string;
  /** At most this many; all without it. */
  limit?: number;
}

export interface TaskItem {
  id: string;
  queue: string;
  key: string;
  sequence: number | null;
  topic: string | null;
  state: TaskState;
  attempts: number;
  error: string | null;
  since: string;
}

/** A person's decision. `who` and `why` become part of the task's story. */
export interface Decision extends CallLimits {
  who: string;
  why?: string;
  /** Needed if the task is in several queues. */
  queue?: string;
}

export interface Completion extends Decision {
  /** JSON. */
  result?: unknown;
  /** Of an in-doubt step. */
  step?: string;
}

export interface Decided {
  id: string;
  queue: string;
  outcome: string;
}

/** The fields of a queue in `once apply`. Durations are texts such as `"30s"`. */
export interface QueueFields {
  topic?: string;
  lease?: string;
  timeout?: string;
  attempts?: number;
  backoff?: string[];
  in_doubt?: "retry" | "hold" | "probe" | "steps";
  [field: string]: unknown;
}

export interface QueueInfo extends QueueFields {
  queue: string;
  paused: boolean;
}

export interface Status {
  queues: ({ queue: string; workers: number } & Record<TaskState, number>)[];
  unrouted: number;
}
