// BullMQ: the job id is the task's id, and completed jobs are kept, because a forgotten id runs again.
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { bounded, fail, play, publishing, Ran, slices } from "./role.mjs";

const SINGLE_IN_FLIGHT = 256;
const BULK = 500;
const BULK_IN_FLIGHT = 4;

const connect = (url) => new Redis(url, { maxRetriesPerRequest: null });

await play({
  prepare: async () => ({ go: async () => ({}) }),

  publish: async (options) => {
    const connection = connect(options.url);
    const queue = new Queue(options.queue, { connection });
    await queue.waitUntilReady();
    const data = JSON.parse(options.body);
    const job = (id) => ({ name: "task", data, opts: { jobId: id } });
    const one = (id) => queue.add("task", data, { jobId: id });
    return {
      go: publishing(options, {
        bulk: (ids) =>
          bounded(slices(ids, BULK), BULK_IN_FLIGHT, (slice) => queue.addBulk(slice.map(job))),
        single: (ids) => bounded(ids, SINGLE_IN_FLIGHT, one),
      }, one),
      end: async () => {
        await queue.close();
        connection.disconnect();
      },
    };
  },

  work: async (options) => {
    const connection = connect(options.url);
    const queue = new Queue(options.queue, { connection });
    await queue.waitUntilReady();
    const ran = new Ran(options);
    const lease = options.lease ? { lockDuration: options.lease, stalledInterval: options.lease } : {};
    let worker;
    return {
      go: ran.work(
        async () => {
          worker = new Worker(options.queue, async (job) => ran.ran(job.id), {
            connection, concurrency: options.concurrency, ...lease,
          });
          worker.on("completed", (job) => ran.recorded(job.id));
          worker.on("error", fail);
        },
        async () => {
          const counts = await queue.getJobCounts("wait", "active", "delayed", "prioritized", "paused");
          return Object.values(counts).every((count) => count === 0);
        },
      ),
      end: async () => {
        await worker?.close(true);
        await queue.close();
        connection.disconnect();
      },
    };
  },
});
