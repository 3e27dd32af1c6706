// The parts of Node that this package uses, so that tsc compiles it without other packages.
declare module "node:async_hooks" {
  class AsyncLocalStorage<T> {
    run<R>(store: T, callback: () => R): R;
    getStore(): T | undefined;
  }
}
declare module "node:crypto" {
  function randomUUID(): string;
}
declare module "node:fs" {
  function closeSync(descriptor: number): void;
  function openSync(path: string, flags: string): number;
  function readFileSync(path: string, encoding: "utf8"): string;
  function writeFileSync(path: string, text: string): void;
}
declare module "node:http" {
  interface IncomingMessage {
    statusCode?: number;
    headers: Record<string, string | string[] | undefined>;
    on(event: "data", listener: (piece: Uint8Array) => void): this;
    on(event: "end" | "aborted", listener: () => void): this;
    on(event: "error", listener: (error: Error) => void): this;
  }
  interface ClientRequest {
    on(event: "error", listener: (error: Error) => void): this;
    end(body?: Uint8Array | string): void;
    destroy(error?: Error): void;
  }
  function request(
    options: {
      socketPath: string;
      method: string;
      path: string;
      headers: Record<string, string>;
      signal?: AbortSignal;
    },
    callback: (response: IncomingMessage) => void,
  ): ClientRequest;
}
declare module "node:net" {
  interface Socket {
    on(event: "data", listener: (piece: Uint8Array) => void): this;
    on(event: "connect" | "close", listener: () => void): this;
    on(event: "error", listener: (error: Error) => void): this;
    write(bytes: Uint8Array): boolean;
    destroy(): void;
  }
  function connect(path: string): Socket;
}
declare module "node:os" {
  function hostname(): string;
}
declare module "node:path" {
  function dirname(path: string): string;
  function basename(path: string): string;
}
declare module "node:worker_threads" {
  class MessagePort {
    postMessage(message: unknown): void;
    on(event: "message", listener: (message: any) => void): this;
    close(): void;
    unref(): void;
  }
  class MessageChannel {
    readonly port1: MessagePort;
    readonly port2: MessagePort;
  }
  class Worker {
    constructor(file: URL, options: { workerData: unknown; transferList: MessagePort[] });
    on(event: "error", listener: (error: Error) => void): this;
    terminate(): Promise<number>;
  }
  const workerData: any;
  function receiveMessageOnPort(port: MessagePort): { message: any } | undefined;
}
interface Buffer extends Uint8Array {
  toString(encoding?: "base64" | "utf8"): string;
}
declare const Buffer: {
  from(text: string, encoding: "base64" | "utf8"): Buffer;
  from(bytes: Uint8Array): Buffer;
  concat(pieces: Uint8Array[]): Buffer;
};
declare const process: {
  env: Record<string, string | undefined>;
  pid: number;
  exitCode?: number;
  stdout: { write(text: string): void };
  hrtime: { bigint(): bigint };
  on(event: string, listener: () => void): void;
  once(event: string, listener: () => void): void;
  removeListener(event: string, listener: () => void): void;
};
