// The task of a program that `once work -- node agent.js` runs. There is no server then. Steps go
// to the worker over its socket, and the worker renews the lease.
import { readFileSync, writeFileSync } from "node:fs";
import { Dead, invalidInput, Stop, Unknown } from "./errors.js";
import { running } from "./running.js";
import { SocketStep } from "./step_socket.js";
import { type StepContext, type StepOptions, Steps, type Task, whyOf } from "./task.js";
import { decodeBody, jsonText } from "./values.js";

// The exit statuses that `once work` reads as verdicts.
const kDead = 65;
const kUnknown = 74;
const kFailed = 1;

/**
 * The task that runs now: inside the handler of a worker, that handler's task. In a program that
 * `once work` runs, the program's task. Otherwise undefined.
 */
export function currentTask<Body = any>(): Task<Body> | undefined {
  const task = running.getStore();
  if (task) return task;
  if (!process.env["ONCE_CLAIM"] || !process.env["ONCE_TASK_FILE"]) return undefined;
  return (program ??= new ProgramTask(process.env));
}

/**
 * Runs `handler` for the task of a program that `once work` runs. Writes its result, and sets the
 * exit status to the verdict. `retryIn` of `Fail` has no effect there.
 */
export async function runCurrentTask<Body = any>(
  handler: (task: Task<Body>) => unknown,
): Promise<void> {
  const task = currentTask<Body>();
  if (!task) throw invalidInput("there is no current task: `once work -- node PROGRAM` gives one");
  try {
    const result = await running.run(task, async () => handler(task));
    if (result !== undefined) writeResult(jsonText(result, "the handler ran, but its result"));
  } catch (error) {
    console.error(whyOf(error));
    process.exitCode = statusOf(error);
  }
}

function statusOf(error: unknown): number {
  if (error instanceof Dead) return kDead;
  return error instanceof Unknown ? kUnknown : kFailed;
}

function writeResult(json: string): void {
  const file = process.env["ONCE_RESULT"];
  if (file) writeFileSync(file, json);
  else process.stdout.write(json);
}

let program: ProgramTask | undefined;

class ProgramTask implements Task {
  readonly id: string;
  readonly topic: string;
  readonly queueKey: string;
  readonly queue: string;
  readonly sequence: number;
  readonly body: any;
  readonly headers: Readonly<Record<string, string>>;
  readonly attempt: number;
  readonly token: number;
  readonly inDoubt: boolean;
  private readonly ownKey: string;
  private readonly steps: Steps;
  private stopping: AbortController | undefined;

  constructor(env: Record<string, string | undefined>) {
    const value = (name: string) => env[name] ?? "";
    this.id = value("ONCE_ID");
    this.topic = value("ONCE_TOPIC");
    this.queueKey = value("ONCE_KEY");
    this.queue = value("ONCE_QUEUE");
    this.sequence = Number(value("ONCE_SEQUENCE"));
    this.attempt = Number(value("ONCE_ATTEMPT"));
    this.token = Number(value("ONCE_TOKEN"));
    this.inDoubt = value("ONCE_IN_DOUBT") === "1";
    this.ownKey = value("ONCE_IDEMPOTENCY_KEY");
    const fields = JSON.parse(readFileSync(value("ONCE_TASK_FILE"), "utf8"));
    this.body = decodeBody(fields, "body");
    this.headers = fields.headers;
    const socket = value("ONCE_SOCKET");
    this.steps = new Steps(
      (name, _, policy) => {
        if (socket) return new SocketStep(socket, name, policy);
        throw invalidInput(`a probe has no steps; step "${name}" was not run`);
      },
      () => this.signal,
    );
  }

  /** Aborts on SIGTERM. Reading it the first time takes SIGTERM over from Node. */
  get signal(): AbortSignal {
    if (!this.stopping) {
      const stopping = new AbortController();
      process.once("SIGTERM", () =>
        stopping.abort(new Stop("worker_ends", "the worker ends this program")),
      );
      this.stopping = stopping;
    }
    return this.stopping.signal;
  }

  key(step?: string): string {
    return step === undefined || step === "" ? this.ownKey : this.steps.key(step);
  }

  step<T>(
    name: string,
    fn: (step: StepContext) => T | Promise<T>,
    options: StepOptions<T> = {},
  ): Promise<T> {
    return this.steps.run(name, fn, options);
  }
}
