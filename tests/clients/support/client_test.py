"""What the tests of the Python client share: a server, clients, and workers in threads and processes."""

import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
CLIENT = TESTS.parent / "clients" / "python"
sys.path[:0] = [str(TESTS / "cli" / "support"), str(TESTS / "clients"), str(CLIENT)]
sys.dont_write_bytecode = True
from lossy_proxy import Proxy  # noqa: E402,F401
from once_command import BIN, OnceTest  # noqa: E402,F401

import once  # noqa: E402

logging.getLogger("once").setLevel(logging.CRITICAL)  # the tests make handlers fail


class ClientTest(OnceTest):
    def setUp(self):
        super().setUp()
        self.environment["PYTHONPATH"] = str(CLIENT)
        self.environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self.serve()
        self.client = self.connect()

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

    def connect(self, url=None, **options):
        client = once.Once(url or self.url, **options)
        self.addCleanup(client.close)
        return client

    def proxy(self, kind=Proxy, **options):
        """A client behind a proxy, and the proxy."""
        proxy = kind(self.address, **options).start()
        self.addCleanup(proxy.close)
        return self.connect(f"http://127.0.0.1:{proxy.port}"), proxy

    # --- Workers

    def run_in_thread(self, client, **options):
        """client.run() on a thread. The test stops and joins it at its end."""
        raised = []

        def run():
            try:
                client.run(signals=False, **options)
            except once.OnceError as error:
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.raised = raised
        thread.start()
        self.addCleanup(self.stop_worker, client, thread)
        return thread

    def stop_worker(self, client, thread):
        if thread.is_alive():
            client.stop()
        thread.join(60)
        self.assertFalse(thread.is_alive(), "run() has not returned")

    def work(self, handler, queue="q", client=None, **options):
        """A worker on threads of this process."""
        client = client or self.connect()
        client.worker(queue, **options)(handler)
        return self.run_in_thread(client)

    def worker_process(self, code):
        """A worker in a process of its own. `code` has `once`, a client, and `mark(text)`."""
        head = (
            "import os, sys, time\n"
            "from once import *\n"
            f"once = Once({self.url!r})\n"
            "def mark(text):\n"
            "    with open('marks', 'a') as file: file.write(text + '\\n')\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", head + code],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(self._end, process)
        return process

    @property
    def marks(self):
        path = self.folder / "marks"
        return path.read_text().splitlines() if path.exists() else []

    def kill(self, process):
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    # --- Looks

    def story(self, id, queue="q"):
        views = self.client.task(id)["queues"]
        return next(view for view in views if view["queue"] == queue)

    def state(self, id, queue="q"):
        return self.story(id, queue)["state"]

    def attempts(self, id):
        return [attempt["outcome"] for attempt in self.story(id)["attempts"]]

    def steps(self, id):
        return [(step["step"], step["state"], step["runs"]) for step in self.story(id)["steps"]]

    def becomes(self, id, state, seconds=30):
        self.until(lambda: self.state(id) == state, f"{id} is {state}", seconds)
