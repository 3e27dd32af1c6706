// Renews leases on a thread of its own. A handler that blocks the event loop keeps its lease.
import { workerData, type MessagePort } from "node:worker_threads";
import type { Problem } from "./errors.js";
import { send, type Target } from "./transport.js";
import { now } from "./values.js";

/** From the worker: a claim to renew, or (without `end`) one to forget. `end` is of the lease. */
export interface Watch {
  claim: string;
  end?: number;
}

/** To the worker. `end` is there if the lease was renewed, `lost` if the claim is over. */
export interface Beat {
  claim: string;
  end?: number;
  stop?: "cancelled" | "overdue";
  lost?: string;
}

interface Renewed extends Problem {
  outcome?: "renewed" | "asked_to_stop" | "overdue";
  lease_ms?: number;
}

interface Lease {
  end: number;
  due: number;
  asked: boolean;
  told: boolean;
}

const kShortestPause = 20;
const kShortestTry = 250;
const kLongestTimer = 2 ** 31 - 1;
const kWarmUp = 1_000;

class HeartbeatThread {
  private readonly leases = new Map<string, Lease>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly target: Target,
    private readonly port: MessagePort,
  ) {
    port.on("message", (watch: Watch) => this.watch(watch));
    // The first request of a thread loads much code. A short lease must not wait for that.
    const warm = this.ask("GET", "/healthz", undefined, kWarmUp);
    void warm.then(() => port.postMessage({ claim: "" }));
  }

  private watch({ claim, end }: Watch): void {
    if (end === undefined) this.leases.delete(claim);
    else this.leases.set(claim, { end, due: dueIn(end), asked: false, told: false });
    this.schedule();
  }

  private schedule(): void {
    clearTimeout(this.timer);
    let next = Infinity;
    for (const lease of this.leases.values()) if (!lease.asked) next = Math.min(next, lease.due);
    const wait = Math.min(Math.max(0, next - now()), kLongestTimer);
    if (next !== Infinity) this.timer = setTimeout(() => this.renewDue(), wait);
  }

  private renewDue(): void {
    const at = now();
    const due: string[] = [];
    let shortest = Infinity;
    for (const [claim, lease] of this.leases) {
      if (lease.asked || lease.due > at || due.length === 1000) continue;
      lease.asked = true;
      due.push(claim);
      shortest = Math.min(shortest, lease.end - at);
    }
    if (due.length > 0) void this.renew(due, Math.max(kShortestTry, shortest / 3));
    this.schedule();
  }

  private async renew(claims: string[], timeout: number): Promise<void> {
    const sent = now();
    const body = JSON.stringify({ claims });
    const answer = await this.ask("POST", "/v1/claims:renew", body, timeout);
    const answers = answer?.claims ?? [];
    claims.forEach((claim, i) => this.take(claim, sent, answers[i]));
    this.schedule();
  }

  /** One try, because the next one counts its leases anew. Nothing if the server did not answer. */
  private async ask(
    method: string,
    path: string,
    body: string | undefined,
    timeout: number,
  ): Promise<any> {
    const cut = new AbortController();
    const timer = setTimeout(() => cut.abort(), timeout);
    const headers: Record<string, string> = body ? { "Content-Type": "application/json" } : {};
    try {
      const answer = await send(this.target, { method, path, headers, body, signal: cut.signal });
      return answer.status === 200 ? JSON.parse(answer.text) : undefined;
    } catch {
      return undefined;
    } finally {
      clearTimeout(timer);
    }
  }

  private take(claim: string, sent: number, answer: Renewed | undefined): void {
    const lease = this.leases.get(claim);
    if (!lease) return;
    lease.asked = false;
    if (!answer || (answer.error && (answer.retryable || answer.in_doubt))) {
      const left = lease.end - now();
      if (left <= 0) return this.lose(claim, "its lease ended, and the server did not renew it");
      lease.due = now() + Math.max(kShortestPause, left / 10);
      return;
    }
    if (answer.error) return this.lose(claim, answer.message ?? answer.error);
    const beat: Beat = { claim };
    if (answer.outcome === "overdue") {
      this.leases.delete(claim); // the server does not renew it any more
      beat.stop = "overdue";
    } else {
      lease.end = beat.end = sent + (answer.lease_ms ?? 0);
      lease.due = dueIn(lease.end);
      if (answer.outcome === "asked_to_stop" && !lease.told) beat.stop = "cancelled";
      lease.told ||= beat.stop !== undefined;
    }
    this.port.postMessage(beat);
  }

  private lose(claim: string, lost: string): void {
    this.leases.delete(claim);
    this.port.postMessage({ claim, lost });
  }
}

function dueIn(end: number): number {
  const at = now();
  return at + Math.max(kShortestPause, (end - at) / 3);
}

if (workerData?.onceHeartbeats)
  new HeartbeatThread(workerData.target as Target, workerData.port as MessagePort);
