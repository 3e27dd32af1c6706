// Bodies, results, durations and times, in the form of the server's JSON.
import { invalidInput } from "./errors.js";

/** Milliseconds, or a text such as `"10m"` or `"1h30m"`. */
export type Duration = number | string;

export function durationText(duration: Duration, name: string): string {
  if (typeof duration === "string") return duration;
  if (!Number.isFinite(duration) || duration < 0)
    throw invalidInput(`"${name}" takes milliseconds or a text such as "30s"; nothing was sent`);
  return `${Math.round(duration)}ms`;
}

/** A moment in the future: a Date, milliseconds from now, or a text that the server reads. */
export function momentText(moment: Date | Duration, name: string): string {
  return moment instanceof Date ? timeText(moment, name) : durationText(moment, name);
}

export function timeText(time: Date | string, name: string): string {
  if (typeof time === "string") return time;
  if (Number.isNaN(time.getTime()))
    throw invalidInput(`"${name}" is no valid Date; nothing was sent`);
  return time.toISOString();
}

/** The JSON text of a value. A value without JSON (a function, a BigInt, a cycle) is refused. */
export function jsonText(value: unknown, what: string): string {
  let text: string | undefined;
  let why = "";
  try {
    text = JSON.stringify(value === undefined ? null : value);
  } catch (error) {
    why = `: ${(error as Error).message}`;
  }
  if (text === undefined) throw invalidInput(`${what} cannot be written as JSON${why}`);
  return text;
}

/** Without halves of surrogate pairs, which the server refuses. */
export function wellFormed(text: string): string {
  return Buffer.from(text, "utf8").toString("utf8");
}

type Fields = Record<string, unknown>;

/** The value of a body: JSON as it is, bytes as a Uint8Array. */
export function decodeBody(fields: Fields, name: string): unknown {
  const { raw, [name]: value } = fields;
  if (typeof raw === "string") return new Uint8Array(Buffer.from(raw, "base64"));
  if (fields["text"] === true) return new Uint8Array(Buffer.from(value as string, "utf8"));
  return value;
}

/** The value of a step. `once step` and an agent inside `once work` record JSON text as bytes. */
export function decodeStep(fields: Fields, name: string): unknown {
  const body = decodeBody(fields, name);
  return body instanceof Uint8Array ? stepValue(body) : body;
}

export function stepValue(bytes: Uint8Array): unknown {
  const text = new TextDecoder().decode(bytes);
  try {
    return text === "" ? undefined : JSON.parse(text);
  } catch {
    return text;
  }
}

/** Milliseconds of a clock that never jumps and that all threads of the process share. */
export function now(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000;
}
