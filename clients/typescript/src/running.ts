// The task whose handler runs in the current chain of calls.
import { AsyncLocalStorage } from "node:async_hooks";
import type { Task } from "./task.js";

export const running = new AsyncLocalStorage<Task>();
