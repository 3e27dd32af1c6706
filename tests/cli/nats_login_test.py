#!/usr/bin/env -S python3 -B
"""Logging in to NATS from the command line; and that nobody is told the secret by it."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from once_command import OnceTest  # noqa: E402
from secured_nats import PROGRAM, SKIPPED, Key, SecuredNats, creds, openssl, roles  # noqa: E402

SECRET = "s3cret-of-ada"
UNLIMITED = {
    name: -1
    for name in ["subs", "data", "payload", "imports", "exports", "conn", "leaf", "mem_storage",
                 "disk_storage", "streams", "consumer"]
}  # fmt: skip


@unittest.skipUnless(PROGRAM, SKIPPED)
class NatsTest(OnceTest):
    def serve(self, configuration, scheme="nats", **environment):
        server = SecuredNats(self.folder / "server", configuration, **environment)
        self.addCleanup(server.stop)
        self.environment["ONCE_STORE"] = f"{scheme}://{server.address}"
        return server

    def file(self, name, text):
        (self.folder / name).write_text(text)
        return name


class Login(NatsTest):
    def test_by_name_and_password(self):
        self.serve(f'authorization {{ user: ada, password: "{SECRET}" }}')
        options = ["--nats-user", "ada", "--nats-password", SECRET]
        self.ok(*options, "queue", "add", "other", "--topic", "other")
        self.ok(*options, "publish", "t", "--id", "a")
        self.ok("publish", "t", "--id", "b", *options)
        variables = {"ONCE_NATS_USER": "ada", "ONCE_NATS_PASSWORD": SECRET}
        self.ok("publish", "t", "--id", "c", **variables)
        self.ok("publish", "t", "--id", "d", "--nats-user=ada", ONCE_NATS_PASSWORD=SECRET)
        self.refused(2, "log", "--nats-user", "ada")
        # One way that is given silences the variables of the others.
        self.refused(5, "log", "--nats-token", "x", **variables)
        self.assertEqual(4, len(self.ok("log", "--json", **variables).lines))

    def test_by_token(self):
        self.serve(f'authorization {{ token: "{SECRET}" }}')
        self.ok("queue", "add", "other", "--topic", "other", "--nats-token", SECRET)
        self.ok("publish", "t", "--nats-token", SECRET)
        self.ok("publish", "t", ONCE_NATS_TOKEN=SECRET)

    def test_by_nkey(self):
        key = Key(self.folder, "user")
        self.serve(f"authorization {{ users: [ {{ nkey: {key.public} }} ] }}")
        self.file("seed", key.seed + "\n")
        self.ok("queue", "add", "other", "--topic", "other", "--nkey", "seed")
        self.ok("publish", "t", "--nkey", "seed")
        self.ok("publish", "t", ONCE_NATS_NKEY="seed")

    def test_by_creds(self):
        operator, system, account, user = (
            Key(self.folder, kind) for kind in ["operator", "account", "account", "user"]
        )
        limits = {**UNLIMITED, "wildcards": True}
        self.serve(
            f"operator: {operator.jwt(operator)}\n"
            f"system_account: {system.public}\n"
            "resolver: MEMORY\n"
            "resolver_preload: {\n"
            f"  {system.public}: {operator.jwt(system, limits={**limits, 'mem_storage': 0, 'disk_storage': 0})}\n"
            f"  {account.public}: {operator.jwt(account, limits=limits)}\n"
            "}\n"
        )
        inbox = {"allow": [f"_INBOX_once.{user.public}.>"]}
        jwt = account.jwt(user, subs=-1, data=-1, payload=-1, sub=inbox, pub={"allow": [">"]})
        self.file("ada.creds", creds(jwt, user.seed))
        self.ok("queue", "add", "other", "--topic", "other", "--creds", "ada.creds")
        self.ok("publish", "t", "--creds", "ada.creds")
        self.ok("publish", "t", ONCE_NATS_CREDS="ada.creds")
        self.file("other.creds", creds(jwt, Key(self.folder, "user").seed))
        self.assertIn("refused the login", self.refused(5, "log", "--creds", "other.creds"))

    def test_by_certificate(self):
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        openssl(self.folder, "req", *curve, "-x509", "-days", "2", "-subj", "/CN=ca",
                "-keyout", "ca.key", "-out", "ca.pem")  # fmt: skip
        for name, host in [("server", "IP:127.0.0.1"), ("client", "email:ada@example.org")]:
            self.file("ext", f"subjectAltName={host}\n")
            openssl(self.folder, "req", *curve, "-subj", f"/CN={name}", "-keyout", f"{name}.key",
                    "-out", f"{name}.csr")  # fmt: skip
            openssl(self.folder, "x509", "-req", "-days", "2", "-in", f"{name}.csr", "-CA", "ca.pem",
                    "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "ext", "-out", f"{name}.pem")  # fmt: skip
        here = self.folder
        self.serve(
            f'tls {{ cert_file: "{here}/server.pem", key_file: "{here}/server.key", '
            f'ca_file: "{here}/ca.pem", verify: true }}',
            scheme="tls",
        )
        tls = ["--tls-ca", "ca.pem", "--tls-cert", "client.pem", "--tls-key", "client.key"]
        self.ok("queue", "add", "other", "--topic", "other", *tls)
        self.ok("publish", "t", *tls)
        variables = {"CA": "ca.pem", "CERT": "client.pem", "KEY": "client.key"}
        self.ok("log", **{f"ONCE_NATS_TLS_{name}": file for name, file in variables.items()})
        self.refused(5, "log", *tls[:2])
        self.refused(5, "log")

    def test_a_mistake_is_told_without_the_secret(self):
        server = self.serve(f'authorization {{ user: ada, password: "{SECRET}" }}')
        key = Key(self.folder, "user")
        self.file("nothing", SECRET)
        user = ["--nats-user", "ada", "--nats-password"]
        for code, arguments, says in [
            (5, ["log", *user, SECRET + "x"], "refused the login"),
            (5, ["log", "--nats-token", SECRET], "refused the login"),
            (5, ["log"], "refused the login"),
            (2, ["log", "--store", f"nats://ada:{SECRET}@{server.address}"], "--nats-password"),
            (2, ["log", "--nats-password", SECRET], "without a user"),
            (2, ["log", *user, SECRET, "--nats-token", SECRET], "more than one login"),
            (2, ["log", "--nkey", key.seed], "cannot be read: No such file"),
            (2, ["log", "--nkey", "nothing"], "holds no seed"),
            (2, ["log", "--creds", "missing"], "cannot be read: No such file"),
            (2, ["log", "--creds", "nothing"], "holds no user JWT"),
            (2, ["log", "--tls-ca", "nothing"], "holds no certificates"),
            (2, ["--nats-pasword", SECRET, "log"], "did you mean --nats-password?"),
            (2, ["log", "--nats-pasword", SECRET], "did you mean --nats-password?"),
            (2, ["log", f"--nats-pasword={SECRET}"], "did you mean --nats-password?"),
            (2, [*user, SECRET, "--nats-password", SECRET, "log"], "given 2 times"),
        ]:
            with self.subTest(arguments=arguments):
                said = self.refused(code, *arguments)
                self.assertIn(says, said)
                answer = self.once("--json", "-v", *arguments)
                for text in (said, answer.out, answer.err):
                    self.assertNotIn(SECRET, text)
                    self.assertNotIn(key.seed, text)


class Secrets(NatsTest):
    def test_nobody_is_told(self):
        self.serve(f'authorization {{ user: ada, password: "{SECRET}" }}')
        self.environment.update(
            ONCE_NATS_USER="ada", ONCE_NATS_PASSWORD=SECRET, ONCE_NATS_INBOX="_INBOX_s3cret-of-ada"
        )
        told = []

        def run(*arguments):
            answer = self.ok("-v", *arguments)
            told.append(answer.out + answer.err)
            return answer

        # The program, its step, its probe, and the supervisor above them, as each sees its environment.
        look = self.script("look", "tr '\\0' '\\n' < /proc/$PPID/environ; env; tr '\\0' ' ' < /proc/$PPID/cmdline\n")
        program = self.script(
            "program",
            f'{look} > seen.$ONCE_ATTEMPT; "$ONCE_BIN" step look -- {look} > step.$ONCE_ATTEMPT\n'
            '[ "$ONCE_ATTEMPT" = 1 ] && exit 74\n'
            'echo "\\"$(env | tr -cd A-Za-z0-9_=-)\\""\n',
        )
        run("queue", "add", "q", "--topic", ">", "--in-doubt", "probe", "--backoff", "10ms")
        run("publish", "t", "--id", "a")
        run("work", "q", "--until-empty", "--probe", f"{look} > probe; exit 1", "--", program)
        for command in (["inspect", "a"], ["status"], ["list"], ["log"], ["queue", "show", "q"]):
            run(*command)
            run("--json", *command)
        for name in ("seen.1", "step.1", "probe", "seen.2"):
            seen = (self.folder / name).read_text()
            self.assertIn("ONCE_STORE=nats://127.0.0.1", seen, name)
            told.append(seen)
        result = self.ok("inspect", "a", "--json").line["queues"][0]
        self.assertEqual("completed", result["state"])
        self.assertIn("ONCE_ID=a", result["result"])
        for text in told:
            self.assertNotIn(SECRET, text)
            self.assertNotIn("ONCE_NATS_", text)

    def test_a_program_needs_a_login_of_its_own(self):
        key = Key(self.folder, "user")
        self.serve(
            f'authorization {{ users: [ {{ user: ada, password: "{SECRET}" }}, {{ nkey: {key.public} }} ] }}'
        )
        self.file("seed", key.seed)
        self.environment.update(ONCE_NATS_USER="ada", ONCE_NATS_PASSWORD=SECRET)
        program = self.script(
            "program",
            'cat > /dev/null; "$ONCE_BIN" publish none && exit 65\n'
            f'[ $? = 5 ] && "$ONCE_BIN" publish next --id next --nkey {self.folder}/seed\n',
        )
        self.ok("queue", "add", "q", "--topic", "first")
        self.ok("publish", "first", "--id", "a")
        self.ok("work", "q", "--until-empty", "--", program)
        self.assertEqual("completed", self.ok("inspect", "a", "--json").line["queues"][0]["state"])
        self.assertEqual(["a", "next"], [line["id"] for line in self.ok("log", "--json").lines])


class Roles(NatsTest):
    def test_what_a_role_lacks_is_exit_5_and_named(self):
        names = ["publisher", "worker", "auditor", "retention", "admin"]
        self.serve(roles(), **{f"ONCE_{name.upper()}_PASSWORD": f"of-{name}" for name in names})

        def role(name):
            return {"ONCE_NATS_USER": name, "ONCE_NATS_PASSWORD": f"of-{name}"}

        def lacks(name, subject, *arguments):
            said = self.refused(5, *arguments, **role(name))
            self.assertIn(f'Permissions Violation for Publish to "{subject}', said)

        lacks("publisher", "$JS.API.STREAM.CREATE.", "queue", "add", "q", "--topic", ">")
        self.ok("queue", "add", "q", "--topic", ">", **role("admin"))
        self.ok("publish", "t", "--id", "a", **role("publisher"))
        lacks("publisher", "$JS.API.", "status")
        lacks("auditor", "once.main.log.b.t", "publish", "t", "--id", "b")
        lacks("auditor", "once-count.main.member", "work", "q", "--", "true")
        lacks("worker", "$KV.once_main_meta.queue.r", "work", "r", "--topic", "t", "--", "true")
        self.ok("work", "q", "--topic", ">", "--until-empty", "--", "echo", "1", **role("worker"))
        self.ok("metrics", "--quick", **role("worker"))  # as work --metrics-port tells it
        self.assertEqual("1\n", self.ok("wait", "a", **role("auditor")).out)
        for command in (["status"], ["metrics"], ["list"], ["inspect", "a"], ["log"], ["dead", "list"]):
            self.ok(*command, **role("auditor"))
        lacks("worker", "$KV.once_main_meta.retention", "retention", "--bodies", "1d")
        self.ok("retention", "--bodies", "1ms", "--run", **role("retention"))
        self.ok("queue", "remove", "q", **role("admin"))


if __name__ == "__main__":
    unittest.main()
