// One try of one request: fetch for http and https, node:http for a Unix socket.
import { request as httpRequest } from "node:http";
import { invalidInput } from "./errors.js";

export interface Target {
  /** `http://host:port`, `https://host:port` or `unix:/path/to/socket`. */
  readonly url: string;
  readonly token: string | undefined;
}

export interface OneTry {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: Uint8Array | string | undefined;
  signal: AbortSignal;
}

export interface Answer {
  status: number;
  retryAfter: string | undefined;
  text: string;
}

/** A try without an answer. `sent` is false if the server cannot have received the request. */
export class NoAnswer extends Error {
  readonly sent: boolean;
  /** Another try gets the same failure. */
  readonly hopeless: boolean;

  constructor(cause: unknown) {
    const inner = (cause as { cause?: unknown }).cause ?? cause;
    const { code, message } = inner as { code?: string; message?: string };
    super(message === "bad port" ? kBadPort : message || code || String(inner));
    this.cause = cause;
    this.sent = !kNotSent.has(code ?? "") && message !== "bad port";
    this.hopeless = isCertificate(code) || message === "bad port";
  }
}

const kBadPort = "fetch does not allow this port, as browsers do not: use another port";
const kNotSent = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "ENOENT",
  "EACCES",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

function isCertificate(code: string | undefined): boolean {
  return code !== undefined && /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ERR_SSL/.test(code);
}

export function targetOf(url: string, token: string | undefined): Target {
  const trimmed = url.replace(/\/+$/, "");
  if (/^unix:./.test(trimmed)) return { url: trimmed, token };
  let parsed: URL | undefined;
  try {
    parsed = new URL(trimmed);
  } catch {
    // said below
  }
  if (parsed?.protocol !== "http:" && parsed?.protocol !== "https:")
    throw invalidInput(
      `"${url}" is no address of a server; use http://HOST:PORT, https://HOST:PORT or unix:PATH`,
    );
  return { url: trimmed, token };
}

export async function send(target: Target, one: OneTry): Promise<Answer> {
  const headers = { ...one.headers };
  if (target.token) headers["Authorization"] = `Bearer ${target.token}`;
  try {
    return target.url.startsWith("unix:")
      ? await overSocket(target.url.slice("unix:".length), { ...one, headers })
      : await overFetch(target.url, { ...one, headers });
  } catch (error) {
    throw error instanceof NoAnswer ? error : new NoAnswer(error);
  }
}

async function overFetch(url: string, one: OneTry): Promise<Answer> {
  const response = await fetch(url + one.path, {
    method: one.method,
    headers: one.headers,
    body: one.body ?? null,
    signal: one.signal,
    redirect: "manual",
  });
  const text = await response.text();
  return {
    status: response.status,
    retryAfter: response.headers.get("retry-after") ?? undefined,
    text,
  };
}

function overSocket(socketPath: string, one: OneTry): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { method, path, signal, body } = one;
    const size = typeof body === "string" ? Buffer.from(body, "utf8").length : body?.length ?? 0;
    const headers = { ...one.headers, Host: "localhost", "Content-Length": String(size) };
    const request = httpRequest({ socketPath, method, path, headers, signal }, (response) => {
      const pieces: Uint8Array[] = [];
      response.on("data", (piece) => pieces.push(piece));
      response.on("error", reject);
      response.on("aborted", () => reject(new Error("the connection broke")));
      response.on("end", () => {
        const after = response.headers["retry-after"];
        resolve({
          status: response.statusCode ?? 0,
          retryAfter: Array.isArray(after) ? after[0] : after,
          text: Buffer.concat(pieces).toString("utf8"),
        });
      });
    });
    request.on("error", reject);
    request.end(body);
  });
}
