// The worker's side of the thread that renews leases.
import { MessageChannel, receiveMessageOnPort, Worker as Thread } from "node:worker_threads";
import type { Beat } from "./heartbeat_thread.js";
import type { Target } from "./transport.js";

export class Heartbeats {
  private readonly port;
  private readonly thread: Thread;
  private readonly listeners = new Map<string, (beat: Beat) => void>();
  private ready!: () => void;
  private failed!: (error: Error) => void;
  /** Resolves when the thread runs. */
  readonly started: Promise<void>;

  constructor(target: Target, onFailure: (error: Error) => void) {
    const { port1, port2 } = new MessageChannel();
    this.port = port1;
    this.started = new Promise((resolve, reject) => {
      this.ready = resolve;
      this.failed = reject;
    });
    this.thread = new Thread(new URL("./heartbeat_thread.js", import.meta.url), {
      workerData: { onceHeartbeats: true, target, port: port2 },
      transferList: [port2],
    });
    this.thread.on("error", (error) => {
      this.failed(error);
      onFailure(error);
    });
    this.port.on("message", (beat: Beat) => this.take(beat));
  }

  /** `end` is when the lease ends by the clock of this process. */
  add(claim: string, end: number, listener: (beat: Beat) => void): void {
    this.listeners.set(claim, listener);
    this.port.postMessage({ claim, end });
  }

  remove(claim: string): void {
    if (this.listeners.delete(claim)) this.port.postMessage({ claim });
  }

  /** Takes what the thread has said while a handler blocked the event loop. */
  catchUp(): void {
    for (let got = receiveMessageOnPort(this.port); got; got = receiveMessageOnPort(this.port))
      this.take(got.message as Beat);
  }

  async end(): Promise<void> {
    this.port.close();
    await this.thread.terminate();
  }

  private take(beat: Beat): void {
    if (beat.claim === "") this.ready();
    else this.listeners.get(beat.claim)?.(beat);
  }
}
