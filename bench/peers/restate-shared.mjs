// What both drivers of Restate share: the SDK, HTTP requests, and the question whether work is left.
import http from "node:http";
import { sleep } from "./role.mjs";

// The SDK expects a newer node.
Promise.withResolvers ??= () => {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
};
export const restate = await import("@restatedev/restate-sdk");

export const IN_FLIGHT = 256;
// HTTP/1.1 with connections that stay.
export const agent = new http.Agent({ keepAlive: true, maxSockets: IN_FLIGHT });

export function post(url, headers, body) {
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

export function addresses(options) {
  const [ingress, admin, port] = options.url.split(",");
  return { ingress, admin, port: Number(port) };
}

// Serves the service and, unless the server knows it from a worker that was killed, registers it.
export async function offer(service, options) {
  const { admin, port } = addresses(options);
  await restate.serve({ services: [service], port, logger: () => {} });
  if (!options.again)
    await post(`${admin}/deployments`, {}, JSON.stringify({ uri: `http://127.0.0.1:${port}`, force: true }));
}

// A function that asks whether no invocation of the service is left.
export function emptied(options, service) {
  const { admin } = addresses(options);
  const unfinished = JSON.stringify({
    query: `select count(*) as count from sys_invocation
            where target_service_name = '${service}' and status <> 'completed'`,
  });
  return async () => {
    const answer = await post(`${admin}/query`, { accept: "application/json" }, unfinished);
    if (JSON.parse(answer).rows[0].count === 0) return true;
    await sleep(20); // asking is not cheap
    return false;
  };
}
