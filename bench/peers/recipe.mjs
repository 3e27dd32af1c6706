// The well-known way to run tasks once on JetStream: Nats-Msg-Id against double publishing, a
// work-queue stream, a KV record created before a task runs and updated after it, then the ack. Who
// finds a record leaves the task to the one who made it, and acknowledges.
import {
  AckPolicy, jetstream, jetstreamManager, RetentionPolicy, StorageType,
} from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { connect, nanos } from "@nats-io/transport-node";
import { bounded, fail, play, publishing, Ran } from "./role.mjs";

const PUBLISH_IN_FLIGHT = 1024;
const KEY_EXISTS = 10071; // the server's "wrong last sequence"
const RECORD = JSON.stringify({ state: "processing", worker: "recipe", attempt: 1 });
const COMPLETED = JSON.stringify({ state: "completed", worker: "recipe", attempt: 1 });

async function open(options) {
  const connection = await connect({ servers: options.url });
  return { connection, js: jetstream(connection), manager: await jetstreamManager(connection) };
}

async function prepare(options) {
  const { connection, js, manager } = await open(options);
  const name = options.queue;
  const go = async () => {
    await manager.streams.add({
      name, subjects: [`${name}.>`], retention: RetentionPolicy.Workqueue, storage: StorageType.File,
    });
    await manager.consumers.add(name, {
      durable_name: "worker", ack_policy: AckPolicy.Explicit, max_ack_pending: 1024,
      ...(options.lease ? { ack_wait: nanos(options.lease) } : {}),
    });
    await new Kvm(js).create(`${name}_ledger`, { history: 1 });
    return {};
  };
  return { go, end: () => connection.close() };
}

async function publish(options) {
  const { connection, js } = await open(options);
  const one = (id) => js.publish(`${options.queue}.task`, options.body, { msgID: id });
  const ways = { single: (ids) => bounded(ids, PUBLISH_IN_FLIGHT, one) };
  return { go: publishing(options, ways, one), end: () => connection.close() };
}

// Whether the record is this worker's; false: somebody has it.
async function claim(ledger, id) {
  try {
    return await ledger.create(id, RECORD);
  } catch (error) {
    if (error.code === KEY_EXISTS || error.code === "wrong_last_sequence") return false;
    throw error;
  }
}

async function work(options) {
  const { connection, js, manager } = await open(options);
  const ledger = await new Kvm(js).open(`${options.queue}_ledger`);
  const consumer = await js.consumers.get(options.queue, "worker");
  const ran = new Ran(options);
  const one = async (message) => {
    const id = message.headers.get("Nats-Msg-Id");
    const revision = await claim(ledger, id);
    if (revision !== false) {
      ran.ran(id);
      await ledger.update(id, COMPLETED, revision);
      ran.recorded(id);
    }
    message.ack();
  };
  const consume = async (messages) => {
    let busy = 0;
    let freed = () => {};
    for await (const message of messages) {
      busy += 1;
      one(message).catch(fail).finally(() => {
        busy -= 1;
        freed();
      });
      while (busy >= options.concurrency) await new Promise((done) => (freed = done));
    }
  };
  const start = async () => {
    consume(await consumer.consume({ max_messages: options.concurrency })).catch(fail);
  };
  const empty = async () => (await manager.streams.info(options.queue)).state.messages === 0;
  return { go: ran.work(start, empty), end: () => connection.close() };
}

await play({ prepare, publish, work });
