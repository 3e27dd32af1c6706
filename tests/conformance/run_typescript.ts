// Runs the table of requests and answers with the global fetch of Node 18 or newer.
//
// Usage: node run_typescript.js --url URL [--lossy] TABLE...

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
type Texts = Record<string, string>;
interface Expected {
  status: number | number[];
  headers?: Texts;
  answer?: Json;
  lines?: Json[];
  save?: Texts;
}
interface Step extends Expected {
  request: string;
  with?: Texts;
  json?: Json;
  text?: string;
  size?: number;
  repeat?: boolean;
  only?: "direct";
  lossy?: Partial<Expected>;
}
interface Case {
  name: string;
  steps: Step[];
  lossy?: boolean;
}
interface Answer {
  status: number;
  header(name: string): string | null;
  body: string;
}
declare const process: { argv: string[]; exitCode: number };

const MOST_TRIES = 50;
// Names in variables, because there are no declarations of Node's modules here.
const [FS, HTTP] = ["node:fs", "node:http"];
const { readFileSync } = await import(FS!);
const http = await import(HTTP!);

function filled(value: Json, saved: Map<string, Json>): Json {
  const variable = (name: string): Json => {
    const found = saved.get(name);
    if (found === undefined) throw new Error(`no step has saved ${name}`);
    return found;
  };
  if (typeof value === "string") {
    const whole = /^\$\{(\w+)\}$/.exec(value);
    if (whole) return variable(whole[1]!);
    return value.replace(/\$\{(\w+)\}/g, (_, name) => String(variable(name)));
  }
  if (Array.isArray(value)) return value.map((each) => filled(each, saved));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, filled(each, saved)]));
}

function compare(wanted: Json, got: Json | undefined, place: string): void {
  const said = `${place} is ${JSON.stringify(got)}, not ${JSON.stringify(wanted)}`;
  if (wanted === "<string>" || wanted === "<number>") {
    if (`<${typeof got}>` !== wanted) throw new Error(said);
  } else if (Array.isArray(wanted)) {
    if (!Array.isArray(got) || got.length !== wanted.length) throw new Error(said);
    wanted.forEach((each, n) => compare(each, got[n], `${place}.${n}`));
  } else if (wanted !== null && typeof wanted === "object") {
    if (got === null || typeof got !== "object" || Array.isArray(got)) throw new Error(said);
    for (const [name, each] of Object.entries(wanted)) compare(each!, got[name], `${place}.${name}`);
  } else if (wanted !== got) throw new Error(said);
}

function lookUp(value: Json, path: string): Json {
  for (const part of path.split(".")) value = (value as { [name: string]: Json })[part]!;
  if (value === undefined) throw new Error(`the answer has no ${path}`);
  return value;
}

// fetch does not send a Host of the caller.
function sendWithHost(url: string, method: string, headers: Texts): Promise<Answer> {
  return new Promise((done, failed) => {
    const request = http.request(url, { method, headers, agent: false }, (response: any) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (piece: string) => (body += piece));
      response.on("error", failed);
      const header = (name: string) => response.headers[name.toLowerCase()] ?? null;
      response.on("end", () => done({ status: response.statusCode, header, body }));
    });
    request.on("error", failed);
    request.end();
  });
}

async function send(url: string, method: string, headers: Texts, body: string | undefined): Promise<Answer> {
  if ("Host" in headers) return sendWithHost(url, method, headers);
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), 60_000);
  try {
    const response = await fetch(url, { method, headers, body: body ?? null, signal: limit.signal });
    return { status: response.status, header: (name) => response.headers.get(name), body: await response.text() };
  } finally {
    clearTimeout(timer);
  }
}

async function answerTo(step: Step, saved: Map<string, Json>, url: string, lossy: boolean): Promise<Answer> {
  const request = filled(step.request, saved) as string;
  const space = request.indexOf(" ");
  const headers: Texts = { ...step.with };
  let body: string | undefined;
  if (step.json !== undefined) {
    headers["Content-Type"] ??= "application/json";
    body = JSON.stringify(filled(step.json, saved));
  } else if (step.text !== undefined) body = step.text;
  else if (step.size !== undefined) body = "x".repeat(step.size);
  for (let left = lossy && step.repeat ? MOST_TRIES : 1; ; ) {
    try {
      return await send(url + request.slice(space + 1), request.slice(0, space), headers, body);
    } catch (error) {
      if (--left === 0) throw new Error(`no answer: ${error}`);
      await new Promise((done) => setTimeout(done, 10));
    }
  }
}

async function runStep(step: Step, saved: Map<string, Json>, url: string, lossy: boolean): Promise<void> {
  const answer = await answerTo(step, saved, url, lossy);
  const expected: Expected = lossy ? { ...step, ...step.lossy } : step;
  if (![expected.status].flat().includes(answer.status)) {
    throw new Error(`the status is ${answer.status}, not ${expected.status}: ${answer.body.trim()}`);
  }
  for (const [name, value] of Object.entries(expected.headers ?? {})) {
    if (answer.header(name) !== value) throw new Error(`the header ${name} is ${answer.header(name)}, not ${value}`);
  }
  if (expected.lines) {
    const lines = answer.body.split("\n").filter((line) => line !== "");
    compare(filled(expected.lines, saved), lines.map((line) => JSON.parse(line)), "lines");
  }
  if (expected.answer !== undefined) compare(filled(expected.answer, saved), JSON.parse(answer.body), "answer");
  for (const [name, path] of Object.entries(expected.save ?? {})) saved.set(name, lookUp(JSON.parse(answer.body), path));
}

async function runCase(one: Case, url: string, lossy: boolean): Promise<string | undefined> {
  const saved = new Map<string, Json>();
  for (const step of one.steps) {
    if (lossy && step.only === "direct") continue;
    try {
      await runStep(step, saved, url, lossy);
    } catch (error) {
      return `${step.request}: ${error instanceof Error ? error.message : error}`;
    }
  }
  return undefined;
}

const given = process.argv.slice(2);
const lossy = given.includes("--lossy");
const [flag, url, ...tables] = given.filter((each) => each !== "--lossy");
let passed = 0;
let failed = 0;
if (flag !== "--url" || url === undefined) console.error("usage: run_typescript --url URL [--lossy] TABLE...");
else {
  for (const table of tables) {
    for (const one of (JSON.parse(readFileSync(table, "utf8")) as { cases: Case[] }).cases) {
      if (lossy && one.lossy === false) continue;
      const problem = await runCase(one, url, lossy);
      console.log(problem === undefined ? `passed ${one.name}` : `FAILED ${one.name}: ${problem}`);
      problem === undefined ? ++passed : ++failed;
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
}
process.exitCode = passed > 0 && failed === 0 ? 0 : 1;
export {};
