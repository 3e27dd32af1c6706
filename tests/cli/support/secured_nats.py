"""A nats-server of the test's own with a login, and keys and JWTs as NATS writes them, by openssl."""

import base64
import json
import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FETCHED = ROOT / "build/nats-server/usr/sbin/nats-server"
PROGRAM = os.environ.get("ONCE_NATS_SERVER") or (str(FETCHED) if FETCHED.exists() else "")
SKIPPED = "THE STORE ON NATS IS NOT TESTED: there is no nats-server; tools/nats-server fetches one"


def roles():
    """The server's configuration of docs/nats-permissions.md."""
    text = (ROOT / "docs/nats-permissions.md").read_text()
    return text.split("```conf\n")[1].split("```")[0]


class SecuredNats:
    def __init__(self, folder, configuration, **environment):
        folder.mkdir()
        (folder / "server.conf").write_text(
            f'listen: 127.0.0.1:-1\nports_file_dir: "{folder}"\n'
            f'jetstream {{ store_dir: "{folder}/data" }}\n{configuration}\n'
        )
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "-c", str(folder / "server.conf")],
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
            )
        ports = folder / f"{Path(PROGRAM).name}_{self.process.pid}.ports"
        self.address = self._wait_for(ports).split("://")[1]

    def _wait_for(self, ports):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                return json.loads(ports.read_text())["nats"][0]
            except (OSError, ValueError):
                time.sleep(0.01)
        raise AssertionError("nats-server did not come up:\n" + self.log.read_text())

    def stop(self):
        self.process.kill()
        self.process.wait()


def openssl(folder, *arguments, data=b""):
    done = subprocess.run(
        ["openssl", *arguments], cwd=folder, input=data, capture_output=True, check=True
    )
    return done.stdout


def _check_sum(data):
    total = 0
    for byte in data:
        total ^= byte << 8
        for _ in range(8):
            total = (total << 1 ^ 0x1021 if total & 0x8000 else total << 1) & 0xFFFF
    return total.to_bytes(2, "little")


def _base32(data):
    return base64.b32encode(data + _check_sum(data)).decode().rstrip("=")


class Key:
    """Of an operator, an account or a user."""

    KINDS = {"operator": 14 << 3, "account": 0, "user": 20 << 3}

    def __init__(self, folder, kind):
        self.folder, self.kind = folder, kind
        prefix = self.KINDS[kind]
        self.pem = openssl(folder, "genpkey", "-algorithm", "ed25519")
        private = openssl(folder, "pkey", "-outform", "DER", data=self.pem)[-32:]
        public = openssl(folder, "pkey", "-pubout", "-outform", "DER", data=self.pem)[-32:]
        self.public = _base32(bytes([prefix]) + public)
        self.seed = _base32(bytes([18 << 3 | prefix >> 5, (prefix & 31) << 3]) + private)

    def sign(self, data):
        (self.folder / "signing.pem").write_bytes(self.pem)
        (self.folder / "signing").write_bytes(data)
        return openssl(
            self.folder, "pkeyutl", "-sign", "-rawin", "-inkey", "signing.pem", "-in", "signing"
        )

    def jwt(self, about, **nats):
        """What this key says of that one."""

        def encoded(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=")

        claims = {
            "jti": about.public,
            "iat": int(time.time()) - 60,
            "iss": self.public,
            "name": about.kind,
            "sub": about.public,
            "nats": {"type": about.kind, "version": 2, **nats},
        }
        header = {"typ": "JWT", "alg": "ed25519-nkey"}
        text = b".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
        return (text + b"." + encoded(self.sign(text))).decode()


def creds(jwt, seed):
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
