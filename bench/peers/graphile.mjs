// graphile-worker: the job key is the task's id. A completed job's row is gone and its key with it, so
// what is published once more after that runs once more.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { bounded, fail, play, publishing, Ran, slices } from "./role.mjs";

const BULK = 500;
const CONNECTIONS = 24;
const LOCAL_QUEUE = 500;
const logger = new Logger(() => () => {}); // it would write a line per task
const JOBS = `from graphile_worker._private_jobs jobs
  join graphile_worker._private_tasks tasks on tasks.id = jobs.task_id where tasks.identifier = $1`;

async function prepare(options) {
  const utils = await makeWorkerUtils({ connectionString: options.url, logger });
  const go = async () => {
    await utils.migrate();
    return {};
  };
  return { go, end: () => utils.release() };
}

async function publish(options) {
  const pool = new pg.Pool({ connectionString: options.url, max: CONNECTIONS });
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  const payload = JSON.parse(options.body);
  const one = (id) => utils.addJob(options.queue, payload, { jobKey: id });
  const job = (id) => ({ identifier: options.queue, payload, jobKey: id });
  const ways = {
    // The same key twice in one batch is an error.
    bulk: (ids) =>
      bounded(slices(ids, BULK), 1, (slice) => utils.addJobs([...new Set(slice)].map(job))),
    single: (ids) => bounded(ids, CONNECTIONS, one),
  };
  const end = async () => {
    await utils.release();
    await pool.end();
  };
  return { go: publishing(options, ways, one), end };
}

// It does not say when a completion is recorded, so its own statement is listened to.
function listenForCompletions(pool, completed) {
  pool.on("connect", (client) => {
    const query = client.query.bind(client);
    client.query = (...words) => {
      const answer = query(...words);
      if (words[0]?.name?.startsWith("complete_job"))
        answer.then(() => [words[0].values[0]].flat().forEach(completed), () => {});
      return answer;
    };
  });
}

// Gives free what a killed worker had locked; by itself that takes four hours.
async function unlockTheDead(pool, url) {
  const { rows } = await pool.query(
    "select distinct locked_by from graphile_worker._private_jobs where locked_by is not null");
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.forceUnlockWorkers(rows.map((row) => row.locked_by));
  await utils.release();
}

async function work(options) {
  const pool = new pg.Pool({ connectionString: options.url, max: CONNECTIONS + 2 });
  const ran = new Ran(options);
  const ids = new Map(); // of the jobs that ran
  if (options.times) listenForCompletions(pool, (job) => ran.recorded(ids.get(String(job))));
  pool.on("error", fail);
  await pool.query("select 1");
  const handler = async (_, helpers) => {
    if (options.times) ids.set(helpers.job.id, helpers.job.key);
    ran.ran(helpers.job.key);
  };
  const batching =
    options.concurrency === 1 ? {} : { localQueue: { size: LOCAL_QUEUE }, completeJobBatchDelay: 0 };
  let runner;
  const start = async () => {
    if (options.again) await unlockTheDead(pool, options.url);
    runner = await run({
      pgPool: pool, logger, noHandleSignals: true, taskList: { [options.queue]: handler },
      preset: { worker: { concurrentJobs: options.concurrency, ...batching } },
    });
    runner.promise.catch(fail);
  };
  const empty = async () => (await pool.query(`select 1 ${JOBS} limit 1`, [options.queue])).rowCount === 0;
  const end = async () => {
    await runner?.stop();
    await pool.end();
  };
  return { go: ran.work(start, empty), end };
}

await play({ prepare, publish, work });
