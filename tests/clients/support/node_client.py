"""What the tests of the TypeScript client share: the compiled client, a server, and node programs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
PACKAGE = TESTS.parent / "clients" / "typescript"
sys.path[:0] = [str(TESTS / "cli" / "support"), str(TESTS / "clients"), str(TESTS / "system" / "support")]
from lossy_proxy import Proxy  # noqa: E402
from once_command import NATS, OnceTest  # noqa: E402,F401

SKIPPED = 77
HEAD = """
import { appendFileSync, existsSync } from "node:fs";
import * as client from "INDEX";
const { Once, OnceError, Dead, Fail, Unknown, AttemptOver, Stop, happened, currentTask, runCurrentTask } = client;
const say = (value) => process.stdout.write(JSON.stringify(value) + "\\n");
const mark = (text) => appendFileSync("marks", text + "\\n");
const until = async (condition) => {
  while (!(await condition())) await new Promise((done) => setTimeout(done, 10));
};
const failure = async (promise) => {
  try { await promise; } catch (error) { return error; }
  throw new Error("it did not fail");
};
const once = process.env.ONCE_CLAIM ? undefined : new Once();
"""
compiled = None


def need_node():
    """Ends the script as skipped, and says so, if it cannot run here."""
    missing = [tool for tool in ("node", "tsc") if not shutil.which(tool)]
    if not missing:
        version = subprocess.check_output(["node", "--version"], text=True).strip()
        if int(version.lstrip("v").split(".")[0]) < 18:
            missing = [f"node 18 or newer (there is {version})"]
    if missing:
        print(f"THE TYPESCRIPT CLIENT IS NOT TESTED: no {' and no '.join(missing)}; `tools/setup test`")
        sys.exit(SKIPPED)


def compile_client():
    """The compiled client, once per script."""
    global compiled
    if compiled is None:
        compiled = Path(tempfile.mkdtemp(prefix="once-ts-"))
        subprocess.run(["tsc", "-p", PACKAGE, "--outDir", compiled / "dist"], check=True)
        (compiled / "package.json").write_text('{"type":"module"}')
    return compiled / "dist" / "index.js"


def remove_compiled():
    if compiled is not None:
        shutil.rmtree(compiled, ignore_errors=True)


class NodeTest(OnceTest):
    def setUp(self):
        super().setUp()
        self.index = compile_client()
        self.programs = 0

    # --- The server

    def serve(self, listen="127.0.0.1:0", *options):
        self.server = self.start("serve", "--listen", listen, *options)
        line = self.server.stderr.readline().decode()
        self.assertIn("listening on http://", line)
        self.url = "http://" + line.split("http://")[1].split()[0]
        self.address = ("127.0.0.1", int(self.url.rsplit(":", 1)[1]))

    def kill_server(self):
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()

    def proxy(self, kind=Proxy, **options):
        proxy = kind(self.address, **options).start()
        self.addCleanup(proxy.close)
        return proxy

    # --- Node programs

    def program(self, code):
        """The file of a program that uses the client."""
        self.programs += 1
        file = self.folder / f"program{self.programs}.mjs"
        file.write_text(HEAD.replace("INDEX", self.index.as_uri()) + code)
        return str(file)

    def node(self, code, url=None, **environment):
        """A program that runs in a process of its own."""
        process = subprocess.Popen(
            ["node", self.program(code)],
            cwd=self.folder,
            env={**self.environment, "ONCE_URL": url or self.url, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_die_with_the_test,
        )
        self.addCleanup(self._end, process)
        return process

    def ended(self, process, code=0, seconds=60):
        """What a program said: a JSON value per line. Its standard error is in `self.heard`."""
        out, err = process.communicate(timeout=seconds)
        self.heard = err.decode()
        self.assertEqual(code, process.returncode, out.decode() + self.heard)
        return [json.loads(line) for line in out.decode().splitlines()]

    def says(self, code, **options):
        return self.ended(self.node(code, **options))

    @property
    def marks(self):
        path = self.folder / "marks"
        return path.read_text().splitlines() if path.exists() else []

    def marked(self, text, seconds=30):
        self.until(lambda: text in self.marks, f"the mark {text}", seconds)

    # --- Looks

    def story(self, id, queue="q"):
        views = json.loads(self.ok("inspect", id, "--json").out)["queues"]
        return next(view for view in views if view["queue"] == queue)

    def state(self, id):
        return self.story(id)["state"]

    def becomes(self, id, state, seconds=30):
        self.until(lambda: self.state(id) == state, f"{id} is {state}", seconds)

    def attempts(self, id):
        return [attempt["outcome"] for attempt in self.story(id)["attempts"]]

    def steps(self, id):
        return [(step["step"], step["state"], step["runs"]) for step in self.story(id)["steps"]]


def _die_with_the_test():
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() == 1:
        os._exit(1)
