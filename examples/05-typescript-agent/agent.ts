// Research, draft, publish. Each step is paid for once per task, whatever dies in between.
import { spawnSync } from "node:child_process";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";

const { ONCE_BIN = "once", ONCE_ID = "" } = process.env;

// Stands for a model that costs money per call: a line on the bill each time.
async function askModel(prompt: string): Promise<string> {
  appendFileSync("bill", prompt + "\n");
  return `[what the model says to: ${prompt}]`;
}

const steps = {
  research: (topic: string) => askModel(`research ${topic}`),
  draft: (notes: string) => askModel(`write a post from ${notes}`),
  async publish(text: string) {
    while (!existsSync("site-is-up")) await new Promise((done) => setTimeout(done, 50));
    writeFileSync(`post-${ONCE_ID}.txt`, text);
    return `https://blog.example.org/${ONCE_ID}`;
  },
};
type Name = keyof typeof steps;

// What the step says to `input`; on any later attempt of this task, what it said then.
function step(name: Name, input: string): string {
  const itself = [process.execPath, __filename, name];
  const run = spawnSync(ONCE_BIN, ["step", name, "--", ...itself], { input, encoding: "utf8" });
  // Not run.error: a step that is remembered does not read its input, and EPIPE is no failure.
  if (run.status !== 0) throw new Error(`step ${name}: exit ${run.status}: ${run.stderr}`);
  return run.stdout;
}

function agent(body: string): string {
  const { topic } = JSON.parse(body) as { topic: string };
  const notes = step("research", topic);
  const text = step("draft", notes);
  return JSON.stringify({ url: step("publish", text) });
}

async function main(name?: string) {
  const input = readFileSync(0, "utf8");
  process.stdout.write(name ? await steps[name as Name](input) : agent(input));
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
