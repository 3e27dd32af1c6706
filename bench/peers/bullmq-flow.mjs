// BullMQ flows as a peer of bench/flow: a run is a chain of three jobs. The job of a step waits for its child, the job
// of the step before. The job ids are made from the run's id, and completed jobs are kept, because a forgotten id runs
// again.
import { FlowProducer, Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { bounded, fail, play, publishing, Ran, slices, STEPS, stepOf } from "./role.mjs";

const SINGLE_IN_FLIGHT = 256;
const BULK = 100;
const BULK_IN_FLIGHT = 4;

const connect = (options) => new Redis(options.url, { maxRetriesPerRequest: null });

// A queue needs no making.
const prepare = async () => ({ go: async () => ({}) });

async function publish(options) {
  const connection = connect(options);
  const producer = new FlowProducer({ connection });
  await producer.waitUntilReady();
  const chain = (id) =>
    STEPS.reduce((child, step) => ({
      name: step,
      queueName: options.queue,
      data: { id },
      opts: { jobId: stepOf(id, step) },
      ...(child && { children: [child] }),
    }), null);
  const one = (id) => producer.add(chain(id));
  const ways = {
    bulk: (ids) =>
      bounded(slices(ids, BULK), BULK_IN_FLIGHT, (slice) => producer.addBulk(slice.map(chain))),
    single: (ids) => bounded(ids, SINGLE_IN_FLIGHT, one),
  };
  const end = async () => {
    await producer.close();
    connection.disconnect();
  };
  return { go: publishing(options, ways, one), end };
}

async function work(options) {
  const connection = connect(options);
  const queue = new Queue(options.queue, { connection });
  await queue.waitUntilReady();
  const ran = new Ran(options);
  const lease = options.lease ? { lockDuration: options.lease, stalledInterval: options.lease } : {};
  let worker;
  const start = async () => {
    const step = async (job) => ran.ran(stepOf(job.data.id, job.name));
    worker = new Worker(options.queue, step, { connection, concurrency: options.concurrency, ...lease });
    worker.on("error", fail);
  };
  const empty = async () => {
    const counts = await queue.getJobCounts("wait", "active", "delayed", "prioritized", "paused", "waiting-children");
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
