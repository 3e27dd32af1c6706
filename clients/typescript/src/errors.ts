// The errors of this package. OnceError says what failed; the others are a handler's verdicts.

/** The fields of a problem document, or of one claim's error in an answer about many claims. */
export interface Problem {
  code?: string;
  error?: string;
  detail?: string;
  message?: string;
  retryable?: boolean;
  in_doubt?: boolean;
  reason?: string;
  facts?: Record<string, string>;
  differs?: string[] | null;
}

/** A call that failed. `code` is the server's, or `no_answer` if the server did not answer. */
export class OnceError extends Error {
  override readonly name: string = "OnceError";
  /** Such as `not_found`, `conflicting_duplicate`, `fenced`, `no_answer`. */
  readonly code: string;
  /** The same call may succeed later. */
  readonly retryable: boolean;
  /** The call may have succeeded. */
  readonly inDoubt: boolean;
  /** What a program can act on, such as `no_queue` or `step_under_way`. */
  readonly reason: string | undefined;
  readonly facts: Readonly<Record<string, string>>;
  /** The HTTP status; 0 without an answer. */
  readonly status: number;
  /** Of a conflict: the places in which the two bodies differ. */
  readonly differs: readonly string[] | undefined;

  constructor(status: number, problem: Problem, cause?: unknown) {
    super(problem.detail ?? problem.message ?? `the server answered with status ${status}`);
    if (cause !== undefined) this.cause = cause;
    this.code = problem.code ?? problem.error ?? "failed";
    this.retryable = problem.retryable ?? false;
    this.inDoubt = problem.in_doubt ?? false;
    this.reason = problem.reason;
    this.facts = problem.facts ?? {};
    this.status = status;
    this.differs = problem.differs ?? undefined;
  }
}

export function invalidInput(message: string): OnceError {
  return new OnceError(0, { code: "invalid_input", message });
}

/** Thrown by a handler: the task is a dead letter and is never tried again. */
export class Dead extends Error {
  override readonly name: string = "Dead";
}

/** Thrown by a handler: the task failed. It is retried after `retryIn`, or after the backoff. */
export class Fail extends Error {
  override readonly name: string = "Fail";
  /** Milliseconds, or a text such as `"90s"`. */
  readonly retryIn: number | string | undefined;

  constructor(why: string, options: { retryIn?: number | string } = {}) {
    super(why);
    const { retryIn } = options;
    if (typeof retryIn === "number" && !(retryIn >= 0 && retryIn < Infinity))
      throw invalidInput(`"retryIn" takes milliseconds or a text such as "90s" (failure: ${why})`);
    this.retryIn = retryIn;
  }
}

/** Thrown by a handler or a step: nobody knows whether it happened. The in-doubt policy decides. */
export class Unknown extends Error {
  override readonly name: string = "Unknown";
}

/**
 * Thrown by `task.step()`, and the reason of `task.signal`, if the attempt must end. Its lease
 * ended, another worker has the task, or the task is held. The handler's outcome is not recorded.
 */
export class AttemptOver extends Error {
  override readonly name: string = "AttemptOver";
}

/** The reason of `task.signal` if the handler should stop: a person cancelled the task, the queue's
 * timeout has passed, or the worker ends. The outcome of the handler is still recorded. */
export class Stop extends Error {
  override readonly name: string = "Stop";
  readonly code: "cancelled" | "overdue" | "worker_ends";

  constructor(code: Stop["code"], message: string) {
    super(message);
    this.code = code;
  }
}
