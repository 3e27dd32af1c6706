// One started claim: its lease, its steps over HTTP, and the task that its handler sees.
import { AttemptOver, OnceError, Stop } from "./errors.js";
import type { Beat } from "./heartbeat_thread.js";
import type { Heartbeats } from "./heartbeats.js";
import type { Answered, CallLimits, Requester } from "./requester.js";
import {
  type Begun,
  type StepContext,
  type StepOptions,
  type StepPolicy,
  type StepRecorder,
  Steps,
  type Task,
} from "./task.js";
import { decodeBody, decodeStep, now, wellFormed } from "./values.js";

export class Claim implements Task {
  readonly id: string;
  readonly topic: string;
  readonly queueKey: string;
  readonly sequence: number;
  readonly body: any;
  readonly headers: Readonly<Record<string, string>>;
  readonly attempt: number;
  readonly token: number;
  readonly inDoubt: boolean;
  readonly probing: boolean;
  private readonly ownKey: string;
  private readonly steps: Steps;
  private readonly stopping = new AbortController();
  private readonly over = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private settling = false;

  /** `started` is the server's answer to a start that was sent so that its lease ends at `end`. */
  constructor(
    readonly claim: string,
    readonly queue: string,
    started: any,
    private end: number,
    private readonly requester: Requester,
    private readonly heartbeats: Heartbeats,
  ) {
    this.id = started.id;
    this.topic = started.topic;
    this.queueKey = started.key;
    this.sequence = started.sequence;
    this.body = decodeBody(started, "body");
    this.headers = started.headers;
    this.attempt = started.attempt;
    this.token = started.token;
    this.inDoubt = started.in_doubt;
    this.probing = started.probing;
    this.ownKey = started.idempotency_key;
    this.steps = new Steps(
      (name, call, policy) => new HttpStep(this, name, call, policy),
      () => this.signal,
    );
    heartbeats.add(claim, end, (beat) => this.take(beat));
    this.watchLease();
  }

  get signal(): AbortSignal {
    return this.stopping.signal;
  }

  /** Why the attempt is over without a verdict, if it is. */
  get lost(): AttemptOver | undefined {
    return this.over.signal.aborted ? (this.over.signal.reason as AttemptOver) : undefined;
  }

  /** The lease ended by this clock. The server may still hold the task for this claim. */
  private get leaseEnded(): boolean {
    return this.lost?.message === kLeaseEnded;
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

  /** Ends the attempt: nothing more of it is recorded. */
  lose(why: string): AttemptOver {
    if (this.lost) return this.lost;
    const over = new AttemptOver(why);
    this.over.abort(over);
    this.stopping.abort(over);
    this.forget();
    return over;
  }

  askToStop(stop: Stop): void {
    this.stopping.abort(stop);
  }

  /** Throws if the lease has ended, by what is known here and now. */
  ensureHeld(): void {
    this.heartbeats.catchUp();
    if (!this.lost && now() >= this.end) this.lose(kLeaseEnded);
    if (this.lost) throw this.lost;
  }

  /** From now on the lease is renewed until forget(), but its end stops nothing: a settlement that
   * was sent in time must be repeated until it is answered. */
  beginSettling(): void {
    this.ensureHeld();
    this.settling = true;
    clearTimeout(this.timer);
  }

  forget(): void {
    clearTimeout(this.timer);
    this.heartbeats.remove(this.claim);
  }

  /** A request about this claim, repeated until it is answered or the claim is lost. */
  async post(path: string, body: object): Promise<Answered> {
    this.ensureHeld();
    const text = JSON.stringify(body);
    return this.send(path, text);
  }

  /** Records what happened. It is worth a late request: the server refuses what came too late. */
  async postLate(path: string, text: string): Promise<void> {
    try {
      this.ensureHeld();
      await this.send(path, text);
    } catch (error) {
      if (!this.leaseEnded) throw error;
      await this.send(path, text, { timeout: kLate });
      throw error;
    }
  }

  private async send(
    path: string,
    text: string,
    limits: CallLimits = { signal: this.over.signal },
  ): Promise<Answered> {
    try {
      return await this.requester.call(
        {
          method: "POST",
          path: `/v1/claims/${encodeURIComponent(this.claim)}${path}`,
          headers: { "Content-Type": "application/json" },
          body: () => text,
        },
        limits,
      );
    } catch (error) {
      if (this.lost) throw this.lost;
      if (error instanceof OnceError && error.code === "fenced") throw this.lose(error.message);
      throw error;
    }
  }

  private take(beat: Beat): void {
    if (this.settling || this.lost) return;
    if (beat.end !== undefined) {
      this.end = beat.end;
      this.watchLease();
    }
    if (beat.stop) this.askToStop(new Stop(beat.stop, kStopped[beat.stop]));
    if (beat.lost !== undefined) this.lose(beat.lost);
  }

  private watchLease(): void {
    clearTimeout(this.timer);
    // setTimeout takes at most 2^31 ms.
    const left = Math.min(Math.max(0, this.end - now()), 2 ** 31 - 1);
    this.timer = setTimeout(() => {
      this.heartbeats.catchUp();
      if (this.lost || this.settling) return;
      if (now() >= this.end) this.lose(kLeaseEnded);
      else this.watchLease();
    }, left);
  }
}

const kLate = 5_000;
const kStopped = {
  cancelled: "a person cancelled the task",
  overdue: "the queue's timeout has passed",
};
const kLeaseEnded = "the lease of the task ended, because the server did not renew it in time";

class HttpStep implements StepRecorder {
  private readonly path: string;

  constructor(
    private readonly claim: Claim,
    name: string,
    private readonly call: string,
    private readonly policy: StepPolicy | undefined,
  ) {
    this.path = `/steps/${encodeURIComponent(name)}`;
  }

  async begin(asked: boolean): Promise<Begun> {
    const { call, policy } = this;
    const body = { call, ...(policy && { in_doubt: policy }), ...(asked && { asked }) };
    const { json } = await this.claim.post(`${this.path}:begin`, body);
    return {
      outcome: json.outcome,
      key: json.idempotency_key,
      result: decodeStep(json, "result"),
    };
  }

  async end(json: string): Promise<void> {
    const text = `{"call":${JSON.stringify(this.call)},"result":${json}}`;
    await this.claim.postLate(`${this.path}:end`, text);
  }

  async fail(why: string): Promise<void> {
    await this.claim.post(`${this.path}:fail`, { call: this.call, why: wellFormed(why) });
  }

  async hold(why: string): Promise<void> {
    await this.claim.post(`${this.path}:hold`, { call: this.call, why: wellFormed(why) });
    this.claim.lose(`the task is held for a person: ${why}`);
  }

  close(): void {}
}
