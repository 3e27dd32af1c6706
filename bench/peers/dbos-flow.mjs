// DBOS as a peer of bench/flow: a run is a workflow with three steps. The workflow id is the run's id, so a run that is
// started twice is one run. DBOS is a library: the process that works also starts the runs.
import { DBOS } from "@dbos-inc/dbos-sdk";
import { bounded, linesOf, play, Ran, STEPS, stepOf } from "./role.mjs";

const silent = () => {}; // its log would go to the output that the driver reads
const logger = { info: silent, debug: silent, warn: console.error, error: console.error };

const prepare = async () => ({ go: async () => ({}) });

async function work(options) {
  const ran = new Ran(options);
  const runs = linesOf(options.runs);
  const threeSteps = async (id) => {
    for (const step of STEPS) await DBOS.runStep(async () => ran.ran(stepOf(id, step)), { name: step });
  };
  const workflow = DBOS.registerWorkflow(threeSteps, { name: "three" });
  DBOS.setConfig({ name: "bench", systemDatabaseUrl: options.url, logger });
  await DBOS.launch(); // a second launch continues the workflows that the killed process had begun
  const run = async (id) => (await DBOS.startWorkflow(workflow, { workflowID: id })(id)).getResult();
  const start = () => bounded(runs, options.concurrency, run);
  return { go: ran.work(start, async () => true), end: () => DBOS.shutdown() };
}

await play({ prepare, work });
