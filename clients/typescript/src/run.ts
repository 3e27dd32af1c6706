// Runs the workers of a client, and ends them in order: drain, then ask to stop, then leave.
import { OnceError } from "./errors.js";
import { Heartbeats } from "./heartbeats.js";
import type { Registered } from "./once.js";
import type { Requester } from "./requester.js";
import { QueueWorker } from "./worker.js";

export interface RunOptions {
  /** Drains the workers, as SIGTERM does. */
  signal?: AbortSignal;
  /** Whether SIGTERM and SIGINT drain the workers; true without it. */
  handleSignals?: boolean;
  /** Milliseconds that running handlers get after the drain began; 30 s without it. */
  drain?: number;
  /** Milliseconds that handlers then get after their `signal` aborted; 5 s without it. */
  grace?: number;
}

const kSignals = ["SIGTERM", "SIGINT"];

export async function runWorkers(
  registered: Registered[],
  requester: Requester,
  log: (line: string) => void,
  options: RunOptions,
  onStop: (stop: () => void) => void,
): Promise<void> {
  const ending = new Ending(options);
  const heartbeats = new Heartbeats(requester.target, (error) => {
    log(`the thread that renews leases failed (${error.message}); the worker ends`);
    ending.drain();
  });
  const parts = { requester, heartbeats, log };
  ending.workers = registered.map(
    ({ queue, name, options: own, handler }) => new QueueWorker(queue, name, own, handler, parts),
  );
  onStop(() => ending.drain());
  ending.listen();
  try {
    await heartbeats.started;
    const all = ending.workers.map((worker) =>
      worker.run().catch((error: unknown) => {
        ending.drain();
        throw error;
      }),
    );
    await Promise.race([settled(all), ending.left]);
  } finally {
    ending.close();
    await heartbeats.end();
  }
}

/** Waits for all, and then throws the first failure. */
async function settled(all: Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(all);
  for (const result of results) if (result.status === "rejected") throw result.reason;
}

class Ending {
  workers: QueueWorker[] = [];
  /** Rejects when handlers did not end in time. */
  readonly left: Promise<never>;
  private fail!: (error: Error) => void;
  private draining = false;
  private interrupted = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly onSignal = () => (this.draining ? this.interrupt() : this.drain());
  private readonly onAbort = () => this.drain();

  constructor(private readonly options: RunOptions) {
    this.left = new Promise((_, reject) => (this.fail = reject));
    this.left.catch(() => {}); // nobody waits for it if the workers end first
  }

  listen(): void {
    const { signal, handleSignals = true } = this.options;
    if (signal?.aborted) this.drain();
    signal?.addEventListener("abort", this.onAbort);
    if (handleSignals) for (const name of kSignals) process.on(name, this.onSignal);
  }

  close(): void {
    clearTimeout(this.timer);
    this.options.signal?.removeEventListener("abort", this.onAbort);
    for (const name of kSignals) process.removeListener(name, this.onSignal);
  }

  drain(): void {
    if (this.draining) return;
    this.draining = true;
    for (const worker of this.workers) worker.drain();
    const limit = this.options.drain ?? 30_000;
    if (limit < 2 ** 31) this.timer = setTimeout(() => this.interrupt(), limit);
  }

  private interrupt(): void {
    if (this.interrupted) return;
    this.interrupted = true;
    clearTimeout(this.timer);
    for (const worker of this.workers) worker.interrupt("the worker ends");
    this.timer = setTimeout(() => this.leave(), this.options.grace ?? 5_000);
  }

  private leave(): void {
    const left = this.workers.flatMap((worker) => worker.leave("the worker has ended"));
    const message =
      `the worker ended while handlers ran (tasks ${left.join(", ")}); their outcome is not ` +
      "recorded: when their leases end, the in-doubt policy of the queue decides";
    this.fail(new OnceError(0, { code: "timed_out", message, in_doubt: true }));
  }
}
