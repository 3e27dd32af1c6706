// BullMQ: the job id is the task's id, and completed jobs are kept, because a forgotten id runs again.
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { bounded, fail, play, publishing, Ran, slices } from "./role.mjs";

const SINGLE_IN_FLIGHT = 256;
const BULK = 500;
const BULK_IN_FLIGHT = 4;

async function open(options) {
  const connection = new Redis(options.url, { maxRetriesPerRequest: null });
  const queue = new Queue(options.queue, { connection });
  await queue.waitUntilReady();
  return { connection, queue };
}

// A queue needs no making.
const prepare = async () => ({ go: async () => ({}) });

async function publish(options) {
  const { connection, queue } = await open(options);
  const data = JSON.parse(options.body);
  const job = (id) => ({ name: "task", data, opts: { jobId: id } });
  const one = (id) => queue.add("task", data, { jobId: id });
  const ways = {
    bulk: (ids) =>
      bounded(slices(ids, BULK), BULK_IN_FLIGHT, (slice) => queue.addBulk(slice.map(job))),
    single: (ids) => bounded(ids, SINGLE_IN_FLIGHT, one),
  };
  const end = async () => {
    await queue.close();
    connection.disconnect();
  };
  return { go: publishing(options, ways, one), end };
}

async function work(options) {
  const { connection, queue } = await open(options);
  const ran = new Ran(options);
  const lease = options.lease ? { lockDuration: options.lease, stalledInterval: options.lease } : {};
  let worker;
  const start = async () => {
    worker = new Worker(options.queue, async (job) => ran.ran(job.id), {
      connection, concurrency: options.concurrency, ...lease,
    });
    worker.on("completed", (job) => ran.recorded(job.id));
    worker.on("error", fail);
  };
  const empty = async () => {
    const counts = await queue.getJobCounts("wait", "active", "delayed", "prioritized", "paused");
    return Object.values(counts).every((count) => count === 0);
  };
  const end = async () => {
    await worker?.close(true);
    await queue.close();
    connection.disconnect();
  };
  return { go: ran.work(start, empty), end };
}

await play({ prepare, publish, work });
