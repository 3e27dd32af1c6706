// Restate: the idempotency key is the task's id. The server pushes to its workers, so a backlog is made
// by handlers that wait at a gate until all is published. One at a time is one virtual object.
import http from "node:http";
import { play, publishing, Ran, bounded, sleep } from "./role.mjs";

// The SDK expects a newer node.
Promise.withResolvers ??= () => {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
};
const restate = await import("@restatedev/restate-sdk");

const IN_FLIGHT = 256;
const ID = "x-task-id"; // the handler is not told the idempotency key
const headersOf = (id) => ({ "idempotency-key": id, [ID]: id });
// HTTP/1.1 with connections that stay.
const agent = new http.Agent({ keepAlive: true, maxSockets: IN_FLIGHT });

function post(url, headers, body) {
  return new Promise((done, failed) => {
    const request = http.request(url, { method: "POST", agent, headers: { "content-type": "application/json", ...headers } });
    request.on("error", failed).on("response", (response) => {
      const parts = [];
      response.on("error", failed).on("data", (part) => parts.push(part)).on("end", () => {
        const text = Buffer.concat(parts).toString();
        if (response.statusCode < 300) done(text);
        else failed(new Error(`${url} answered ${response.statusCode}: ${text}`));
      });
    });
    request.end(body);
  });
}

function addresses(options) {
  const [ingress, admin, port] = options.url.split(",");
  return { ingress, admin, port: Number(port) };
}

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
  const { admin, port } = addresses(options);
  const ran = new Ran(options);
  let open;
  const gate = new Promise((done) => (open = done));
  const run = async (context) => {
    await gate;
    ran.ran(context.request().headers.get(ID));
  };
  const definition = { name: options.queue, handlers: { run } };
  const service = isObject(options) ? restate.object(definition) : restate.service(definition);
  await restate.serve({ services: [service], port, logger: () => {} });
  if (!options.again)
    await post(`${admin}/deployments`, {}, JSON.stringify({ uri: `http://127.0.0.1:${port}`, force: true }));
  const unfinished = JSON.stringify({
    query: `select count(*) as count from sys_invocation
            where target_service_name = '${options.queue}' and status <> 'completed'`,
  });
  const empty = async () => {
    const answer = await post(`${admin}/query`, { accept: "application/json" }, unfinished);
    if (JSON.parse(answer).rows[0].count === 0) return true;
    await sleep(20); // asking is not cheap
    return false;
  };
  return { go: ran.work(async () => open(), empty), end: async () => agent.destroy() };
}

await play({ prepare, publish, work });
