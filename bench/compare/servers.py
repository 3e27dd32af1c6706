"""Fresh servers on loopback and free ports, each with a data folder of its own that goes with it."""
import contextlib
import dataclasses
import json
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import time

from role import Failed

PATIENCE = 60  # seconds until a server answers


@dataclasses.dataclass
class Server:
    url: str
    pids: list = dataclasses.field(default_factory=list)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(condition, process, log):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if (found := condition()):
            return found
        time.sleep(0.02)
    raise Failed("its server did not start: " + " | ".join(log.read_text(errors="replace").splitlines()[-8:]))


def answers(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def running(command, folder, condition, **options):
    """The process, from when the condition holds; ended with SIGTERM, or SIGKILL if it does not listen."""
    path = folder / "server.log"
    with open(path, "wb") as log:
        process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log,
                                   stdin=subprocess.DEVNULL, cwd=folder, **options)
    try:
        yield process, wait_for(condition, process, path)
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def none(folder):
    """SQLite: a file."""
    yield Server(str(folder / "zone.db"))


def nats(program, sync):
    @contextlib.contextmanager
    def start(folder):
        conf = folder / "server.conf"
        conf.write_text(f'listen: "127.0.0.1:-1"\nports_file_dir: "{folder}"\n'
                        f'jetstream {{ store_dir: "{folder}/data", {sync} }}\n')

        def url():
            for file in folder.glob("*.ports"):
                with contextlib.suppress(ValueError):
                    return json.loads(file.read_text())["nats"][0]
            return None

        with running([program, "-c", conf], folder, url) as (process, found):
            yield Server(found, [process.pid])
    return start


def redis(*settings):
    @contextlib.contextmanager
    def start(folder):
        port = free_port()
        command = ["redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", folder, *settings]
        with running(command, folder, lambda: answers(port)) as (process, _):
            yield Server(f"redis://127.0.0.1:{port}", [process.pid])
    return start


def newest_postgresql():
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    if found:
        return found[-1].parent
    installed = shutil.which("postgres")
    if not installed:
        raise Failed("PostgreSQL is not installed; `tools/setup peers` does it")
    return pathlib.Path(installed).resolve().parent


def _as_postgres(folder):
    """PostgreSQL refuses to run as root, so it runs as its own user then, in a folder given to it."""
    if os.geteuid() != 0:
        return []
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        raise Failed("there is no user postgres, and PostgreSQL does not run as root") from None
    os.chown(folder, user.pw_uid, user.pw_gid)
    change = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    if subprocess.run([*change, "test", "-w", str(folder)]).returncode != 0:
        raise Failed(f"the user postgres cannot reach {folder}; run the comparison in a tree that it can")
    return change


@contextlib.contextmanager
def postgresql(folder):
    binaries, port = newest_postgresql(), free_port()
    home = folder / "postgresql"
    home.mkdir()
    change = _as_postgres(home)
    made = subprocess.run([*change, binaries / "initdb", "-D", home / "data", "-U", "postgres", "-A", "trust",
                           "-E", "UTF8", "--locale", "C"], capture_output=True, text=True, cwd="/")
    if made.returncode != 0:
        raise Failed("initdb failed: " + made.stderr.strip().replace("\n", " | "))
    command = [*change, binaries / "postgres", "-D", home / "data", "-p", port, "-k", home,
               "-c", "listen_addresses=127.0.0.1"]
    ready = [binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
    with running(command, folder, lambda: subprocess.run(ready).returncode == 0) as (process, _):
        yield Server(f"postgres://postgres@127.0.0.1:{port}/postgres", [process.pid])


def restate(program):
    @contextlib.contextmanager
    def start(folder):
        ingress, admin, node = free_port(), free_port(), free_port()
        conf = folder / "restate.toml"
        conf.write_text(f'base-dir = "{folder}/data"\n'
                        f'bind-address = "127.0.0.1:{node}"\n'
                        f'advertised-address = "http://127.0.0.1:{node}"\n'
                        'listen-mode = "tcp"\ndisable-telemetry = true\nlog-filter = "warn"\n'
                        f'[admin]\nbind-address = "127.0.0.1:{admin}"\n'
                        f'[ingress]\nbind-address = "127.0.0.1:{ingress}"\n')
        with running([program, "--config-file", conf], folder,
                     lambda: answers(ingress) and answers(admin)) as (process, _):
            yield Server(f"http://127.0.0.1:{ingress},http://127.0.0.1:{admin},{free_port()}", [process.pid])
    return start
