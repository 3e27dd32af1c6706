// Restate: the idempotency key is the task's id. The server pushes to its workers, so a backlog is made
// by handlers that wait at a gate until all is published. One at a time is one virtual object.
import { addresses, agent, emptied, IN_FLIGHT, offer, post, restate } from "./restate-shared.mjs";
import { bounded, play, publishing, Ran } from "./role.mjs";

const ID = "x-task-id"; // the handler is not told the idempotency key
const headersOf = (id) => ({ "idempotency-key": id, [ID]: id });
const isObject = (options) => options.concurrency === 1;
// What the worker offers is registered when it is there.
const prepare = async () => ({ go: async () => ({}) });

async function publish(options) {
  const { ingress } = addresses(options);
  const handler = `${ingress}/${options.queue}${isObject(options) ? "/one" : ""}/run`;
  const send = (id) => post(`${handler}/send`, headersOf(id), options.body);
  const ways = { single: (ids) => bounded(ids, IN_FLIGHT, send) };
  // A call is answered when its completion is recorded.
  const call = async (id, note) => {
    await post(handler, headersOf(id), options.body);
    note("recorded");
  };
  return { go: publishing(options, ways, call), end: async () => agent.destroy() };
}

async function work(options) {
  const ran = new Ran(options);
  let open;
  const gate = new Promise((done) => (open = done));
  const run = async (context) => {
    await gate;
    ran.ran(context.request().headers.get(ID));
  };
  const definition = { name: options.queue, handlers: { run } };
  const service = isObject(options) ? restate.object(definition) : restate.service(definition);
  await offer(service, options);
  const empty = emptied(options, options.queue);
  return { go: ran.work(async () => open(), empty), end: async () => agent.destroy() };
}

await play({ prepare, publish, work });
