// The well-known way to run tasks once on JetStream: Nats-Msg-Id against double publishing, a
// work-queue stream, a KV record created before a task runs and updated after it, then the ack. It is
// measured with the workload of `once bench`, on the same server; how it loses and repeats tasks when
// something dies is not shown here.
//
// Usage: recipe.mjs URL [TASKS]      prints one JSON line per measure, named as `once bench` names them
import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import {
  AckPolicy, jetstream, jetstreamManager, RetentionPolicy, StorageType,
} from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { connect } from "@nats-io/transport-node";

const PUBLISH_IN_FLIGHT = 1024;
const WORK_IN_FLIGHT = 256;
const LATENCY_GAP_MS = 5; // 200 a second
const SECOND_PUBLISH_MS = 1000; // in the latency run a task comes again after it was completed

const NOTE = `{"order":{"id":"7f9c","lines":[{"sku":"A-1","count":3}],"total":12.5},"note":"`;
const BODY = NOTE + "x".repeat(256 - NOTE.length - 2) + `"}`;
const RECORD = JSON.stringify({ state: "processing", worker: "recipe", attempt: 1 });
const COMPLETED = JSON.stringify({ state: "completed", worker: "recipe", attempt: 1 });

const now = () => Number(process.hrtime.bigint()) / 1e6; // ms, the same in all processes
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

function report(measure, value, unit) {
  console.log(JSON.stringify({ measure, value: Number(value.toPrecision(6)), unit }));
}

function percentile(values, part) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
}

// `count` ids, and 5 % of them again 100 to 1,000 places later.
function workload(count) {
  const ids = Array.from({ length: count }, () => randomUUID());
  const again = [];
  for (let i = 0; i < count; i += 20)
    again.push([i + 100 + Math.floor(Math.random() * 901), ids[i]]);
  again.sort((a, b) => b[0] - a[0]);
  for (const [place, id] of again) ids.splice(Math.min(place, ids.length), 0, id);
  return ids;
}

// Runs `work` for each item, at most `most` at a time.
async function bounded(items, most, work) {
  let next = 0;
  const runner = async () => {
    while (next < items.length) await work(items[next++]);
  };
  await Promise.all(Array.from({ length: most }, runner));
}

class Recipe {
  static async open(url) {
    const recipe = new Recipe();
    recipe.connection = await connect({ servers: url });
    recipe.js = jetstream(recipe.connection);
    recipe.manager = await jetstreamManager(recipe.connection);
    return recipe;
  }

  async make(name) {
    await this.manager.streams.add({
      name, subjects: [`${name}.>`], retention: RetentionPolicy.Workqueue, storage: StorageType.File,
    });
    await this.manager.consumers.add(name, {
      durable_name: "worker", ack_policy: AckPolicy.Explicit, max_ack_pending: 4 * WORK_IN_FLIGHT,
    });
    await new Kvm(this.js).create(`${name}_ledger`, { history: 1 });
  }

  publish(name, id) {
    return this.js.publish(`${name}.task`, BODY, { msgID: id });
  }

  async drained(name) {
    while ((await this.manager.streams.info(name)).state.messages > 0) await sleep(1);
  }

  // Takes tasks, at most `most` at a time, and calls `run` with the id of each. Returns how to stop.
  async work(name, most, run, recorded = () => {}) {
    const ledger = await new Kvm(this.js).open(`${name}_ledger`);
    const consumer = await this.js.consumers.get(name, "worker");
    const messages = await consumer.consume({ max_messages: most });
    const one = async (message) => {
      const id = message.headers.get("Nats-Msg-Id");
      const revision = await ledger.create(id, RECORD);
      run(id);
      await ledger.update(id, COMPLETED, revision);
      recorded(id);
      message.ack();
    };
    const working = (async () => {
      let busy = 0;
      let freed = () => {};
      for await (const message of messages) {
        busy += 1;
        one(message).catch((error) => {
          console.error(`recipe: ${error.message}`);
          process.exit(1);
        }).finally(() => {
          busy -= 1;
          freed();
        });
        while (busy >= most) await new Promise((done) => (freed = done));
      }
    })();
    return async () => {
      await messages.close();
      await working;
    };
  }
}

function count(counts, ids) {
  let twice = 0;
  let missing = 0;
  for (const id of new Set(ids)) {
    const runs = counts.get(id) ?? 0;
    twice += runs > 1 ? 1 : 0;
    missing += runs === 0 ? 1 : 0;
  }
  return { twice, missing };
}

async function backlog(recipe, tasks) {
  const name = "RECIPE_BACKLOG";
  await recipe.make(name);
  const ids = workload(tasks);
  let start = now();
  await bounded(ids, PUBLISH_IN_FLIGHT, (id) => recipe.publish(name, id));
  report("publish", ids.length / ((now() - start) / 1000), "ids/s");

  const counts = new Map();
  start = now();
  const stop = await recipe.work(name, WORK_IN_FLIGHT,
    (id) => counts.set(id, (counts.get(id) ?? 0) + 1));
  await recipe.drained(name);
  report("backlog", tasks / ((now() - start) / 1000), "tasks/s");
  await stop();
  return count(counts, ids);
}

async function sequential(recipe, tasks) {
  const name = "RECIPE_SEQUENTIAL";
  await recipe.make(name);
  const ids = workload(Math.min(2000, Math.max(100, Math.floor(tasks / 20))));
  await bounded(ids, PUBLISH_IN_FLIGHT, (id) => recipe.publish(name, id));
  const counts = new Map();
  const start = now();
  const stop = await recipe.work(name, 1, (id) => counts.set(id, (counts.get(id) ?? 0) + 1));
  await recipe.drained(name);
  report("sequential", (now() - start) / new Set(ids).size, "ms/task");
  await stop();
  return count(counts, ids);
}

// Published here, worked on by another process.
async function latency(recipe, url, tasks) {
  const name = "RECIPE_LATENCY";
  await recipe.make(name);
  const worker = fork(fileURLToPath(import.meta.url), ["worker", url, name]);
  const told = () => new Promise((done) => worker.once("message", done));
  await told();
  const published = new Map();
  const again = [];
  const tasksHere = Math.min(1000, Math.max(50, Math.floor(tasks / 50)));
  let tick = now();
  for (let i = 0; i < tasksHere; i += 1) {
    tick += LATENCY_GAP_MS;
    while (now() < tick) await sleep(Math.max(0, tick - now() - 1));
    const id = randomUUID();
    published.set(id, now());
    await recipe.publish(name, id);
    if (i % 20 === 0)
      again.push(sleep(SECOND_PUBLISH_MS).then(() => recipe.publish(name, id)));
  }
  await Promise.all(again);
  await recipe.drained(name);
  worker.send("end");
  const times = await told();
  const since = (which) =>
    times.filter((time) => time.what === which).map((time) => time.at - published.get(time.id));
  for (const what of ["start", "recorded"])
    for (const [label, part] of [["p50", 0.5], ["p99", 0.99]])
      report(`latency_${what}_${label}`, percentile(since(what), part), "ms");
  const counts = new Map();
  for (const time of times)
    if (time.what === "start") counts.set(time.id, (counts.get(time.id) ?? 0) + 1);
  return count(counts, published.keys());
}

async function workForLatency(url, name) {
  const recipe = await Recipe.open(url);
  const times = [];
  const note = (what) => (id) => times.push({ what, id, at: now() });
  const stop = await recipe.work(name, 1, note("start"), note("recorded"));
  process.once("message", async () => {
    await stop();
    await recipe.connection.close();
    process.send(times, () => process.disconnect());
  });
  process.send("ready");
}

async function main(url, tasks) {
  const recipe = await Recipe.open(url);
  const counted = [
    await backlog(recipe, tasks),
    await sequential(recipe, tasks),
    await latency(recipe, url, tasks),
  ];
  report("duplicates_run", counted.reduce((sum, one) => sum + one.twice, 0), "tasks");
  report("missing", counted.reduce((sum, one) => sum + one.missing, 0), "tasks");
  await recipe.connection.close();
}

if (process.argv[2] === "worker") await workForLatency(process.argv[3], process.argv[4]);
else await main(process.argv[2], Number(process.argv[3] ?? 50000));
