"""Real nats-servers on the loopback, one or three, with JetStream: started, killed, paused and
started again; and a bare connection to look at them beside Once. They die with the test.

The program is $ONCE_NATS_SERVER, or what tools/nats-server has put into the build folder.
"""

import ctypes
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FETCHED = ROOT / "build" / "nats-server" / "usr" / "sbin" / "nats-server"
NONE = "THE STORE ON NATS IS NOT TESTED: there is no nats-server; tools/nats-server fetches one"
SKIPPED = 77  # what a test ends with that has no server; ctest counts it as skipped


def program():
    """None: there is no server to test on."""
    given = os.environ.get("ONCE_NATS_SERVER")
    if given:
        return Path(given)
    return FETCHED if FETCHED.exists() else None


def end_without_server():
    """Ends this process as skipped, aloud, where there is no server."""
    if program() is None:
        print(f"SKIPPED: {NONE}", file=sys.stderr)
        sys.exit(SKIPPED)


def until(condition, what, seconds=60):
    """Waits for the condition and gives back what it gave."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        given = condition()
        if given:
            return given
        time.sleep(0.02)
    raise TimeoutError(f"not within {seconds} s: {what}")


class Connection:
    """Speaks the text protocol, one question at a time."""

    def __init__(self, port, timeout=5):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.file = self.socket.makefile("rb")
        self.inbox = f"_INBOX.{random.getrandbits(64):x}"
        self.asked = 0
        self.file.readline()  # INFO
        self._send(b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n')
        self._send(f"SUB {self.inbox}.* 1\r\nPING\r\n".encode())
        while self.file.readline() != b"PONG\r\n":
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def _send(self, text):
        self.socket.sendall(text)

    def ask(self, subject, payload=b""):
        """(reply subject, payload) of the answer. ConnectionError when nobody is there to answer."""
        self.asked += 1
        self._send(f"PUB {subject} {self.inbox}.{self.asked} {len(payload)}\r\n".encode() + payload + b"\r\n")
        return self._answer(subject)

    def put(self, subject, payload, headers):
        """The acknowledgement of a message with headers."""
        self.asked += 1
        head = "NATS/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
        sizes = f"{len(head)} {len(head) + len(payload)}"
        self._send(f"HPUB {subject} {self.inbox}.{self.asked} {sizes}\r\n{head}".encode() + payload + b"\r\n")
        return json.loads(self._answer(subject)[1])

    def _answer(self, subject):
        while True:
            words = self.file.readline().decode().split()
            if not words:
                raise ConnectionError("the server closed the connection")
            if words[0] == "PING":
                self._send(b"PONG\r\n")
            elif words[0] in ("MSG", "HMSG"):
                sizes = 2 if words[0] == "HMSG" else 1
                head = int(words[-2]) if sizes == 2 else 0
                data = self.file.read(int(words[-1]) + 2)[:-2]
                if data[:head].startswith(b"NATS/1.0 503"):
                    raise ConnectionError(f"nobody answers {subject}")
                return words[3] if len(words) == 4 + sizes else "", data[head:]

    def request(self, subject, payload=b""):
        return self.ask(subject, payload)[1]

    def pull(self, stream, consumer, seconds=5):
        """The next delivery and where to answer it; nothing came: ("", b"")."""
        expires = json.dumps({"batch": 1, "expires": int(seconds * 1e9)}).encode()
        self.socket.settimeout(seconds + 5)
        return self.ask(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", expires)

    def api(self, question, **body):
        """A question to JetStream."""
        return json.loads(self.request(f"$JS.API.{question}", json.dumps(body).encode() if body else b""))


def free_ports(count):
    """Below the range from which outgoing connections get theirs: nobody takes them while their
    server is down."""
    ports = []
    while len(ports) < count:
        port = random.randrange(12000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


# What is started so dies with the thread that started it: one thread starts all, and outlives them.
_starter = ThreadPoolExecutor(max_workers=1)


def _die_with_starter():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def start(command, log):
    """A process that dies with this one, however that ends."""
    with open(log, "ab") as out:
        return _starter.submit(
            subprocess.Popen, command,
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=_die_with_starter,
        ).result()  # fmt: skip


class Node:
    def __init__(self, folder, name, port, more):
        self.folder, self.name, self.port, self.process = folder, name, port, None
        folder.mkdir()
        self.configuration = folder / "server.conf"
        self.configuration.write_text(
            f"server_name: {name}\nlisten: 127.0.0.1:{port}\nmax_payload: 8MB\n"
            f'jetstream {{ store_dir: "{folder}/data" }}\n{more}\n'
        )

    def start(self):
        self.process = start([program(), "-c", self.configuration], self.folder / "log")

    def greets(self):
        if self.process.poll() is not None:
            raise ChildProcessError(f"{self.name} ended: {self.said()}")
        try:
            with self.connect():
                return True
        except OSError:
            return False

    def connect(self, timeout=5):
        return Connection(self.port, timeout)

    def said(self):
        return (self.folder / "log").read_text(errors="replace")

    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.running():
            self.process.kill()
            self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)


class Cluster:
    """`nodes` servers, one by default. Use it in a `with`."""

    def __init__(self, nodes=1):
        self.folder = Path(tempfile.mkdtemp(prefix="once-nats-"))
        ports, routes = free_ports(nodes), free_ports(nodes)
        while set(ports) & set(routes):
            routes = free_ports(nodes)
        peers = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
        self.nodes = []
        for n in range(nodes):
            more = f"cluster {{ name: once, listen: 127.0.0.1:{routes[n]}, routes: [{peers}] }}" if nodes > 1 else ""
            self.nodes.append(Node(self.folder / f"n{n + 1}", f"n{n + 1}", ports[n], more))

    def __enter__(self):
        try:
            for node in self.nodes:
                node.start()
            for node in self.nodes:
                until(node.greets, f"{node.name} greets")
            until(self.ready, "JetStream answers")
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, zone=""):
        return "nats://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes) + (f"/{zone}" if zone else "")

    def ask(self, question, **body):
        """Of whichever node answers; None: none does just now."""
        for node in self.nodes:
            if not node.running():
                continue
            try:
                with node.connect(timeout=2) as connection:
                    answer = connection.api(question, **body)
            except (OSError, ValueError):
                continue
            if answer.get("error", {}).get("code") != 503:
                return answer
        return None

    def ready(self):
        """A leader is elected and knows every node."""
        answer = self.ask("INFO")
        if answer is None or "error" in answer:
            return False
        if len(self.nodes) == 1:
            return True
        name = f"READY_{random.getrandbits(32):x}"
        made = self.ask(f"STREAM.CREATE.{name}", name=name, subjects=[name], num_replicas=len(self.nodes))
        if made is None or "error" in made:
            return False
        self.ask(f"STREAM.DELETE.{name}")
        return True

    def stream(self, name):
        return self.ask(f"STREAM.INFO.{name}")

    def leader(self, stream):
        """The node that leads a stream; None: nobody just now."""
        info = self.stream(stream)
        name = (info or {}).get("cluster", {}).get("leader")
        return next((node for node in self.nodes if node.name == name), None)

    def in_step(self, stream):
        """Does every replica hold all of the stream?"""
        peers = (self.stream(stream) or {}).get("cluster", {}).get("replicas", [])
        return len(peers) == len(self.nodes) - 1 and all(peer.get("current") for peer in peers)
