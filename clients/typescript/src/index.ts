export { Once } from "./once.js";
export { AttemptOver, Dead, Fail, OnceError, Stop, Unknown } from "./errors.js";
export { Happened, happened } from "./task.js";
export type { Answer, StepContext, StepOptions, StepPolicy, Task } from "./task.js";
export type { CallLimits } from "./requester.js";
export type { Handler, WorkerOptions } from "./worker.js";
export type { RunOptions } from "./run.js";
export type { Duration } from "./values.js";
export * from "./types.js";
