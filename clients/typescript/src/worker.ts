// Runs the tasks of one queue: polls for offers, starts what a free handler runs next, settles.
import { Claim } from "./claim.js";
import { AttemptOver, Dead, Fail, OnceError, type Problem, Stop, Unknown } from "./errors.js";
import type { Heartbeats } from "./heartbeats.js";
import { type Requester, sleep } from "./requester.js";
import { running } from "./running.js";
import { type Answer, Happened, happenedOf, type Task, whyOf } from "./task.js";
import { durationText, jsonText, now, wellFormed } from "./values.js";

export interface WorkerOptions<Body = any> {
  /** How many tasks run at the same time; 1 without it. */
  concurrency?: number;
  /** Says whether a task that is in doubt happened. For queues with the in-doubt policy `probe`. */
  probe?: (task: Task<Body>) => Answer<unknown> | Promise<Answer<unknown>>;
  /** The worker's name in the story of a task; host and process id without it. */
  name?: string;
  /** Milliseconds of one long poll; 20 s without it. */
  poll?: number;
}

export type Handler<Body = any> = (task: Task<Body>) => unknown;

export interface WorkerParts {
  requester: Requester;
  heartbeats: Heartbeats;
  log: (line: string) => void;
}

interface Offer {
  claim: string;
  id: string;
}

/** A verdict as the fields of a settlement. `result` is JSON text. */
interface Verdict {
  outcome: string;
  result?: string;
  why?: string;
  retryIn?: string;
}

const kQuickPoll = 100;

export class QueueWorker {
  private free: number;
  private draining = false;
  private failure: unknown;
  private readonly active = new Set<Promise<void>>();
  private readonly claims = new Set<Claim>();
  private readonly polling = new AbortController();
  /** Aborts the requests of a worker that gives its tasks up. */
  private readonly leaving = new AbortController();
  private wake: () => void = () => {};
  private away = false;

  constructor(
    readonly queue: string,
    private readonly name: string,
    private readonly options: WorkerOptions,
    private readonly handler: Handler,
    private readonly parts: WorkerParts,
  ) {
    this.free = options.concurrency ?? 1;
  }

  /** Runs until drain(), and then until the handlers have ended. Throws if a poll is refused. */
  async run(): Promise<void> {
    while (!this.draining) {
      if (this.free === 0) await new Promise<void>((resolve) => (this.wake = resolve));
      else await this.fill();
    }
    while (this.active.size > 0) await Promise.all(this.active);
    if (this.failure !== undefined) throw this.failure;
  }

  /** Takes no new tasks. */
  drain(): void {
    this.draining = true;
    this.polling.abort();
    this.wake();
  }

  /** Asks the handlers to stop. */
  interrupt(why: string): void {
    for (const claim of this.claims) claim.askToStop(new Stop("worker_ends", why));
  }

  /** Gives up the handlers that still run, and returns the ids of their tasks. */
  leave(why: string): string[] {
    const left = [...this.claims].map((claim) => claim.id);
    for (const claim of this.claims) claim.lose(why);
    this.leaving.abort();
    return left;
  }

  private get offerFields(): object {
    return { worker: this.name, ...(this.options.probe && { can_probe: true }) };
  }

  private async fill(): Promise<void> {
    const wanted = this.free;
    this.free = 0; // kept for the answer of the poll
    let offers: Offer[] = [];
    try {
      offers = await this.poll(wanted);
    } catch (error) {
      if (!this.draining) {
        this.failure = error;
        this.drain();
      }
    }
    this.free += wanted - offers.length;
    for (const offer of offers) this.occupy(offer);
  }

  private async poll(max: number): Promise<Offer[]> {
    const wait = this.options.poll ?? 20_000;
    const sent = now();
    const text = JSON.stringify({ ...this.offerFields, max, wait: durationText(wait, "poll") });
    const { json } = await this.parts.requester.call(
      {
        method: "POST",
        path: `/v1/queues/${encodeURIComponent(this.queue)}/claims`,
        headers: { "Content-Type": "application/json" },
        body: () => text,
        wait,
        onTry: (_, why) => this.sayAway(why),
      },
      { signal: this.polling.signal },
    );
    if (this.away) this.parts.log(`worker of ${this.queue}: the server answers again`);
    this.away = false;
    const offers = json.claims as Offer[];
    // A server that ends answers long polls at once.
    if (offers.length === 0 && now() - sent < Math.min(wait, kQuickPoll)) await sleep(kQuickPoll);
    return offers;
  }

  private sayAway(why: string): void {
    if (!this.away) this.parts.log(`worker of ${this.queue}: ${why}; the worker tries again`);
    this.away = true;
  }

  private occupy(offer: Offer): void {
    const done = this.runAll(offer).finally(() => {
      this.active.delete(done);
      ++this.free;
      this.wake();
    });
    this.active.add(done);
  }

  /** Runs the offer, and then what each settlement offers next. Never throws. */
  private async runAll(first: Offer): Promise<void> {
    let offer: Offer | undefined = first;
    while (offer && !this.draining) {
      try {
        offer = await this.runOffer(offer);
      } catch (error) {
        this.parts.log(`task ${offer?.id} of ${this.queue}: ${whyOf(error)}`);
        offer = undefined;
      }
    }
    if (offer) await this.release(offer);
  }

  private async release(offer: Offer): Promise<void> {
    try {
      const path = `/v1/claims/${encodeURIComponent(offer.claim)}:release`;
      const limits = { timeout: 5_000, signal: this.leaving.signal };
      await this.parts.requester.call({ method: "POST", path }, limits);
    } catch {
      // The offer ends by itself.
    }
  }

  private async runOffer(offer: Offer): Promise<Offer | undefined> {
    const claim = await this.start(offer);
    if (!claim) return undefined;
    this.claims.add(claim);
    try {
      if (claim.probing) {
        const verdict = await this.probe(claim);
        if (verdict.outcome !== "did_not_happen") return await this.settle(claim, verdict);
        await this.settle(claim, verdict, false);
        if (claim.lost) return undefined;
      }
      return await this.settle(claim, await this.handle(claim));
    } catch (error) {
      if (!(error instanceof AttemptOver)) throw error;
      const { id, attempt } = claim;
      this.parts.log(`task ${id} attempt ${attempt}: nothing was recorded: ${error.message}`);
      return undefined;
    } finally {
      claim.forget();
      this.claims.delete(claim);
    }
  }

  /** Nothing if the offer has ended. A drain does not end this call: the task may have started. */
  private async start(offer: Offer): Promise<Claim | undefined> {
    const { requester, heartbeats } = this.parts;
    const text = JSON.stringify({ claims: [offer.claim] });
    let sent = 0;
    try {
      const { json } = await requester.call(
        {
          method: "POST",
          path: "/v1/claims:start",
          headers: { "Content-Type": "application/json" },
          body: () => {
            sent = now();
            return text;
          },
          problemIn: firstError,
        },
        { signal: this.leaving.signal },
      );
      const started = json.claims[0];
      const end = sent + started.lease_ms;
      return new Claim(offer.claim, this.queue, started, end, requester, heartbeats);
    } catch (error) {
      const expected = error instanceof OnceError && ["fenced", "wrong_state"].includes(error.code);
      if (!expected) this.parts.log(`task ${offer.id} of ${this.queue}: ${whyOf(error)}`);
      return undefined;
    }
  }

  private async probe(claim: Claim): Promise<Verdict> {
    try {
      const { probe } = this.options;
      if (!probe) return { outcome: "probe_unknown", why: "the worker has no probe" };
      const answer = happenedOf(await running.run(claim, async () => probe(claim)));
      if (!answer) return { outcome: "did_not_happen" };
      return { outcome: "happened", ...resultOf(answer) };
    } catch (error) {
      return { outcome: "probe_unknown", why: whyOf(error) };
    }
  }

  private async handle(claim: Claim): Promise<Verdict> {
    let result: unknown;
    try {
      result = await running.run(claim, async () => this.handler(claim));
    } catch (error) {
      const why = whyOf(error);
      if (error instanceof Dead) return { outcome: "dead", why };
      if (error instanceof Unknown) return { outcome: "unknown", why };
      const { retryIn } = error instanceof Fail ? error : { retryIn: undefined };
      if (retryIn === undefined) return { outcome: "failed", why };
      return { outcome: "failed", why, retryIn: durationText(retryIn, "retryIn") };
    }
    try {
      return { outcome: "completed", ...resultOf(new Happened(result)) };
    } catch (error) {
      return { outcome: "unknown", why: `the handler ran, but ${whyOf(error)}` };
    }
  }

  /** Settles the claim and returns the next offer. `last` is false if the claim goes on. */
  private async settle(claim: Claim, verdict: Verdict, last = true): Promise<Offer | undefined> {
    if (last) claim.beginSettling();
    else claim.ensureHeld();
    const next: Offer[] = [];
    try {
      await this.sendVerdict(claim, verdict, last, next);
    } catch (error) {
      if (!(error instanceof OnceError) || error.status === 0) throw error;
      if (error.code === "fenced" || error.code === "wrong_state") throw claim.lose(error.message);
      await this.sendVerdict(claim, withoutRefused(verdict, error.message), last, next);
    }
    for (const surplus of next.slice(1)) await this.release(surplus);
    return next[0];
  }

  private async sendVerdict(
    claim: Claim,
    verdict: Verdict,
    last: boolean,
    next: Offer[],
  ): Promise<void> {
    const settlement = settlementText(claim.claim, verdict);
    await this.parts.requester.call(
      {
        method: "POST",
        path: "/v1/claims:settle",
        headers: { "Content-Type": "application/json" },
        body: (aTry) => {
          // A repeat asks for no offers: the lost answer may have had some.
          const more = last && aTry === 0 && !this.draining && next.length === 0;
          const asked = JSON.stringify(more ? { next: 1, ...this.offerFields } : {});
          return `{"claims":[${settlement}]${more ? "," : ""}${asked.slice(1)}`;
        },
        problemIn: (json) => {
          next.push(...(json.next ?? []));
          return firstError(json);
        },
      },
      { signal: this.leaving.signal },
    );
  }
}

function firstError(json: any): Problem | undefined {
  const first = json?.claims?.[0];
  return first?.error ? first : undefined;
}

function resultOf(answer: Happened<unknown>): { result?: string } {
  return answer.result === undefined ? {} : { result: jsonText(answer.result, "its result") };
}

/** The verdict without the parts that the server refused. The verdict must not be lost. */
function withoutRefused(verdict: Verdict, refusal: string): Verdict {
  const { outcome, why } = verdict;
  if (outcome === "completed" || outcome === "happened")
    return {
      outcome: outcome === "happened" ? "probe_unknown" : "unknown",
      why: `the task happened, but its result was refused: ${refusal}`,
    };
  return { outcome, why: `${why ?? ""} (${refusal})` };
}

function settlementText(claim: string, verdict: Verdict): string {
  const { outcome, result, why, retryIn } = verdict;
  const fields = { claim, outcome, ...(why !== undefined && { why: wellFormed(why) }) };
  const text = JSON.stringify(retryIn === undefined ? fields : { ...fields, retry_in: retryIn });
  return result === undefined ? text : `${text.slice(0, -1)},"result":${result}}`;
}
