// The same agent as a worker of `once serve`: no process per task, and steps are plain functions.
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { Once } from "once-client";

const once = new Once();

// Stands for a model that costs money per call: a line on the bill each time.
async function askModel(prompt: string): Promise<string> {
  appendFileSync("bill", prompt + "\n");
  return `[what the model says to: ${prompt}]`;
}

async function publish(id: string, text: string): Promise<string> {
  while (!existsSync("site-is-up")) await new Promise((done) => setTimeout(done, 50));
  writeFileSync(`post-${id}.txt`, text);
  return `https://blog.example.org/${id}`;
}

once.worker<{ topic: string }>("agents", async (task) => {
  const notes = await task.step("research", () => askModel(`research ${task.body.topic}`));
  const text = await task.step("draft", () => askModel(`write a post from ${notes}`));
  const url = await task.step("publish", () => publish(task.id, text));
  return { url };
});

await once.run();
