// What a handler sees of its task, and the durable steps, whichever way the steps are recorded.
import { randomUUID } from "node:crypto";
import { AttemptOver, invalidInput, OnceError, Unknown } from "./errors.js";
import { jsonText } from "./values.js";

/** What to do with a step that was cut off: run it again, hold the task, or ask the probe. */
export type StepPolicy = "retry" | "hold" | "probe";

/** A probe's answer "it happened", for a result that is `null`, `undefined` or `false`. */
export class Happened<T> {
  constructor(readonly result: T) {}
}

export function happened<T>(result: T): Happened<T> {
  return new Happened(result);
}

/**
 * Says whether something happened. `undefined`, `null` and `false` mean that it did not. Any other
 * value means that it happened, with this value as the result. If the probe throws, nobody knows,
 * and the task is held for a person.
 */
export type Answer<T> = T | Happened<T> | undefined | null | false;

export interface StepOptions<T> {
  /** Without it, the queue's policy decides. With a probe, it is `probe`. */
  inDoubt?: StepPolicy;
  probe?: (step: StepContext) => Answer<T> | Promise<Answer<T>>;
}

export interface StepContext {
  /** The same for every attempt of this step. Give it to systems that take an idempotency key. */
  readonly key: string;
  readonly signal: AbortSignal;
}

export interface Task<Body = any> {
  readonly id: string;
  readonly topic: string;
  /** The key of the task in its queue; usually the id. */
  readonly queueKey: string;
  readonly queue: string;
  /** The place of the task in the log. */
  readonly sequence: number;
  /** A JSON value. A body that was published as bytes is a Uint8Array. */
  readonly body: Body;
  readonly headers: Readonly<Record<string, string>>;
  /** 1 for the first start. */
  readonly attempt: number;
  /** Grows with every start. Give it to systems that can refuse an older one. */
  readonly token: number;
  /** An earlier attempt ended without a verdict. */
  readonly inDoubt: boolean;
  /** Aborts if the handler should stop. The reason is a `Stop` or an `AttemptOver`. */
  readonly signal: AbortSignal;
  /**
   * The idempotency key of the task, or of one of its steps. The key of a step is known as soon as
   * the step has begun: call `key(step)` inside the step, in its probe, or later.
   */
  key(step?: string): string;
  /**
   * Runs `fn` once per task and remembers its result, which must be JSON. A later attempt gets the
   * result and does not run `fn`. If `fn` throws, the step did not happen. If it throws `Unknown`,
   * the step is in doubt.
   */
  step<T>(
    name: string,
    fn: (step: StepContext) => T | Promise<T>,
    options?: StepOptions<T>,
  ): Promise<T>;
}

export interface Begun {
  outcome: "run" | "remembered" | "ask";
  key: string;
  result?: unknown;
}

/** How one step is recorded: over HTTP, or over the socket of `once work`. */
export interface StepRecorder {
  begin(asked: boolean): Promise<Begun>;
  end(json: string): Promise<void>;
  fail(why: string): Promise<void>;
  /** The attempt is over afterwards. */
  hold(why: string): Promise<void>;
  close(): void;
}

export type OpenStep = (name: string, call: string, policy: StepPolicy | undefined) => StepRecorder;

/** The steps of one attempt. */
export class Steps {
  private readonly keys = new Map<string, string>();
  private readonly done = new Set<string>();
  private readonly underWay = new Set<string>();

  constructor(
    private readonly open: OpenStep,
    private readonly signal: () => AbortSignal,
  ) {}

  key(step: string): string {
    const key = this.keys.get(step);
    if (key !== undefined) return key;
    throw invalidInput(
      `the key of step "${step}" is not known before the step begins: ask for it inside the step`,
    );
  }

  async run<T>(
    name: string,
    fn: (step: StepContext) => T | Promise<T>,
    options: StepOptions<T>,
  ): Promise<T> {
    const policy = policyOf(name, options);
    if (this.done.has(name))
      throw invalidInput(
        `step "${name}" was used in this attempt already; nothing was run: give each step a name ` +
          "of its own, with a number in a loop",
      );
    if (this.underWay.has(name)) throw stepUnderWay(name);
    const recorder = this.open(name, randomUUID(), policy);
    this.underWay.add(name);
    try {
      const result = await this.take(name, recorder, fn, options);
      this.done.add(name);
      return result;
    } finally {
      this.underWay.delete(name);
      recorder.close();
    }
  }

  private async take<T>(
    name: string,
    recorder: StepRecorder,
    fn: (step: StepContext) => T | Promise<T>,
    options: StepOptions<T>,
  ): Promise<T> {
    let begun = await recorder.begin(false);
    this.keys.set(name, begun.key);
    const { key } = begun;
    const signal = this.signal;
    const context = {
      key,
      get signal() {
        return signal();
      },
    };
    if (begun.outcome === "ask") {
      const answer = await this.ask(name, recorder, options, context);
      if (answer) return answer.result;
      begun = await recorder.begin(true);
    }
    if (begun.outcome === "remembered") return begun.result as T;
    if (begun.outcome !== "run") throw new AttemptOver(`step "${name}" cannot be asked twice`);
    return await runAndRecord(name, recorder, () => fn(context));
  }

  /** Returns nothing if the step did not happen. */
  private async ask<T>(
    name: string,
    recorder: StepRecorder,
    options: StepOptions<T>,
    context: StepContext,
  ): Promise<Happened<T> | undefined> {
    let why = "the step was cut off, and it has no probe";
    let answer: Happened<T> | undefined;
    let json: string | undefined;
    try {
      if (options.probe) {
        answer = happenedOf(await options.probe(context));
        if (!answer) return undefined;
        json = jsonText(answer.result, "its result");
      }
    } catch (error) {
      if (error instanceof AttemptOver) throw error;
      why = `its probe does not know: ${whyOf(error)}`;
    }
    if (answer && json !== undefined) {
      await recorder.end(json);
      return answer;
    }
    await recorder.hold(why);
    throw new AttemptOver(`step "${name}" is in doubt, and the task is held: ${why}`);
  }
}

function stepUnderWay(name: string): OnceError {
  return new OnceError(0, {
    code: "wrong_state",
    reason: "step_under_way",
    message: `step "${name}" runs in this attempt already; nothing was run`,
    facts: { step: name },
  });
}

async function runAndRecord<T>(
  name: string,
  recorder: StepRecorder,
  fn: () => T | Promise<T>,
): Promise<T> {
  let result: T;
  try {
    result = await fn();
  } catch (error) {
    if (error instanceof AttemptOver || error instanceof Unknown) throw error;
    try {
      await recorder.fail(whyOf(error));
    } catch (unrecorded) {
      if (unrecorded instanceof AttemptOver) throw unrecorded;
    }
    throw error;
  }
  let json: string;
  try {
    json = jsonText(result, `the result of step "${name}"`);
  } catch (error) {
    // The step happened, so it must not be recorded as failed.
    throw new Unknown(`${whyOf(error)}; the step ran, and its result was not recorded`);
  }
  await recorder.end(json);
  return result;
}

function policyOf(name: string, options: StepOptions<any>): StepPolicy | undefined {
  const { inDoubt, probe } = options;
  if (typeof name !== "string" || name === "")
    throw invalidInput("a step needs a name; nothing was run");
  if (inDoubt !== undefined && !["retry", "hold", "probe"].includes(inDoubt))
    throw invalidInput(`"inDoubt" of step "${name}" takes retry, hold or probe; nothing was run`);
  if (inDoubt === "probe" && !probe)
    throw invalidInput(`step "${name}" needs a probe for the policy probe; nothing was run`);
  if (inDoubt !== undefined && inDoubt !== "probe" && probe)
    throw invalidInput(`step "${name}" has a probe, but its policy is ${inDoubt}; nothing was run`);
  return probe ? "probe" : inDoubt;
}

export function happenedOf<T>(answer: Answer<T>): Happened<T> | undefined {
  if (answer instanceof Happened) return answer;
  if (answer === undefined || answer === null || answer === false) return undefined;
  return new Happened(answer as T);
}

export function whyOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const plain = ["Error", "Dead", "Fail", "Unknown", "OnceError"].includes(error.name);
  return plain ? error.message || error.name : `${error.name}: ${error.message}`;
}
