// Repeats a request until the server answers it. The protocol makes a repeat safe.
import { OnceError, type Problem } from "./errors.js";
import { type Answer, NoAnswer, send, type Target } from "./transport.js";
import { now } from "./values.js";

/** Limits of one call, over all of its tries. */
export interface CallLimits {
  /** Milliseconds until the call gives up; `Infinity` for never. */
  timeout?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface Call {
  method: string;
  path: string;
  headers?: Record<string, string>;
  /** The body of a try, of which the first is 0. */
  body?: (aTry: number) => Uint8Array | string;
  /** Milliseconds that the server may take for the answer on purpose, as in a long poll. */
  wait?: number;
  /** False: do not repeat a request that the server may have carried out. */
  repeatable?: boolean;
  /** Finds a failure inside an answer with status 200. */
  problemIn?: (answer: any) => Problem | undefined;
  /** The answer has this many lines, each of them JSON. */
  lines?: number;
  onTry?: (sentNothing: boolean, why: string) => void;
}

export interface Answered {
  status: number;
  json: any;
  /** An earlier try of the same call may have been carried out. */
  repeated: boolean;
}

type Judged = Omit<Answered, "repeated">;

const kTryTimeout = 30_000;
const kFirstPause = 50;
const kLongestPause = 5_000;
const kRepeatedStatus = new Set([408, 425, 429, 502, 503, 504]);

export class Requester {
  constructor(
    readonly target: Target,
    private readonly tryTimeout: number = kTryTimeout,
  ) {}

  async call(call: Call, limits: CallLimits): Promise<Answered> {
    const { timeout = Infinity } = limits;
    const deadline = now() + timeout;
    let maybeDone = false;
    for (let aTry = 0; ; ++aTry) {
      throwIfAborted(limits.signal, maybeDone);
      const left = deadline - now();
      const failed: Judged | Failure = await this.tryOnce(call, aTry, left, limits.signal);
      if (!(failed instanceof Failure)) return { ...failed, repeated: maybeDone };
      const done: boolean = maybeDone || failed.maybeDone;
      throwIfAborted(limits.signal, done);
      const pause = pauseAfter(aTry, failed.retryAfter);
      if (!failed.again || (failed.maybeDone && call.repeatable === false)) throw failed.error;
      if (now() + pause >= deadline) throw gaveUp(failed.error, timeout, done);
      maybeDone = done;
      call.onTry?.(!failed.maybeDone, failed.error.message);
      await sleep(pause, limits.signal);
    }
  }

  private async tryOnce(
    call: Call,
    aTry: number,
    left: number,
    signal: AbortSignal | undefined,
  ): Promise<Judged | Failure> {
    const body = call.body?.(aTry);
    const limit = Math.min(this.tryTimeout + (call.wait ?? 0), Math.max(left, 1));
    const cut = new AbortController();
    const abort = () => cut.abort(signal?.reason);
    const timer = setTimeout(() => cut.abort(new Error(`no answer within ${limit} ms`)), limit);
    signal?.addEventListener("abort", abort);
    try {
      const { method, path, headers = {} } = call;
      const answer = await send(this.target, { method, path, headers, body, signal: cut.signal });
      return judge(answer, call);
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      const aborted = cut.signal.aborted ? String(cut.signal.reason?.message ?? "aborted") : "";
      return new Failure(noAnswer(error, aborted), !error.hopeless, error.sent);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }
}

class Failure {
  constructor(
    readonly error: OnceError,
    readonly again: boolean,
    readonly maybeDone: boolean,
    readonly retryAfter?: string | undefined,
  ) {}
}

function judge(answer: Answer, call: Call): Judged | Failure {
  const { status, text } = answer;
  const json = status < 300 && call.lines ? parsedLines(text, call.lines) : parsed(text);
  const good = status < 300 && json !== undefined;
  const problem = good ? call.problemIn?.(json) : problemOf(status, json, text);
  if (!problem) return { status, json };
  const again = Boolean(problem.retryable || problem.in_doubt || kRepeatedStatus.has(status));
  const error = new OnceError(status, problem);
  // A gateway that gives up on the server says nothing about what the server did.
  const unsaid = (status === 502 || status === 504) && problem.code === undefined;
  return new Failure(error, again, error.inDoubt || unsaid, answer.retryAfter);
}

function problemOf(status: number, json: any, text: string): Problem {
  if (json && typeof json === "object" && typeof json.code === "string") return json;
  const said = text.slice(0, 200).trim();
  return { message: `status ${status}, and no answer of Once${said ? `: ${said}` : ""}` };
}

function parsed(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // an answer of something else than Once
  }
}

function parsedLines(text: string, count: number): any[] | undefined {
  const lines = text.split("\n").filter(Boolean).map(parsed);
  return lines.length === count && !lines.includes(undefined) ? lines : undefined;
}

function noAnswer(error: NoAnswer, aborted: string): OnceError {
  const done = error.sent ? "the call may have succeeded" : "nothing was done";
  const message = `the server did not answer (${aborted || error.message}); ${done}`;
  const problem = { code: "no_answer", message, retryable: !error.hopeless, in_doubt: error.sent };
  return new OnceError(0, problem, error);
}

function gaveUp(last: OnceError, timeout: number, maybeDone: boolean): OnceError {
  const done = maybeDone
    ? "the call may have succeeded; the same call with the same id is safe"
    : "nothing was done";
  const message = `gave up after ${timeout} ms: ${last.message}; ${done}`;
  const { code, reason, facts } = last;
  const problem: Problem = { code, message, retryable: true, in_doubt: maybeDone, facts };
  if (reason !== undefined) problem.reason = reason;
  return new OnceError(last.status, problem, last);
}

function throwIfAborted(signal: AbortSignal | undefined, maybeDone: boolean): void {
  if (!signal?.aborted) return;
  const done = maybeDone ? "the call may have succeeded" : "nothing was done";
  throw new OnceError(
    0,
    { code: "aborted", message: `the caller aborted the call; ${done}`, in_doubt: maybeDone },
    signal.reason,
  );
}

/** Doubles, with jitter, so that many clients of a server that comes back do not arrive at once. */
function pauseAfter(aTry: number, retryAfter: string | undefined): number {
  const asked = Number(retryAfter) * 1000;
  const pause = Math.min(kFirstPause * 2 ** aTry, kLongestPause);
  const jittered = pause * (0.5 + Math.random() / 2);
  return asked > 0 ? Math.min(asked, kLongestPause) * (0.5 + Math.random() / 2) : jittered;
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
  });
}
