"""A nats-server of the test's own, on a free port of the loopback. It dies with the test."""

import ctypes
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

FETCHED = Path(__file__).resolve().parents[3] / "build/nats-server/usr/sbin/nats-server"
PROGRAM = os.environ.get("ONCE_NATS_SERVER") or (str(FETCHED) if FETCHED.exists() else "")
MISSING = "THE STORE ON NATS IS NOT TESTED: there is no nats-server; tools/nats-server fetches one"


def _die_with_the_test():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class NatsNode:
    def __init__(self, monitored=False):
        self.folder = Path(tempfile.mkdtemp(prefix="once-nats-"))
        self.port = _free_port()
        self.monitor = _free_port() if monitored else None
        self.process = None

    @property
    def url(self):
        return f"nats://127.0.0.1:{self.port}"

    def start(self, *more):
        command = [PROGRAM, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", self.folder / "data", *more]
        if self.monitor:
            command += ["-m", str(self.monitor)]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, preexec_fn=_die_with_the_test
            )
        deadline = time.monotonic() + 30
        while not self._greets():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError("nats-server did not come up: " + (self.folder / "log").read_text())
            time.sleep(0.01)

    def _greets(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as line:
                return line.recv(1) == b"I"
        except OSError:
            return False

    def messages(self):
        """How many have come and gone so far, as a monitored server counts them."""
        line = http.client.HTTPConnection("127.0.0.1", self.monitor, timeout=30)
        line.request("GET", "/varz")
        counted = json.load(line.getresponse())
        line.close()
        return counted["in_msgs"] + counted["out_msgs"]

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def wipe(self):
        shutil.rmtree(self.folder / "data")

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
