// The client of `once serve`: publish, wait, look, decide, queues.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { invalidInput, OnceError } from "./errors.js";
import { type Answered, type Call, type CallLimits, Requester, sleep } from "./requester.js";
import { runWorkers, type RunOptions } from "./run.js";
import { targetOf } from "./transport.js";
import type * as T from "./types.js";
import { decodeBody, durationText, jsonText, momentText, now, timeText } from "./values.js";
import type { Handler, WorkerOptions } from "./worker.js";

const kDefaultUrl = "http://127.0.0.1:7070";
const kDefaultTimeout = 60_000;
const kLongestWait = 60_000; // of one request; the server allows 5 minutes
const kPage = 1000;
const kMostConcurrency = 1000;

export interface Registered {
  queue: string;
  name: string;
  options: WorkerOptions;
  handler: Handler;
}

export class Once {
  private readonly requester: Requester;
  private readonly timeout: number;
  private readonly log: (line: string) => void;
  private readonly workers: Registered[] = [];
  private stopping: (() => void) | undefined;

  constructor(options: T.OnceOptions = {}) {
    const { env } = process;
    // Inside `once work`, ONCE_TOKEN is the fencing token of a claim.
    const token = options.token ?? (env["ONCE_CLAIM"] ? undefined : env["ONCE_TOKEN"]);
    const url = options.url ?? (env["ONCE_URL"] || kDefaultUrl);
    this.requester = new Requester(targetOf(url, token || undefined));
    this.timeout = options.timeout ?? kDefaultTimeout;
    this.log = options.log ?? ((line) => console.error(`once: ${line}`));
  }

  // --- Publish

  /**
   * Publishes a task. The task is on disk when the promise resolves. A Uint8Array is published as
   * bytes, any other body as JSON. The call repeats its request until the server answers it, always
   * with the same id, so that the task is published once.
   */
  async publish(topic: string, body?: unknown, options: T.PublishOptions = {}): Promise<T.Receipt> {
    const { timeout, signal, ...rest } = options;
    const limits = { timeout, signal };
    if (options.headers) {
      const [only] = await this.publishMany([{ ...rest, topic, body }], limits);
      if (only instanceof OnceError || !only) throw only;
      return only;
    }
    const query = new URLSearchParams({ id: options.id ?? randomUUID() });
    if (options.delay !== undefined) query.set("delay", durationText(options.delay, "delay"));
    if (options.at !== undefined) query.set("at", timeText(options.at, "at"));
    if (options.expires !== undefined) query.set("expires", momentText(options.expires, "expires"));
    const bytes = body instanceof Uint8Array;
    const content = bytes ? body : jsonText(body, "the body");
    const answer = await this.call(
      {
        method: "POST",
        path: `/v1/topics/${encodeURIComponent(topic)}?${query}`,
        headers: {
          "Content-Type": bytes ? "application/octet-stream" : "application/json",
          "Once-Try": randomUUID(),
        },
        body: () => content,
      },
      limits,
    );
    return answer.json;
  }

  /** Publishes many tasks. A refused task has its error in its place, and fails no other task. */
  async publishMany(
    tasks: Iterable<T.NewTask>,
    limits: CallLimits = {},
  ): Promise<(T.Receipt | OnceError)[]> {
    const deadline = now() + (limits.timeout ?? this.timeout);
    const lines = [...tasks].map(lineOf);
    const receipts: (T.Receipt | OnceError)[] = [];
    while (receipts.length < lines.length) {
      const open = lines.slice(receipts.length);
      receipts.push(...(await this.publishLines(open.slice(0, openingOf(open)), deadline, limits)));
    }
    return receipts;
  }

  /** Lines that the store did not take for now are sent again, with the same ids. */
  private async publishLines(
    lines: string[],
    deadline: number,
    { signal }: CallLimits,
  ): Promise<(T.Receipt | OnceError)[]> {
    const receipts: (T.Receipt | OnceError)[] = [];
    const nonce = randomUUID();
    let open = lines.map((line, place) => ({ line, place }));
    for (let pause = 100; open.length > 0; pause = Math.min(pause * 2, 5_000)) {
      const text = open.map(({ line }) => line).join("\n");
      const headers = { "Content-Type": "application/x-ndjson", "Once-Try": nonce };
      const call = {
        method: "POST",
        path: "/v1/tasks:batch",
        headers,
        body: () => text,
        lines: open.length,
      };
      const answer = await this.call(call, { timeout: deadline - now(), signal });
      const said: any[] = answer.json;
      const late = now() + pause >= deadline;
      open = open.filter(({ place }, i) => {
        const { line, ...receipt } = said[i];
        receipts[place] = receipt.error ? new OnceError(answer.status, receipt) : receipt;
        return !late && (receipt.retryable || receipt.in_doubt);
      });
      if (open.length > 0) await sleep(pause * (0.5 + Math.random() / 2), signal);
    }
    return receipts;
  }

  // --- Wait and look

  /**
   * Waits until the task is settled or in doubt in `queue`, and returns its outcome. Without
   * `queue`, waits for every queue that takes the task, and returns the first outcome. Throws
   * `timed_out` after `timeout` milliseconds.
   */
  async wait(id: string, options: T.WaitOptions = {}): Promise<T.TaskResult> {
    return (await this.waitAll(id, options))[0] as T.TaskResult;
  }

  /** As `wait()`, with the outcome of each queue. */
  async waitAll(id: string, options: T.WaitOptions = {}): Promise<T.TaskResult[]> {
    const { queue, timeout = Infinity, signal } = options;
    const deadline = now() + timeout;
    for (;;) {
      const left = Math.max(0, deadline - now());
      const wait = Math.min(left, kLongestWait);
      const query = new URLSearchParams({ wait: `${Math.round(wait)}ms` });
      if (queue !== undefined) query.set("queue", queue);
      const path = `/v1/tasks/${encodeURIComponent(id)}/result?${query}`;
      const limits = { timeout: timeout === Infinity ? Infinity : left + this.timeout, signal };
      const { json } = await this.call({ method: "GET", path, wait }, limits);
      if (json.settled)
        return json.results.map((each: any) => decoded(each, "result") as T.TaskResult);
      if (now() >= deadline)
        throw new OnceError(0, {
          code: "timed_out",
          message: `task ${id} is not settled after ${timeout} ms; nothing was changed`,
          retryable: true,
        });
    }
  }

  /** Everything that is known of a task. */
  async task(id: string, limits: CallLimits = {}): Promise<T.TaskView> {
    const view = await this.get(`/v1/tasks/${encodeURIComponent(id)}`, limits);
    for (const queue of view.queues) {
      decoded(queue, "result");
      for (const step of queue.steps) decoded(step, "result");
    }
    return decoded(view, "body") as T.TaskView;
  }

  /** The tasks that fit, page by page: `for await (const task of once.tasks({state: "dead"}))`. */
  async *tasks(
    filter: T.TaskFilter = {},
    limits: CallLimits = {},
  ): AsyncGenerator<T.TaskItem, void, undefined> {
    let left = filter.limit ?? Infinity;
    let after: string | null = null;
    while (left > 0) {
      const query = new URLSearchParams({ limit: String(Math.min(left, kPage)) });
      for (const name of ["queue", "state", "topic"] as const)
        if (filter[name] !== undefined) query.set(name, filter[name] as string);
      if (after !== null) query.set("after", after);
      const page: { tasks: T.TaskItem[]; after: string | null } = await this.get(
        `/v1/tasks?${query}`,
        limits,
      );
      yield* page.tasks;
      left -= page.tasks.length;
      after = page.after;
      if (after === null) return;
    }
  }

  status(limits: CallLimits = {}): Promise<T.Status> {
    return this.get("/v1/status", limits);
  }

  // --- Decide

  /** Cancels a task that is not settled. `outcome` is `asked_to_stop` if it runs. */
  cancel(id: string, decision: T.Decision): Promise<T.Decided> {
    return this.decide(id, "cancel", decision);
  }

  /**
   * Runs a dead or in-doubt task again. This call is not repeated if its answer is lost, because a
   * second retry could run the task twice. It then throws with `inDoubt`: look at the task.
   */
  retry(id: string, decision: T.Decision): Promise<T.Decided> {
    return this.decide(id, "retry", decision);
  }

  /** Resolves an in-doubt task, or its in-doubt step, as "it happened". */
  complete(id: string, decision: T.Completion): Promise<T.Decided> {
    return this.decide(id, "complete", decision);
  }

  /** Gives up a dead or in-doubt task. */
  drop(id: string, decision: T.Decision): Promise<T.Decided> {
    return this.decide(id, "drop", decision);
  }

  private async decide(id: string, act: string, decision: T.Completion): Promise<T.Decided> {
    const { timeout, signal, ...fields } = decision;
    const path = `/v1/tasks/${encodeURIComponent(id)}:${act}`;
    const call = { ...jsonCall("POST", path, fields), repeatable: act !== "retry" };
    return (await this.call(call, { timeout, signal })).json;
  }

  // --- Queues

  /** Makes a queue. `added` is false if it exists with the same definition. */
  async putQueue(
    name: string,
    fields: T.QueueFields,
    limits: CallLimits = {},
  ): Promise<T.QueueInfo & { added: boolean }> {
    return (await this.call(jsonCall("PUT", queuePath(name), fields), limits)).json;
  }

  queue(name: string, limits: CallLimits = {}): Promise<T.QueueInfo> {
    return this.get(queuePath(name), limits);
  }

  async queues(limits: CallLimits = {}): Promise<T.QueueInfo[]> {
    return (await this.get("/v1/queues", limits)).queues;
  }

  async patchQueue(
    name: string,
    fields: T.QueueFields,
    limits: CallLimits = {},
  ): Promise<T.QueueInfo & { changed: boolean }> {
    return (await this.call(jsonCall("PATCH", queuePath(name), fields), limits)).json;
  }

  async pauseQueue(name: string, limits: CallLimits = {}): Promise<void> {
    await this.call({ method: "POST", path: `${queuePath(name)}:pause` }, limits);
  }

  async resumeQueue(name: string, limits: CallLimits = {}): Promise<void> {
    await this.call({ method: "POST", path: `${queuePath(name)}:resume` }, limits);
  }

  /** Removes a queue. A queue with unsettled, dead or in-doubt tasks is refused without `force`. */
  async removeQueue(name: string, options: CallLimits & { force?: boolean } = {}): Promise<void> {
    const { force = false, ...limits } = options;
    let repeated = false;
    const path = `${queuePath(name)}${force ? "?force=true" : ""}`;
    try {
      const onTry = (sentNothing: boolean) => void (repeated ||= !sentNothing);
      await this.call({ method: "DELETE", path, onTry }, limits);
    } catch (error) {
      // An earlier try has removed it, and its answer was lost.
      if (!(repeated && error instanceof OnceError && error.code === "not_found")) throw error;
    }
  }

  // --- Work

  /** Registers a handler for the tasks of a queue. `run()` starts it. */
  worker<Body = any>(queue: string, handler: Handler<Body>): void;
  worker<Body = any>(queue: string, options: WorkerOptions<Body>, handler: Handler<Body>): void;
  worker(queue: string, first: WorkerOptions | Handler, second?: Handler): void {
    const handler = typeof first === "function" ? first : second;
    const options = typeof first === "function" ? {} : first;
    const { concurrency = 1, name = `${hostname()}:${process.pid}` } = options;
    if (typeof handler !== "function") throw invalidInput("a worker needs a handler function");
    if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > kMostConcurrency)
      throw invalidInput(`"concurrency" takes a whole number from 1 to ${kMostConcurrency}`);
    this.workers.push({ queue, name, options, handler });
  }

  /**
   * Runs the workers until SIGTERM, SIGINT, `signal` or `stop()`, and then until their handlers
   * have ended. Rejects if a queue cannot be worked on.
   */
  async run(options: RunOptions = {}): Promise<void> {
    if (this.workers.length === 0) throw invalidInput("run() needs a worker: call worker() first");
    if (this.stopping) throw invalidInput("the workers of this client run already");
    try {
      await runWorkers(this.workers, this.requester, this.log, options, (stop) => {
        this.stopping = stop;
      });
    } finally {
      this.stopping = undefined;
    }
  }

  /** Ends `run()`: no new tasks, and the running handlers finish. */
  stop(): void {
    this.stopping?.();
  }

  // --- Requests

  private async get(path: string, limits: CallLimits): Promise<any> {
    return (await this.call({ method: "GET", path }, limits)).json;
  }

  private call(call: Call, limits: CallLimits): Promise<Answered> {
    const { timeout = this.timeout, signal } = limits;
    return this.requester.call(call, { timeout, signal });
  }
}

function jsonCall(method: string, path: string, fields: object): Call {
  const text = jsonText(fields, "the request");
  return { method, path, headers: { "Content-Type": "application/json" }, body: () => text };
}

function queuePath(name: string): string {
  return `/v1/queues/${encodeURIComponent(name)}`;
}

const kBatchLines = 1000;
const kBatchBytes = 8 << 20; // of 16 MiB that one request may have

/** How many of the lines go into the next request. */
function openingOf(lines: string[]): number {
  let bytes = 0;
  let count = 0;
  for (const line of lines) {
    bytes += Buffer.from(line, "utf8").length + 1;
    if (count > 0 && (bytes > kBatchBytes || count === kBatchLines)) break;
    ++count;
  }
  return count;
}

function lineOf(task: T.NewTask): string {
  const { topic, body, id = randomUUID(), headers, delay, at, expires } = task;
  const fields = {
    topic,
    id,
    ...(headers && { headers }),
    ...(delay !== undefined && { delay: durationText(delay, "delay") }),
    ...(at !== undefined && { at: timeText(at, "at") }),
    ...(expires !== undefined && { expires: momentText(expires, "expires") }),
  };
  const content =
    body instanceof Uint8Array
      ? `"raw":"${Buffer.from(body).toString("base64")}"`
      : `"body":${jsonText(body, "the body")}`;
  return `${JSON.stringify(fields).slice(0, -1)},${content}}`;
}

/** The object with its body or result as a value. */
function decoded(fields: any, name: string): any {
  if (name in fields || "raw" in fields) fields[name] = decodeBody(fields, name);
  delete fields.raw;
  delete fields.text;
  return fields;
}
