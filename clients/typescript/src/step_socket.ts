// The protocol of `once step` over the socket of a worker, one connection per step.
// A frame is its size in 4 bytes, low ones first, and then fields: varint(number * 2 + kind), and a
// varint (kind 0) or a size and bytes (kind 1). src/exec/step_protocol.h is the other side.
import { closeSync, openSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { basename, dirname } from "node:path";
import { AttemptOver, OnceError } from "./errors.js";
import type { Begun, StepPolicy, StepRecorder } from "./task.js";
import { stepValue } from "./values.js";

const kVersion = 1;
const kLongestPath = 107; // of a Unix socket's address

const Field = {
  version: 1,
  kind: 2,
  name: 3,
  policy: 4,
  key: 5,
  bytes: 6,
  cut: 7,
  limit: 8,
  oversize: 9,
};
const Kind = {
  begin: 1,
  asked: 2,
  end: 3,
  fail: 4,
  hold: 5,
  run: 16,
  remembered: 17,
  ask: 18,
  done: 19,
  over: 20,
  refused: 21,
};

interface Message {
  kind: number;
  key: string;
  bytes: Uint8Array;
  cut: boolean;
  limit: number;
}

export class SocketStep implements StepRecorder {
  private socket: Socket | undefined;
  private received: Uint8Array = new Uint8Array();
  private ended = false;
  private onChange: () => void = () => {};
  private limit = 1 << 20;

  constructor(
    private readonly path: string,
    private readonly name: string,
    private readonly policy: StepPolicy | undefined,
  ) {}

  async begin(asked: boolean): Promise<Begun> {
    if (!asked) this.open();
    const answer = await this.ask(
      asked
        ? [[Field.kind, Kind.asked]]
        : [
            [Field.kind, Kind.begin],
            [Field.name, text(this.name)],
            ...(this.policy ? [[Field.policy, text(this.policy)] as const] : []),
          ],
      `nothing was run`,
    );
    this.limit = answer.limit;
    const { key } = answer;
    if (answer.kind === Kind.run) return { outcome: "run", key };
    if (answer.kind === Kind.ask) return { outcome: "ask", key };
    if (answer.kind !== Kind.remembered) throw refusal(answer);
    if (answer.cut)
      throw new OnceError(0, {
        code: "too_large",
        message: `step "${this.name}" has run, but an older Once kept only a MiB of its result`,
      });
    return { outcome: "remembered", key, result: stepValue(answer.bytes) };
  }

  async end(json: string): Promise<void> {
    const bytes = text(json);
    const large = bytes.length > this.limit;
    const fields: Fields = [
      [Field.kind, Kind.end],
      large ? [Field.oversize, bytes.length] : [Field.bytes, bytes],
    ];
    await this.record(fields, "the step ran and was not recorded");
  }

  fail(why: string): Promise<void> {
    const fields: Fields = [[Field.kind, Kind.fail], [Field.bytes, text(why)]];
    return this.record(fields, "the failure was not recorded");
  }

  async hold(why: string): Promise<void> {
    await this.ask([[Field.kind, Kind.hold], [Field.bytes, text(why)]], "nothing was recorded");
  }

  close(): void {
    this.socket?.destroy();
  }

  private async record(fields: Fields, otherwise: string): Promise<void> {
    const answer = await this.ask(fields, otherwise);
    if (answer.kind !== Kind.done) throw refusal(answer);
  }

  private open(): void {
    const { path, release } = shortened(this.path);
    this.socket = connect(path);
    this.socket.on("connect", release);
    this.socket.on("data", (piece) => {
      this.received = Buffer.concat([this.received, piece]);
      this.onChange();
    });
    this.socket.on("error", () => {}); // "close" follows
    this.socket.on("close", () => {
      release();
      this.ended = true;
      this.onChange();
    });
  }

  /** `otherwise` says what was and was not done if the worker is gone. */
  private async ask(fields: Fields, otherwise: string): Promise<Message> {
    this.socket?.write(frameOf([[Field.version, kVersion], ...fields]));
    for (;;) {
      const message = this.take();
      if (message) return message;
      if (this.ended) throw new AttemptOver(`the worker is gone: ${otherwise}`);
      await new Promise<void>((resolve) => (this.onChange = resolve));
    }
  }

  private take(): Message | undefined {
    if (this.received.length < 4) return undefined;
    const size = new DataView(this.received.buffer, this.received.byteOffset).getUint32(0, true);
    if (this.received.length < 4 + size) return undefined;
    const content = this.received.subarray(4, 4 + size);
    this.received = this.received.slice(4 + size);
    return messageOf(content);
  }
}

function refusal(answer: Message): Error {
  const why = new TextDecoder().decode(answer.bytes);
  if (answer.kind === Kind.over) return new AttemptOver(why);
  return new OnceError(0, { code: "wrong_state", message: why || "the worker refused the step" });
}

/** A path that is too long for a socket's address is opened through its folder. */
function shortened(path: string): { path: string; release: () => void } {
  if (text(path).length <= kLongestPath) return { path, release: () => {} };
  let folder: number | undefined = openSync(dirname(path), "r");
  const release = () => {
    if (folder !== undefined) closeSync(folder);
    folder = undefined;
  };
  return { path: `/proc/self/fd/${folder}/${basename(path)}`, release };
}

// --- Frames

type Fields = (readonly [number, number | Uint8Array])[];

function text(value: string): Uint8Array {
  return new TextEncoder().encode(value);
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  for (; value >= 0x80; value = Math.floor(value / 0x80)) bytes.push((value % 0x80) | 0x80);
  bytes.push(value);
  return bytes;
}

export function frameOf(fields: Fields): Uint8Array {
  const pieces: Uint8Array[] = [new Uint8Array(4)];
  for (const [number, value] of fields) {
    if (typeof value === "number") {
      pieces.push(Uint8Array.from([...varint(number * 2), ...varint(value)]));
    } else if (value.length > 0) {
      pieces.push(Uint8Array.from([...varint(number * 2 + 1), ...varint(value.length)]), value);
    }
  }
  const frame = Buffer.concat(pieces);
  new DataView(frame.buffer, frame.byteOffset).setUint32(0, frame.length - 4, true);
  return frame;
}

export function messageOf(content: Uint8Array): Message {
  const none = new Uint8Array();
  const message: Message = { kind: 0, key: "", bytes: none, cut: false, limit: 1 << 20 };
  let at = 0;
  const number = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 0x80) {
      const byte = content[at++];
      if (byte === undefined) throw new AttemptOver("the worker sent no message of a step");
      value += (byte % 0x80) * factor;
      if (byte < 0x80) return value;
    }
  };
  while (at < content.length) {
    const tag = number();
    const value = number();
    const field = Math.floor(tag / 2);
    const bytes = tag % 2 === 1 ? content.subarray(at, (at += value)) : none;
    if (field === Field.version && value !== kVersion)
      throw new AttemptOver("the worker and this client are of different versions; nothing was run");
    if (field === Field.kind) message.kind = value;
    if (field === Field.key) message.key = new TextDecoder().decode(bytes);
    if (field === Field.bytes) message.bytes = bytes;
    if (field === Field.cut) message.cut = value !== 0;
    if (field === Field.limit) message.limit = value;
  }
  return message;
}
