#!/usr/bin/env -S python3 -B
"""once serve for other machines: TLS, proxies, what it refuses to start, and what it tells systemd."""

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from https import make_certificate, make_expired_certificate, trusting  # noqa: E402
from once_command import OnceTest  # noqa: E402


class PublicTest(OnceTest):
    def setUp(self):
        super().setUp()
        self.secret = self.ok("token", "add", "t", "--role", "operate", "-q").out.strip()

    def serve(self, *arguments, scheme="https", **environment):
        self.process = self.start("serve", *arguments, env={**self.environment, **environment})
        line = self.process.stderr.readline().decode()
        self.assertRegex(line, rf"\Aonce: listening on {scheme}://\S+:\d+\n\Z")
        self.port = int(line.rsplit(":", 1)[1])

    def ask(self, method, path, body=None, connection=None, **headers):
        connection = connection or self.connect()
        headers = {"Authorization": f"Bearer {self.secret}", **{k.replace("_", "-"): v for k, v in headers.items()}}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode()

    def connect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.addCleanup(connection.close)
        return connection


class Tls(PublicTest):
    def setUp(self):
        super().setUp()
        self.certificate, key = make_certificate(self.folder)
        self.serve("--listen", "0.0.0.0:0", "--tls-cert", self.certificate.name, "--tls-key", key.name)

    def connect(self):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=trusting(self.certificate))
        self.addCleanup(connection.close)
        return connection

    def raw(self, context=None):
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.addCleanup(plain.close)
        encrypted = (context or trusting(self.certificate)).wrap_socket(plain, server_hostname="127.0.0.1")
        self.addCleanup(encrypted.close)
        return encrypted

    def head(self, path, more=""):
        return f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.secret}\r\n{more}\r\n".encode()

    def test_many_requests_on_a_connection(self):
        connection = self.connect()
        for n in range(5):
            body = json.dumps({"n": n, "text": "x" * (n * 40_000)})  # more than one record of TLS
            status, text = self.ask("POST", f"/v1/topics/t?id=a{n}", body, connection, Content_Type="application/json")
            self.assertEqual(201, status, text)
        status, text = self.ask("GET", "/v1/log", connection=connection)
        self.assertEqual([0, 40_000, 80_000, 120_000, 160_000],
                         [len(entry["body"]["text"]) for entry in json.loads(text)["entries"]])  # fmt: skip

    def test_a_large_body(self):
        lines = "".join('{"topic":"t","id":"n%d","body":"%s"}\n' % (n, "y" * 500_000) for n in range(8))
        status, text = self.ask("POST", "/v1/tasks:batch", lines, Content_Type="application/x-ndjson")
        self.assertEqual((200, 8), (status, len(text.splitlines())))
        status, text = self.ask("GET", "/v1/log")
        self.assertGreater(len(text), 4_000_000)

    def test_requests_that_come_together(self):
        connection = self.raw()
        connection.sendall(self.head("/healthz") + self.head("/readyz") + self.head("/v1/queues", "Connection: close\r\n"))
        said = b"".join(iter(lambda: connection.recv(4096), b""))
        self.assertEqual(3, said.count(b"HTTP/1.1 200 OK"), said)

    def test_a_token_is_needed(self):
        connection = self.connect()
        connection.request("GET", "/v1/log")
        self.assertEqual(401, connection.getresponse().status)

    def test_any_host_but_no_other_origin(self):
        self.assertEqual(200, self.ask("GET", "/v1/log", Host="once.example.org")[0])
        self.assertEqual(200, self.ask("GET", "/v1/log", Host="o.org", Origin="https://o.org")[0])
        for origin in ["https://evil.example", "http://o.org", "null"]:
            self.assertEqual(403, self.ask("GET", "/v1/log", Host="o.org", Origin=origin)[0])

    def test_a_client_that_does_not_trust_the_certificate(self):
        with self.assertRaises(ssl.SSLCertVerificationError):
            self.raw(ssl.create_default_context())
        self.assertEqual(200, self.ask("GET", "/v1/log")[0])

    def test_old_tls_is_refused(self):
        for version, works in [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)]:
            with self.subTest(version=version):
                context = trusting(self.certificate)
                context.set_ciphers("ALL:@SECLEVEL=0")
                with warnings.catch_warnings(action="ignore"):  # of TLS 1.1, which is what is tested
                    context.minimum_version = context.maximum_version = version
                if works:
                    self.assertEqual(version.name.replace("_", "."), self.raw(context).version().replace("_", "."))
                else:
                    with self.assertRaises((ssl.SSLError, ConnectionError)):
                        self.raw(context)

    def test_plain_http_is_told_so(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.addCleanup(connection.close)
        connection.sendall(b"GET /v1/log HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said = b"".join(iter(lambda: connection.recv(4096), b""))
        self.assertTrue(said.startswith(b"HTTP/1.1 400 Bad Request\r\n"), said)
        self.assertIn(b"https://", said)

    def test_nonsense_and_silence_end(self):
        silent = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.addCleanup(silent.close)
        begun = time.monotonic()
        for bytes in [b"\0" * 100, b"\x16\x03\x01\xff\xff" + b"x" * 100, b"SSH-2.0-x\r\n", b""]:
            with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
                connection.sendall(bytes)
                connection.shutdown(socket.SHUT_WR)
                try:
                    while connection.recv(4096):
                        pass
                except ConnectionError:
                    pass
        self.assertEqual(b"", silent.recv(1))  # no handshake within ten seconds
        self.assertTrue(8 < time.monotonic() - begun < 30)
        self.assertEqual(200, self.ask("GET", "/v1/log")[0])

    def test_long_polls(self):
        self.ok("queue", "add", "q", "--topic", "t")
        answers = []
        poll = lambda: answers.append(self.ask("POST", "/v1/queues/q/claims", '{"worker":"w","wait":"1m"}',  # noqa: E731
                                               Content_Type="application/json"))  # fmt: skip
        thread = threading.Thread(target=poll)
        thread.start()
        self.until(lambda: self.ok("status", "--json").lines[0]["workers"] == 1, "the poll waits")
        self.ok("publish", "t", "--id", "a")
        thread.join(30)
        self.assertEqual(["a"], [offer["id"] for offer in json.loads(answers[0][1])["claims"]])

    def test_a_client_that_leaves_frees_its_place(self):
        """TLS says goodbye by a record, a dying client by nothing."""
        self.ok("publish", "t", "--id", "a", "--delay", "1h")
        self.ok("queue", "add", "q", "--topic", "t")
        before = self.sockets()
        polls = [self.raw() for _ in range(20)]
        for connection in polls:
            connection.sendall(self.head("/v1/tasks/a/result?wait=4m"))
        self.until(lambda: self.sockets() >= before + 20, "every poll is there")
        for n, connection in enumerate(polls):
            if n % 2:
                connection.setblocking(False)
                try:
                    connection.unwrap()  # sends the record, and does not wait for the server's
                except ssl.SSLError:  # there is no answer yet, or the server has closed
                    pass
            connection.close()
        self.until(lambda: self.sockets() <= before, "the places are free")

    def sockets(self):
        """How many sockets the server has open."""
        count = 0
        for entry in Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                count += os.readlink(entry).startswith("socket:")
            except FileNotFoundError:  # closed meanwhile
                pass
        return count

    def test_the_server_ends_in_time(self):
        idle, poll = self.raw(), self.raw()
        self.ok("queue", "add", "q", "--topic", "t")
        body = '{"worker":"w","wait":"4m"}'
        poll.sendall(f"POST /v1/queues/q/claims HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.secret}\r\n"
                     f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())  # fmt: skip
        self.until(lambda: self.ok("status", "--json").lines[0]["workers"] == 1, "the poll waits")
        self.process.send_signal(signal.SIGTERM)
        self.assertIn(b'{"claims":[]}', b"".join(iter(lambda: poll.recv(4096), b"")))
        self.assertEqual(0, self.process.wait(timeout=15))
        idle.close()

    def test_curl(self):
        done = subprocess.run(["curl", "-sS", "--cacert", self.certificate, "-H", f"Authorization: Bearer {self.secret}",
                               f"https://localhost:{self.port}/readyz"], capture_output=True, timeout=60)  # fmt: skip
        self.assertEqual((0, b'{"ready":true}\n'), (done.returncode, done.stdout), done.stderr)

    def test_the_last_token_goes(self):
        self.ok("token", "remove", "t")
        self.until(lambda: self.ask("GET", "/v1/log")[0] == 401, "the token is refused")
        connection = self.connect()
        connection.request("GET", "/v1/log")
        self.assertEqual(401, connection.getresponse().status)
        self.assertEqual(200, self.ask("GET", "/healthz")[0])


class Starting(PublicTest):
    def test_files_that_do_not_fit(self):
        certificate, key = make_certificate(self.folder)
        other, _ = make_certificate(self.folder, "other")
        expired, expired_key = make_expired_certificate(self.folder)
        locked, locked_key = make_certificate(self.folder, "locked", key_options=("-passout", "pass:secret"))
        (self.folder / "text").write_text("no PEM\n")
        for given, given_key, said in [
            ("missing", key, "missing: this is no readable certificate"), (certificate, "missing", "missing: this is no readable key"),
            ("text", key, "text: this is no readable certificate"), (certificate, "text", "text: this is no readable key"),
            (other, key, "server.key: the key is not that of"), (expired, expired_key, "the certificate has expired"),
            (locked, locked_key, "without a password"), (".", key, "no readable certificate"),
        ]:  # fmt: skip
            with self.subTest(given=str(given), key=str(given_key)):
                message = self.refused(2, "serve", "--listen", ":0", "--tls-cert", str(given), "--tls-key", str(given_key))
                self.assertIn(said, message)
                self.assertIn("nothing was started", message)

    def test_another_address_needs_tls_and_tokens(self):
        certificate, key = make_certificate(self.folder)
        for listen in ["0.0.0.0:0", "[::]:0", "10.1.2.3:7070"]:
            message = self.refused(2, "serve", "--listen", listen)
            self.assertIn("--tls-cert", message)
            self.assertIn("--behind-proxy", message)
        self.ok("token", "remove", "t")
        for more in [["--tls-cert", str(certificate), "--tls-key", str(key)], ["--behind-proxy"]]:
            self.assertIn("once token add", self.refused(2, "serve", "--listen", "0.0.0.0:0", *more))
        # A proxy makes loopback and a Unix socket reachable.
        for more in [["--listen", ":0"], ["--socket", "s"]]:
            self.assertIn("once token add", self.refused(2, "serve", "--behind-proxy", *more))

    def test_behind_a_proxy(self):
        self.serve("--listen", "0.0.0.0:0", "--behind-proxy", scheme="http")
        self.assertEqual(200, self.ask("GET", "/v1/log", Host="once.example.org")[0])
        self.assertEqual(200, self.ask("GET", "/v1/log", Host="inner", X_Forwarded_Host="o.org", Origin="https://o.org")[0])
        self.assertEqual(403, self.ask("GET", "/v1/log", Host="inner", Origin="https://o.org")[0])
        self.secret = "once_wrong"
        self.assertEqual(401, self.ask("GET", "/v1/log")[0])

    def test_loopback_with_tls_and_tokens_on_a_socket(self):
        certificate, key = make_certificate(self.folder)
        self.serve("--listen", ":0", "--socket", "s", "--tls-cert", str(certificate), "--tls-key", str(key))
        self.assertIn(b"unix:s", self.process.stderr.readline())
        for token, status in [(self.secret, b"200 OK"), ("x", b"401 Unauthorized")]:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(self.folder / "s"))
                connection.sendall(f"GET /v1/log HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
                self.assertIn(status, connection.recv(4096))


class Notify(PublicTest):
    def told(self, address, name):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(address)
            manager.settimeout(60)
            self.serve("--listen", ":0", scheme="http", NOTIFY_SOCKET=name)
            self.assertEqual(b"READY=1", manager.recv(4096))
            self.assertEqual(200, self.ask("GET", "/v1/log")[0])
            self.process.send_signal(signal.SIGTERM)
            self.assertEqual(b"STOPPING=1", manager.recv(4096))
            self.assertEqual(0, self.process.wait(timeout=30))

    def test_a_path(self):
        path = str(self.folder / "notify")
        self.told(path, path)

    def test_an_abstract_name(self):
        self.told(f"\0{self.folder.name}", f"@{self.folder.name}")

    def test_a_manager_that_is_not_there(self):
        for name in ["/none/notify", "@none", "relative", "", "/" + "x" * 200]:
            with self.subTest(name=name):
                self.serve("--listen", ":0", scheme="http", NOTIFY_SOCKET=name)
                self.process.send_signal(signal.SIGTERM)
                self.assertEqual(0, self.process.wait(timeout=30))


if __name__ == "__main__":
    unittest.main()
