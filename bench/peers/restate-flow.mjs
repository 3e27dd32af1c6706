// Restate as a peer of bench/flow: a run is a call of a handler with three durable steps. The idempotency key is the
// run's id, so a run that is sent twice is one run.
import { addresses, agent, emptied, IN_FLIGHT, offer, post, restate } from "./restate-shared.mjs";
import { bounded, play, publishing, Ran, STEPS, stepOf } from "./role.mjs";

const SERVICE = "three";
const prepare = async () => ({ go: async () => ({}) });

async function publish(options) {
  const { ingress } = addresses(options);
  const send = (id) => post(`${ingress}/${SERVICE}/run/send`, { "idempotency-key": id }, JSON.stringify({ id }));
  const ways = { single: (ids) => bounded(ids, IN_FLIGHT, send) };
  return { go: publishing(options, ways, send), end: async () => agent.destroy() };
}

async function work(options) {
  const ran = new Ran(options);
  const run = async (context, { id }) => {
    for (const step of STEPS) await context.run(step, () => ran.ran(stepOf(id, step)));
  };
  await offer(restate.service({ name: SERVICE, handlers: { run } }), options);
  const end = async () => agent.destroy();
  return { go: ran.work(async () => {}, emptied(options, SERVICE)), end };
}

await play({ prepare, publish, work });
