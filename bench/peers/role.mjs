// What every peer shares: the lines it speaks with the driver (see bench/compare/role.py), the workload
// that the driver wrote, and counting what ran.
import { openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";

export const nanoseconds = () => process.hrtime.bigint(); // the same clock in all processes
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Of a workflow, in their order, and the id under which the step of a run is counted.
export const STEPS = ["a", "b", "c"];
export const stepOf = (run, step) => `${run}.${step}`;

function parse(words) {
  const options = {};
  for (let i = 0; i < words.length; i += 2) options[words[i].slice(2)] = words[i + 1];
  if (options.concurrency) options.concurrency = Number(options.concurrency);
  if (options.lease) options.lease = Number(options.lease);
  return options;
}

export const linesOf = (file) => readFileSync(file, "utf8").split("\n").filter((line) => line !== "");
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");

// `roles`: name to function of the options; it loads and connects, and gives {go, end}: what to do on
// `go`, whose answer is said, and how to leave.
export async function play(roles) {
  const [name, ...words] = process.argv.slice(2);
  const options = parse(words);
  if (options.body) options.body = readFileSync(options.body, "utf8");
  let stop;
  options.stopped = new Promise((done) => (stop = done));
  try {
    const role = await roles[name](options);
    say({ ready: true });
    for await (const line of createInterface({ input: process.stdin })) {
      if (line === "stop") stop();
      if (line === "go") role.go().then(say, fail);
    }
    await role.end?.();
    process.exit(0);
  } catch (error) {
    fail(error);
  }
}

export function fail(error) {
  console.error(error.stack ?? error);
  process.exit(1);
}

// Calls `work` for each item, at most `most` at a time.
export async function bounded(items, most, work) {
  let next = 0;
  const runner = async () => {
    while (next < items.length) await work(items[next++]);
  };
  await Promise.all(Array.from({ length: most }, runner));
}

export function slices(items, size) {
  const out = [];
  for (let i = 0; i < items.length; i += size) out.push(items.slice(i, i + size));
  return out;
}

// A publisher's `go`: `ways` are functions of all ids, `one` publishes one id. The way `paced` publishes
// each id at its time and notes when.
export function publishing(options, ways, one) {
  const lines = linesOf(options.ids);
  return async () => {
    const start = nanoseconds();
    if (options.way === "paced") await pace(lines, options.times, one);
    else await ways[options.way](lines);
    return { seconds: Number(nanoseconds() - start) / 1e9, count: lines.length };
  };
}

async function pace(lines, file, one) {
  const start = performance.now();
  const notes = [];
  const sent = [];
  for (const line of lines) {
    const [after, id] = line.split(" ");
    const due = start + Number(after);
    while (performance.now() < due) await sleep(Math.max(0, due - performance.now() - 1));
    notes.push(`published ${id} ${nanoseconds()}`);
    sent.push(one(id, (what) => notes.push(`${what} ${id} ${nanoseconds()}`)));
  }
  await Promise.all(sent);
  writeFileSync(file, notes.join("\n") + "\n");
}

// What a worker ran, counted per id; with `--effects` each run is also a line of that file.
export class Ran {
  constructor(options) {
    this.options = options;
    this.runs = new Map();
    for (const line of linesOf(options.ids)) this.runs.set(line.split(" ").pop(), 0);
    this.left = this.runs.size;
    this.effects = options.effects ? openSync(options.effects, "a") : null;
    this.notes = [];
    this.all = new Promise((done) => (this.allRan = done));
  }

  ran(id) {
    if (this.options.times) this.notes.push(`start ${id} ${nanoseconds()}`);
    if (this.effects !== null) writeSync(this.effects, id + "\n");
    const before = this.runs.get(id);
    if (before === undefined) fail(new Error(`a task ran that nobody published: ${id}`));
    this.runs.set(id, before + 1);
    if (before === 0 && --this.left === 0) this.allRan();
  }

  recorded(id) {
    if (this.options.times) this.notes.push(`recorded ${id} ${nanoseconds()}`);
  }

  // A worker's `go`: `start` begins to work, `empty` asks the store whether nothing is left to do.
  work(start, empty) {
    return async () => {
      const began = nanoseconds();
      await start();
      if (this.options.times) await this.options.stopped;
      // A worker that follows a killed one cannot know how many are left for it.
      else if (!this.options.again) await this.all;
      while (!(await empty())) await sleep(this.options.again ? 100 : 2);
      const seconds = Number(nanoseconds() - began) / 1e9;
      if (this.options.times) writeFileSync(this.options.times, this.notes.join("\n") + "\n");
      const runs = [...this.runs.values()];
      return {
        seconds,
        never: runs.filter((count) => count === 0).length,
        twice: runs.filter((count) => count > 1).length,
      };
    };
  }
}
